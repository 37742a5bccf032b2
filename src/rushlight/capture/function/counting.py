"""Numbers of a graph behind the end of another one, which are others at each turn of a loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from rushlight.capture.function.whole import MOST_CONTAINERS, QUIET_GRAPHS
from rushlight.capture.numbers import ProgramNumbers
from rushlight.capture.resume.breaks import PASSED_BY, Break
from rushlight.eager.tracing import TracedNumber
from rushlight.sym import Scope

_MOST = 2 * QUIET_GRAPHS  # graphs for numbers of one place, before none relies on one
_NAMES = re.compile(r"\ba\d+\b")  # of arguments, in the text of a number


def names_in(text: str) -> set[str]:
    """The arguments that the text of a number names."""
    return set(_NAMES.findall(text))


class CountingNumbers(ProgramNumbers):
    """Numbers of which some are known to change. `counts`, by argument, are the graphs made for other numbers."""

    __slots__ = ("counts",)

    def __init__(self, scope: Scope, given: Callable[[], dict[str, str]], counts: Mapping[str, int]) -> None:
        super().__init__(scope, given)
        self.counts = Counter(counts)

    def changes(self, number: TracedNumber) -> bool:
        """Whether a number is computed from an argument that several graphs were made for."""
        return self._graphs(number) >= MOST_CONTAINERS

    def fix(self, number: TracedNumber) -> None:
        """Makes the program rely on a number's value. Errors: Break where too many graphs did."""
        if self._graphs(number) >= _MOST:
            raise Break(PASSED_BY, "an index or a count is another one at each call")
        super().fix(number)

    def _graphs(self, number: TracedNumber) -> int:
        return max([self.counts[name] for name in names_in(number.text)], default=0) if self.counts else 0
