"""Lists that grow from turn to turn of a loop that is compiled in parts."""

from __future__ import annotations

from collections.abc import Sequence
from types import BuiltinFunctionType

from rushlight.capture.resume.reached import is_passed
from rushlight.eager.handle import Handle


class Growth:
    """Which lists of numbers and texts grow from place to place of a call: their values tell nothing of later turns."""

    __slots__ = ("_grown", "_sizes")

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._grown: set[int] = set()

    def note(self, state: Sequence[object]) -> None:
        """Looks at the lists of the state at a place."""
        for value in state:
            if type(value) is list and self._sizes.setdefault(id(value), len(value)) < len(value):
                self._grown.add(id(value))

    def passes(self, value: object) -> bool:
        """Whether graphs of a new place pass by a value, so that they serve the turns to come."""
        if type(value) is BuiltinFunctionType:
            return is_passed(value) or self.passes(value.__self__)
        if (
            type(value) is list
            and id(value) in self._grown
            and not any(issubclass(type(part), Handle) for part in value)
        ):
            return True
        return is_passed(value)
