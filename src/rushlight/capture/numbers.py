"""Python numbers of one traced program: which of them it relies on, and which are sizes."""

from __future__ import annotations

from typing import Any

from rushlight.eager.tracing import TracedNumber
from rushlight.sym import Scope, SizeExpr


class ProgramNumbers:
    """Keeps account of the numbers of a program.

    `fixed` are the values that it relies on, by the numbers' text; `sizes` the symbols of integers that are sizes,
    indices, or compared.
    """

    __slots__ = ("_scope", "fixed", "sizes")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.fixed: dict[str, Any] = {}
        self.sizes: dict[str, SizeExpr] = {}

    def fix(self, number: TracedNumber) -> None:
        """Makes the program rely on a number's value."""
        self.fixed[number.text] = number.value

    def size(self, number: TracedNumber) -> SizeExpr:
        """The symbol for an integer of the program, with what it is here as its hint."""
        found = self.sizes.get(number.text)
        if found is None:
            found = self.sizes[number.text] = self._scope.symbol(hint=number.value, lower=None, source=number.text)
        return found
