"""Functions in which no graph is found, as that which steps a simulator: Python calls them as they are from then on.

They take neither the time of an interpreter nor places, of which a function has few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import CodeType, FunctionType

from rushlight.capture.interpreter.binding import SUSPENDING
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.resume.blueprint import is_ours
from rushlight.support.interpreted import is_interpreted

_PACKAGE = __name__.partition(".")[0]
_CALLING = (f"{_PACKAGE}.nn.modules.module", f"{_PACKAGE}.nn.modules.container")  # what is interpreted of ours
MOST_EMPTY = 8  # places of a function, and of what it calls, at which there was no graph


class Graphless:
    """The code of functions that one compiled function calls without a graph. In `fruitful` code operators were."""

    __slots__ = ("_empty", "codes", "fruitful")

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self._empty = Counter[CodeType]()
        self.fruitful: set[CodeType] = set()

    def is_leaf(self, function: FunctionType) -> bool:
        """Whether Python calls a function as it is."""
        return function.__code__ in self.codes or is_leaf(function)

    def left(self, code: CodeType) -> bool:
        """Whether a function whose call is over is called as it is from now on."""
        if self._empty[code] < MOST_EMPTY or code in self.fruitful or code.co_flags & SUSPENDING:
            return False
        self.codes.add(code)
        return True

    def tried(self, codes: Sequence[CodeType]) -> None:
        """There was no graph at a place in calls of this code."""
        self._empty.update(codes)

    def clear(self) -> None:
        """Forgets all."""
        self.codes.clear()
        self._empty.clear()
        self.fruitful.clear()


class OpenCalls:
    """The calls within a function, in one run, in which a place without a graph was found: the outermost first."""

    __slots__ = ("_graphless", "codes")

    def __init__(self, graphless: Graphless) -> None:
        self._graphless = graphless
        self.codes: list[CodeType] = []

    def tried(self, frames: Sequence[Frame]) -> None:
        """There was no graph at a place."""
        self.codes = [frame.body.raw for frame in frames[1:]]
        self._graphless.tried(self.codes)

    def left(self, frames: Sequence[Frame]) -> CodeType | None:
        """The outermost function that has returned and is called as it is from now on, if there is one."""
        depth = 0
        for frame, code in zip(frames[1:], self.codes, strict=False):
            if frame.body.raw is not code:
                break
            depth += 1
        over, self.codes = self.codes[depth:], self.codes[:depth]
        return next((code for code in over if self._graphless.left(code)), None)


def is_leaf(function: FunctionType) -> bool:
    """Whether a function of ours is called as it is. Modules' calls are interpreted, since they call the user's."""
    module: str = function.__globals__.get("__name__", "")
    return is_ours(module) and module not in _CALLING and not is_interpreted(function)
