"""The engine of one rank: each collective is complete at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rushlight.distributed.engine.call import Call
from rushlight.distributed.engine.engine import Engine
from rushlight.distributed.engine.movement import MOVE
from rushlight.distributed.engine.work import Done, Work


class Alone(Engine):
    """The one rank of a world. `number` is its number in the group of all, where it was split from more."""

    kind = "self"

    def __init__(self, number: int = 0) -> None:
        super().__init__(0, (number,))

    def issue(self, call: Call) -> Work:
        """Does a call."""
        self._number(call)
        MOVE[call.verb]([call])
        return Done()

    def split(self, ranks: Sequence[int]) -> Engine:
        """Another engine of the one rank."""
        return Alone(self._ranks[0])

    def abort(self, code: int, message: str) -> None:
        """Ends the process."""
        sys.stderr.write(message + "\n")
        sys.exit(code)
