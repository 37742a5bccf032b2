"""Sizes by name: variables of a specification, expressions of them, and assumptions about them.

They belong to no scope: equal names are the same integer wherever they meet. The arithmetic is that of `sym`, over one
symbol per name of which nothing is known, so equal expressions have equal forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight.support.errors import fail, require
from rushlight.sym import Condition, Size, SizeExpr, eq, floordiv, format_size, ge, gt, le, lt, mod, ne
from rushlight.sym.expr import FLOORDIV, SymbolFacts, as_size
from rushlight.sym.query import bottom_up
from rushlight.sym.symbols import new_symbol

RESERVED = frozenset(("_", "where", "and", "hint", "int", "float", "min", "max", "strides", "any"))

_symbols: dict[str, SizeExpr] = {}


def symbol_named(name: str) -> SizeExpr:
    """The symbol that stands for a name in expressions and assumptions of specifications."""
    symbol = _symbols.get(name)
    if symbol is None:
        symbol = _symbols.setdefault(name, new_symbol(SymbolFacts(name, lower=None)))
    return symbol


def divides_by_integers(size: SizeExpr) -> bool:
    """Whether an expression divides by positive integers alone, as those of specifications do."""
    divisors = [node.operands[1] for node in bottom_up(size) if node.op is FLOORDIV]
    return all(isinstance(divisor, int) and divisor > 0 for divisor in divisors)


class ShapeExpr:
    """An integer expression of named variables, such as `2*B + 1` or `T // 8`.

    `+`, `-`, `*`, and `//` and `%` by positive integers give expressions; comparisons give assumptions.
    """

    __slots__ = ("size", "variables")

    size: SizeExpr
    variables: tuple[ShapeVar, ...]

    def __init__(self, size: SizeExpr, variables: Iterable[ShapeVar]) -> None:
        fits = divides_by_integers(size)
        require(fits, "A002", f"spec: sizes are divided by positive integers only, not as in {size}")
        self.size = size
        self.variables = distinct(variables)

    def __add__(self, other: object) -> int | ShapeExpr:
        return _combined(self, other, lambda a, b: a + b)

    def __radd__(self, other: object) -> int | ShapeExpr:
        return _combined(self, other, lambda a, b: b + a)

    def __sub__(self, other: object) -> int | ShapeExpr:
        return _combined(self, other, lambda a, b: a - b)

    def __rsub__(self, other: object) -> int | ShapeExpr:
        return _combined(self, other, lambda a, b: b - a)

    def __mul__(self, other: object) -> int | ShapeExpr:
        return _combined(self, other, lambda a, b: a * b)

    def __rmul__(self, other: object) -> int | ShapeExpr:
        return _combined(self, other, lambda a, b: b * a)

    def __floordiv__(self, other: object) -> int | ShapeExpr:
        return _combined(self, _divisor(other), floordiv)

    def __mod__(self, other: object) -> int | ShapeExpr:
        return _combined(self, _divisor(other), mod)

    def __neg__(self) -> int | ShapeExpr:
        return _combined(self, -1, lambda a, b: a * b)

    def __lt__(self, other: object) -> Assumption:
        return _compared(self, other, lt(self.size, _size_of(other)))

    def __le__(self, other: object) -> Assumption:
        return _compared(self, other, le(self.size, _size_of(other)))

    def __gt__(self, other: object) -> Assumption:
        return _compared(self, other, gt(self.size, _size_of(other)))

    def __ge__(self, other: object) -> Assumption:
        return _compared(self, other, ge(self.size, _size_of(other)))

    def __eq__(self, other: object) -> Any:
        return _compared(self, other, eq(self.size, _size_of(other))) if _is_size(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return _compared(self, other, ne(self.size, _size_of(other))) if _is_size(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.size)

    def __str__(self) -> str:
        return format_size(self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


class ShapeVar(ShapeExpr):
    """An integer variable of a specification: min <= variable <= max, a multiple of `multiple_of`.

    Without `min` (None) it is at least 0 where it occurs in a shape, and any integer otherwise. `hint` is a typical
    value, for choices that change speed alone.
    """

    __slots__ = ("hint", "max", "min", "multiple_of", "name")

    def __init__(
        self, name: str, min: int | None = 0, max: int | None = None, multiple_of: int = 1, hint: int | None = None
    ) -> None:
        valid = name.isidentifier() and name.isascii() and name not in RESERVED
        require(valid, "C018", f"spec: {name!r} cannot be the name of a variable")
        require(multiple_of >= 1, "A002", f"spec: multiple_of of {name} is {multiple_of}, and must be at least 1")
        ShapeExpr.__init__(self, symbol_named(name), ())
        self.name = name
        self.min = min
        self.max = max
        self.multiple_of = multiple_of
        self.hint = hint
        self.variables = (self,)

    @property
    def facts(self) -> tuple[str, int | None, int | None, int, int | None]:
        """Name, min, max, multiple_of and hint."""
        return self.name, self.min, self.max, self.multiple_of, self.hint

    def __repr__(self) -> str:
        parts = [repr(self.name)]
        if self.min != 0:
            parts.append(f"min={self.min}")
        if self.max is not None:
            parts.append(f"max={self.max}")
        if self.multiple_of != 1:
            parts.append(f"multiple_of={self.multiple_of}")
        if self.hint is not None:
            parts.append(f"hint={self.hint}")
        return f"ShapeVar({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapeVar, self.facts


class Assumption:
    """A relation between expressions that a specification takes to be true: `B < 32`, `T % 8 == 0`, `S == 2*B + 1`.

    `condition` is a bool where it is the same for all values. What the variables were declared with is assumed too.
    """

    __slots__ = ("condition", "variables")

    def __init__(self, condition: bool | Condition, variables: Iterable[ShapeVar]) -> None:
        self.condition = condition
        self.variables = distinct(variables)

    def __bool__(self) -> bool:
        hint = "pass it in assumptions=[...]; write a chain such as 1 <= B < 32 as two, or in text"
        if not isinstance(self.condition, bool):
            fail("C024", f"spec: whether {self.condition} is not known: it is an assumption about any call", hint=hint)
        return self.condition

    def __repr__(self) -> str:
        return f"Assumption({self.condition})"


def distinct(variables: Iterable[ShapeVar]) -> tuple[ShapeVar, ...]:
    """The variables without those that repeat another's name and facts."""
    return tuple({variable.facts: variable for variable in variables}.values())


