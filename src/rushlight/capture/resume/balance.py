"""Whether the graphs of a function pay: what they save, and what running the function in parts takes.

Both are counted in bytecodes that are interpreted, of some two microseconds each, so that it does not depend on the
machine or on what else runs there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.ir.type import TensorType
from rushlight.sym.hints import backed_hint

OF_OPERATOR = 20  # saved by a call in a graph: it is dispatched in 2 to 5 microseconds, or fused with others
_OF_ELEMENTS = 2_000  # elements of a result, of which a pass over memory takes as long as a bytecode
OF_GRAPH = 10  # what entering and leaving a graph takes
OF_TRACE = 5_000  # what making one takes at least
_FIRST_CALLS = 4  # make graphs, and are not looked at
_LEAST = 500  # a call that loses less, a millisecond, is one that pays
MOST_LOST = 100_000  # in calls that follow each other


class Balance:
    """What the calls of a function have lost, one after another. Where it is too much the function `is_lost`."""

    __slots__ = ("_calls", "_lost", "is_lost")

    def __init__(self) -> None:
        self.clear()

    def ended(self, gained: int) -> bool:
        """Is told of a call, and how many bytecodes it has gained. True where the function is lost from now on."""
        self._calls += 1
        if self._calls <= _FIRST_CALLS or self.is_lost:
            return False
        self._lost = self._lost - gained if gained < -_LEAST else 0
        self.is_lost = self._lost > MOST_LOST
        return self.is_lost

    def clear(self) -> None:
        """Forgets all."""
        self._calls = self._lost = 0
        self.is_lost = False


def saved_by(calls: Iterable[Any]) -> int:
    """How many bytecodes a graph of such calls saves. A size that values tell counts as 1."""
    saved = 0
    for call in calls:
        saved += OF_OPERATOR
        types = call.type if type(call.type) is tuple else (call.type,)
        for each in types:
            if isinstance(each, TensorType):
                elements = 1
                for size in each.shape:
                    hint = backed_hint(size)
                    elements *= 1 if hint is None else hint
                saved += elements // _OF_ELEMENTS
    return saved
