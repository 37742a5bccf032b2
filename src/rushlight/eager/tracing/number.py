"""Python numbers of a traced program that are known only when it runs: learning rates, step counts, arguments."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from threading import get_ident
from typing import Any, Protocol

import numpy as np

from rushlight.eager.dispatch import STATE
from rushlight.eager.execution.operands import NUMBER_FORMS, number_class
from rushlight.eager.handle import META, Handle, Version
from rushlight.eager.symbols import SymFloat, SymInt
from rushlight.ir.value import SYNTAX
from rushlight.support.errors import require
from rushlight.sym import SizeExpr

_LONGEST = 400  # characters of a number's text: those of a chain nest less deep than Python allows
_NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor")
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {name: getattr(operator, f"__{name}__") for name in _NAMES}
RELATIONS: dict[Callable[..., object], str] = {
    operator.lt: "<",
    operator.le: "<=",
    operator.eq: "==",
    operator.ne: "!=",
    operator.gt: ">",
    operator.ge: ">=",
}
_OPERANDS = (Handle, SymInt, SymFloat, SizeExpr, complex, np.generic)  # beside ints and floats


class Numbers(Protocol):
    """Keeps account of the numbers of a traced program.

    `made` has the numbers that exist, by their text. Numbers refer to it, so it forgets them when the trace is over.
    They are numbers of a program in the `thread` that traces it.
    """

    made: dict[str, TracedNumber]
    thread: int

    def changes(self, number: TracedNumber) -> bool:
        """Whether the number is another one at each call, so that nothing may rely on its text."""
        ...

    def fix(self, number: TracedNumber) -> None:
        """Makes the program rely on the number's value."""
        ...

    def size(self, number: TracedNumber) -> SizeExpr:
        """The symbol for an integer that is used as a size, an index or in a comparison."""
        ...

    def named(self, text: str) -> str:
        """A variable for what a long text computes, so that texts do not double with each operation."""
        ...


