"""Python numbers of one traced program: which values it depends on, and which numbers are sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import get_ident

from rushlight.eager.handle import Handle
from rushlight.eager.tracing import TracedNumber
from rushlight.sym import Origin, Scope, SizeExpr


class ProgramNumbers:
    """Keeps account of the numbers of a program.

    `fixed` are the values that it relies on, by the numbers' text; `sizes` the symbols of integers that are sizes,
    indices, or compared. `written` is how users write a number, by its text; `given` tells the same of the arguments,
    and of what has been read of objects among these. `variables` are what long texts are called, with these; without
    `abbreviates` there are none.
    """

    __slots__ = ("abbreviates", "fixed", "given", "made", "scope", "sizes", "thread", "variables", "written")

    def __init__(self, scope: Scope, given: Callable[[], dict[str, str]], abbreviates: bool = True) -> None:
        self.scope = scope
        self.thread = get_ident()
        self.given = given
        self.written = given()
        self.abbreviates = abbreviates
        self.variables: dict[str, str] = {}
        self.fixed: dict[str, float] = {}
        self.sizes: dict[str, SizeExpr] = {}
        self.made: dict[str, TracedNumber] = {}

    def changes(self, number: TracedNumber) -> bool:
        """Whether a number is known to be another one at each call. None is by itself."""
        return False

    def fix(self, number: TracedNumber) -> None:
        """Makes the program rely on a number's value."""
        self.fixed[number.text] = number.value

    def named(self, text: str) -> str:
        """A variable for what a long text computes."""
        if not self.abbreviates:
            return text
        name = f"n{len(self.variables)}"
        self.variables[name] = text
        return name

    def start(self, position: int, tensor: Handle) -> int:
        """Where an argument starts in its storage, which the program relies on from now on."""
        offset = self.fixed[f"a{position}.offset"] = tensor.offset
        return offset

    def size(self, number: TracedNumber) -> SizeExpr:
        """The symbol for an integer of the program, with what it is here as its hint."""
        symbol = self.sizes.get(number.text)
        if symbol is None:
            text = number.text
            origin = Origin("an integer of the call", written=self._as_written(text))
            symbol = self.sizes[text] = self.scope.symbol(hint=number.value, lower=None, source=origin)
        return symbol

    def settle(self) -> None:
        """Keeps how numbers are written as the trace ends, and lets go of its arguments."""
        self.written = self.given() | self.written
        self.given = dict

    def _as_written(self, text: str) -> str:
        """A number's text with the names that users know."""
        written = self.given() | self.written  # objects are opened as the program goes
        names = re.compile("|".join([rf"\b{re.escape(name)}(?!\w)" for name in written]) or "(?!)")
        return names.sub(lambda match: written[match[0]], text)
