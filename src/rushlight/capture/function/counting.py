"""Numbers and sizes that graphs rely on, and that are others at each turn of a loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

from rushlight.capture.arguments import Arguments, place_of, unpacking
from rushlight.capture.function.whole import MOST_CONTAINERS, QUIET_GRAPHS
from rushlight.capture.numbers import ProgramNumbers
from rushlight.capture.resume.breaks import PASSED_BY, Break
from rushlight.eager.dispatch import STATE
from rushlight.eager.tracing import TracedNumber
from rushlight.support.provenance import Frame
from rushlight.sym import Condition, Scope
from rushlight.sym.query import symbols_of

_NUMBER = re.compile(r"\ba\d+\b|\bv\d+(?:\.\w+|\[[^\]]*\])+")  # of the arguments or of the state, in another one's text
_OBJECT = re.compile(r"v\d+")


class Counts:
    """To which values the traces of one place in a function have fixed a number, or a size.

    A number is known by where it stands in the arguments or in the state, a size by the line that asks for it. No
    further graph relies on those that are `ended`.
    """

    __slots__ = ("_ended", "_values")

    def __init__(self) -> None:
        self._values: dict[Hashable, set[str]] = {}
        self._ended: set[Hashable] = set()

    def of(self, key: Hashable) -> int:
        """To how many values something was fixed."""
        return len(self._values.get(key, ()))

    def fix(self, key: Hashable, value: str, reason: str) -> None:
        """Something is fixed to a value. Errors: Break where it was fixed too often."""
        if key in self._ended and STATE.interpreter is not None:  # a backward pass has no place to end at
            raise Break(PASSED_BY, reason)
        values = self._values.setdefault(key, set())
        values.add(value)
        if len(values) == QUIET_GRAPHS:
            self._ended.add(key)

    def end(self) -> bool:
        """Has further graphs end before what was fixed several times. Whether there is something."""
        self._ended |= {key for key, values in self._values.items() if len(values) >= MOST_CONTAINERS}
        return bool(self._ended)

    def clear(self) -> None:
        """Forgets all traces."""
        self._values.clear()
        self._ended.clear()

    def asks(self, condition: Condition, frame: Frame | None) -> None:
        """Is told of what a trace takes for granted of sizes. Errors: Break before a size is fixed too often."""
        if frame is not None and condition.relation == "==" and len(symbols_of(condition.expr)) == 1:
            self.fix(frame, str(condition), "a size is another one at each call")


class CountingNumbers(ProgramNumbers):
    """Numbers of which some are known to change, by their `counts`."""

    __slots__ = ("_known", "arguments", "counts")

    def __init__(self, scope: Scope, given: Callable[[], dict[str, str]], counts: Counts, arguments: Arguments) -> None:
        super().__init__(scope, given)
        self.counts = counts
        self.arguments: Arguments | None = arguments
        self._known: dict[str, list[str]] = {}

    def changes(self, number: TracedNumber) -> bool:
        """Whether a number is computed from one that several graphs were made for."""
        return any(self.counts.of(place) >= MOST_CONTAINERS for place in self._places(number))

    def fix(self, number: TracedNumber) -> None:
        """Makes the program rely on a number's value. Errors: Break where too many graphs did."""
        for place in self._places(number):
            self.counts.fix(place, repr(number.value), "an index or a count is another one at each call")
        super().fix(number)

    def settle(self) -> None:
        """Keeps how numbers are written as the trace ends, and lets go of its arguments."""
        super().settle()
        self.arguments = None

    def _places(self, number: TracedNumber) -> list[str]:
        """Where the numbers stand that one is computed from: the same for all graphs of one place in a function."""
        text, arguments = number.text, self.arguments
        if text not in self._known and arguments is not None:
            variables, space = unpacking(arguments.unpack), arguments.names.space
            places = [place_of(one, variables) for one in _NUMBER.findall(text)]
            named = [_OBJECT.sub(lambda name: str(id(space.get(name[0]))), place, count=1) for place in places]
            self._known[text] = [*dict.fromkeys(named)]
        return self._known.get(text, [])