class TracedNumber(Handle):
    """A number with a Python expression for it (`text`) and the value it has while tracing.

    Arithmetic among numbers is text that Python evaluates before each run, so its bits are Python's. With tensors it
    is a weakly typed 0-d operand. An integer that is a size or is compared is a symbol, of which what is asked is
    guarded, as is the outcome of comparing floats; asking either for its value fixes it. Another thread, which finds it
    in state that the program reaches, computes with its value.
    """

    __slots__ = ("numbers", "text", "value")

    text: str
    value: Any
    numbers: Numbers

    def _make(self, text: str, value: object) -> TracedNumber:
        return traced_number(text, value, self.numbers)

    def _fixed(self) -> Any:
        if not self._is_elsewhere():
            self.numbers.fix(self)
        return self.value

    def _is_elsewhere(self) -> bool:
        """Whether a thread asks that does not trace the program."""
        return STATE.tracer is None and self.numbers.thread != get_ident()

    @property
    def is_integer(self) -> bool:
        """Whether it is an int."""
        return self.value.__class__ is int

    def size(self) -> SizeExpr:
        """The integer as a size."""
        return self.numbers.size(self)

    def _compare(self, other: object, relation: Callable[..., object]) -> Any:
        """Whether it holds; with a size, a condition, which nobody may ever ask for its truth."""
        if self._is_elsewhere():
            return relation(self.value, _plain(other))
        if self.is_integer:
            if isinstance(other, SymInt):
                return relation(SymInt(self.size()), other)
            if isinstance(other, TracedNumber) and other.is_integer:
                other = SymInt(other.size())
            if isinstance(other, (int, SymInt)):
                return bool(relation(SymInt(self.size()), other))
        if isinstance(other, TracedNumber):
            return self._related(relation, other.text, other.value)
        if isinstance(other, (int, float)):
            return self._related(relation, _source_of(other), other)
        return bool(relation(self._fixed(), _plain(other)))

    def _related(self, relation: Callable[..., object], text: str, value: object) -> Any:
        """Whether it is so related to a number; that is fixed."""
        return self._make(f"({self.text} {RELATIONS[relation]} {text})", bool(relation(self.value, value)))._fixed()

    def _binary(self, name: str, symbol: str, other: object, swapped: bool) -> Any:
        if self._is_elsewhere():
            other = _plain(other)
            return _FUNCTIONS[name](*((other, self.value) if swapped else (self.value, other)))
        if self.is_integer and isinstance(other, SymInt):
            mine = SymInt(self.size())
            return getattr(operator, name)(*((other, mine) if swapped else (mine, other)))
        if isinstance(other, TracedNumber):
            text, value = other.text, other.value
        elif isinstance(other, (int, float)):
            text, value = _source_of(other), other
        elif not isinstance(other, _OPERANDS):
            return NotImplemented
        else:
            syntax = SYNTAX[name]
            return syntax(other, self) if swapped else syntax(self, other)
        left, right = (text, value), (self.text, self.value)
        return self._computed(name, symbol, *((left, right) if swapped else (right, left)), other)

    def _computed(self, name: str, symbol: str, left: tuple[str, Any], right: tuple[str, Any], other: object) -> object:
        """What a binary operator makes of numbers. Where that is an error, or complex, both numbers are fixed."""
        try:
            value = _FUNCTIONS[name](left[1], right[1])
        except (ArithmeticError, TypeError, ValueError):
            _plain(other)
            self._fixed()
            raise
        if value.__class__ is complex:
            _plain(other)
            self._fixed()
            return value
        decides = name in ("lshift", "rshift") or (name == "pow" and left[1].__class__ is right[1].__class__ is int)
        if decides and not right[0].lstrip("-").isdigit():  # whether there is a result, and of which class
            self._make(f"({right[0]} >= 0)", right[1] >= 0)._fixed()
        return self._make(f"({left[0]} {symbol} {right[0]})", value)

    def __add__(self, other: object) -> Any:
        return self._binary("add", "+", other, False)

    def __radd__(self, other: object) -> Any:
        return self._binary("add", "+", other, True)

    def __sub__(self, other: object) -> Any:
        return self._binary("sub", "-", other, False)

    def __rsub__(self, other: object) -> Any:
        return self._binary("sub", "-", other, True)

    def __mul__(self, other: object) -> Any:
        return self._binary("mul", "*", other, False)

    def __rmul__(self, other: object) -> Any:
        return self._binary("mul", "*", other, True)

    def __truediv__(self, other: object) -> Any:
        return self._binary("truediv", "/", other, False)

    def __rtruediv__(self, other: object) -> Any:
        return self._binary("truediv", "/", other, True)

    def __floordiv__(self, other: object) -> Any:
        return self._binary("floordiv", "//", other, False)

    def __rfloordiv__(self, other: object) -> Any:
        return self._binary("floordiv", "//", other, True)

    def __mod__(self, other: object) -> Any:
        return self._binary("mod", "%", other, False)

    def __rmod__(self, other: object) -> Any:
        return self._binary("mod", "%", other, True)

    def __pow__(self, other: object) -> Any:
        return self._binary("pow", "**", other, False)

    def __rpow__(self, other: object) -> Any:
        return self._binary("pow", "**", other, True)

    def __lshift__(self, other: object) -> Any:
        return self._binary("lshift", "<<", other, False)

    def __rlshift__(self, other: object) -> Any:
        return self._binary("lshift", "<<", other, True)

    def __rshift__(self, other: object) -> Any:
        return self._binary("rshift", ">>", other, False)

    def __rrshift__(self, other: object) -> Any:
        return self._binary("rshift", ">>", other, True)

    def __and__(self, other: object) -> Any:
        return self._binary("and", "&", other, False)

    def __rand__(self, other: object) -> Any:
        return self._binary("and", "&", other, True)

    def __or__(self, other: object) -> Any:
        return self._binary("or", "|", other, False)

    def __ror__(self, other: object) -> Any:
        return self._binary("or", "|", other, True)

    def __xor__(self, other: object) -> Any:
        return self._binary("xor", "^", other, False)

    def __rxor__(self, other: object) -> Any:
        return self._binary("xor", "^", other, True)

    def __divmod__(self, other: object) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> Any:
        return other // self, other % self

    def _unary(self, text: str, value: object) -> Any:
        return value if self._is_elsewhere() else self._make(text, value)

    def __invert__(self) -> Any:
        return self._unary(f"(~{self.text})", ~self.value) if self.is_integer else ~self._fixed()

    def __pos__(self) -> Any:
        return self.value if self._is_elsewhere() else self

    def __neg__(self) -> Any:
        return self._unary(f"(-{self.text})", -self.value)

    def __abs__(self) -> Any:
        return self._unary(f"abs({self.text})", abs(self.value))

    def item(self) -> Any:
        """The number itself, which is fixed by this."""
        return self._fixed()

    def __round__(self, digits: int | None = None) -> float:
        return round(self._fixed(), digits)

    def __bool__(self) -> bool:
        if self._is_elsewhere():
            return bool(self.value)
        return bool(SymInt(self.size())) if self.is_integer else self._related(operator.ne, "0", 0)

    def __int__(self) -> int:
        return int(self._fixed())

    def __index__(self) -> int:
        require(self.is_integer, "A001", "a whole number is expected", value=self.value)
        return operator.index(self._fixed())

    def __float__(self) -> float:
        return float(self._fixed())

    def __str__(self) -> str:
        return str(self._fixed())

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: object) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: object) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: object) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: object) -> Any:
        return self._compare(other, operator.ge)

    def __hash__(self) -> int:
        return hash(self._fixed())

    def __format__(self, spec: str) -> str:
        return format(self._fixed(), spec)

    def __repr__(self) -> str:
        return repr(self._fixed())


def _source_of(value: float) -> str:
    """Python's source of a number, also of a class of its own, that stands anywhere in an expression."""
    if isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        return f"({int.__repr__(value)})" if value < 0 else int.__repr__(value)
    if math.isfinite(value):
        return f"({float.__repr__(value)})" if math.copysign(1.0, value) < 0 else float.__repr__(value)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return f"float('{sign}{float.__repr__(abs(value))}')"


def _plain(other: object) -> object:
    return other._fixed() if isinstance(other, TracedNumber) else other


def traced_number(text: str, value: object, numbers: Numbers) -> TracedNumber:
    """A number that `text` computes at run time, the same for the same text: a program takes it but once."""
    number = numbers.made.get(text)
    if number is not None:
        return number
    if len(text) > _LONGEST:
        text = numbers.named(text)
    self = numbers.made[text] = object.__new__(TracedNumber)
    self.backing = None
    self.offset = 0
    self.form = NUMBER_FORMS[number_class(value)]
    self.keys = META
    self.version = Version()
    self.view_of = None
    self.gradient = None
    self.node = None
    self.text = text
    self.value = value
    self.numbers = numbers
    return self