def expression(size: Size, variables: Iterable[ShapeVar]) -> int | ShapeExpr:
    """The expression with this form; an integer where no variable is left."""
    return size if isinstance(size, int) else ShapeExpr(size, variables)


def _combined(a: ShapeExpr, b: object, rule: Callable[[Size, Size], Size]) -> int | ShapeExpr:
    return expression(rule(a.size, _size_of(b)), (*a.variables, *_variables_of(b))) if _is_size(b) else NotImplemented


def _compared(a: ShapeExpr, b: object, condition: bool | Condition) -> Assumption:
    return Assumption(condition, (*a.variables, *_variables_of(b)))


def _is_size(value: object) -> bool:
    return isinstance(value, ShapeExpr) or (not isinstance(value, SizeExpr) and as_size(value) is not None)


def _size_of(value: object) -> Size:
    if isinstance(value, ShapeExpr):
        return value.size
    size = as_size(value)
    if size is None:
        fail("A001", f"spec: sizes are integers and expressions of variables, not {type(value).__name__}", value=value)
    return size


def _variables_of(value: object) -> tuple[ShapeVar, ...]:
    return value.variables if isinstance(value, ShapeExpr) else ()


def _divisor(value: object) -> int:
    if not isinstance(value, int) or value <= 0:
        fail("A002", f"spec: sizes are divided by positive integers only, not by {value}")
    return value
