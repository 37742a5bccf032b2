"""SymInt, SymFloat and SymBool: sizes of fake tensors as users compute with them.

Arithmetic gives another symbolic number; comparisons give a SymBool, whose truth asks `sym.guard`, and so may record
a guard.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

from rushlight.eager.dispatch import is_text_of_program
from rushlight.support.errors import RushlightError, error
from rushlight.sym import (
    Condition,
    SizeExpr,
    eq,
    floordiv,
    format_size,
    ge,
    gt,
    guard,
    guarding_hint_or_throw,
    le,
    lt,
    maximum,
    minimum,
    mod,
    ne,
    required,
)
from rushlight.sym import check as check_condition

Size = int | SizeExpr
Binary = Callable[..., Any]  # an operator of Python's, of two numbers
N = TypeVar("N", int, float)


def wrap_size(size: object) -> Any:
    """A size as the user sees it: an int, or a SymInt."""
    return SymInt(size) if isinstance(size, SizeExpr) else size


def wrap_sizes(value: object) -> Any:
    """`wrap_size` of a value, or of each in a tuple; other values pass."""
    return tuple(map(wrap_sizes, value)) if isinstance(value, tuple) else wrap_size(value)


def unwrap_size(value: object) -> Any:
    """A user's integer as a size; other values pass."""
    return value.expr if isinstance(value, SymInt) else value


def unwrap_sizes(value: object) -> Any:
    """`unwrap_size` of a value, or of each in a tuple."""
    return tuple(map(unwrap_sizes, value)) if isinstance(value, tuple) else unwrap_size(value)


class SymBool:
    """A condition on sizes. Its truth is guarded."""

    __slots__ = ("condition",)

    def __init__(self, condition: bool | Condition) -> None:
        self.condition = condition

    def __bool__(self) -> bool:
        return guard(self.condition)

    def __and__(self, other: object) -> bool:
        return bool(self) and bool(other)

    def __or__(self, other: object) -> bool:
        return bool(self) or bool(other)

    def __eq__(self, other: object) -> bool:
        return bool(self) == bool(other)

    def __hash__(self) -> int:
        return hash(bool(self))

    def __repr__(self) -> str:
        return repr(bool(self)) if is_text_of_program() else str(self.condition)

    def __format__(self, spec: str) -> str:
        return format(bool(self), spec) if spec else repr(self)


def _decided(condition: bool | Condition) -> bool | SymBool:
    return condition if isinstance(condition, bool) else SymBool(condition)


class SymInt:
    """An integer that is not known yet."""

    __slots__ = ("expr",)

    expr: SizeExpr

    def __init__(self, expr: SizeExpr) -> None:
        self.expr = expr

    def _with(self, other: object, function: Binary, floating: Binary, swapped: bool = False) -> Any:
        if isinstance(other, float):
            value = SymFloat(self)
            return floating(other, value) if swapped else floating(value, other)
        size = unwrap_size(other)
        if not isinstance(size, (int, SizeExpr)):
            return NotImplemented
        return wrap_size(function(size, self.expr) if swapped else function(self.expr, size))

    def __add__(self, other: object) -> Number:
        return self._with(other, operator.add, operator.add)

    __radd__ = __add__

    def __sub__(self, other: object) -> Number:
        return self._with(other, operator.sub, operator.sub)

    def __rsub__(self, other: object) -> Number:
        return self._with(other, operator.sub, operator.sub, True)

    def __mul__(self, other: object) -> Number:
        return self._with(other, operator.mul, operator.mul)

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Number:
        return self._with(other, floordiv, operator.floordiv)

    def __rfloordiv__(self, other: object) -> Number:
        return self._with(other, floordiv, operator.floordiv, True)

    def __mod__(self, other: object) -> Number:
        return self._with(other, mod, operator.mod)

    def __rmod__(self, other: object) -> Number:
        return self._with(other, mod, operator.mod, True)

    def __truediv__(self, other: object) -> float:
        return SymFloat(self) / other

    def __rtruediv__(self, other: float) -> float:
        return other / SymFloat(self)

    def __pow__(self, other: Any) -> Number:
        if other.__class__ is int and 0 <= other <= 8:
            return wrap_size(math.prod([self.expr] * other))
        return int(self) ** other

    def __rpow__(self, other: Any) -> Number:
        return other ** int(self)

    def __neg__(self) -> int | SymInt:
        return wrap_size(-self.expr)

    def __pos__(self) -> SymInt:
        return self

    def __abs__(self) -> int | SymInt:
        return wrap_size(maximum(self.expr, -self.expr))

    def _compare(self, other: object, relation: Binary, plain: Binary) -> Any:
        size = unwrap_size(other)
        if isinstance(size, float):
            return plain(int(self), size)
        return _decided(relation(self.expr, size)) if isinstance(size, (int, SizeExpr)) else NotImplemented

    def __eq__(self, other: object) -> Any:
        return self._compare(other, eq, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, ne, operator.ne)

    def __lt__(self, other: object) -> bool | SymBool:
        return self._compare(other, lt, operator.lt)

    def __le__(self, other: object) -> bool | SymBool:
        return self._compare(other, le, operator.le)

    def __gt__(self, other: object) -> bool | SymBool:
        return self._compare(other, gt, operator.gt)

    def __ge__(self, other: object) -> bool | SymBool:
        return self._compare(other, ge, operator.ge)

    def __hash__(self) -> int:
        return hash(int(self))  # in dicts and sets it stands for the number, and beside numbers

    def __bool__(self) -> bool:
        return guard(ne(self.expr, 0))

    def __index__(self) -> int:
        value = guarding_hint_or_throw(self.expr)
        guard(eq(self.expr, value), "a size was asked for its value")
        return value

    __int__ = __index__

    def __float__(self) -> float:
        return float(int(self))

    def __round__(self, digits: int | None = None) -> SymInt:
        return self

    def __repr__(self) -> str:
        return repr(int(self)) if is_text_of_program() else format_size(self.expr)

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else repr(self)

    def __deepcopy__(self, memo: object) -> SymInt:
        return self


class SymFloat:
    """A float computed from a size: a size times a constant. Its value is guarded when asked for."""

    __slots__ = ("_numerator", "_scale")

    def __init__(self, numerator: SymInt, scale: float = 1.0) -> None:
        self._numerator = numerator
        self._scale = scale

    def __float__(self) -> float:
        return int(self._numerator) * self._scale

    def __int__(self) -> int:
        return int(float(self))

    def __bool__(self) -> bool:
        return bool(float(self))

    def __add__(self, other: object) -> float:
        return float(self) + _as_float(other)

    __radd__ = __add__

    def __sub__(self, other: object) -> float:
        return float(self) - _as_float(other)

    def __rsub__(self, other: object) -> float:
        return _as_float(other) - float(self)

    def __mul__(self, other: object) -> float:
        return float(self) * _as_float(other)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> float:
        return float(self) / _as_float(other)

    def __rtruediv__(self, other: object) -> float:
        return _as_float(other) / float(self)

    def __pow__(self, other: object) -> float:
        return float(self) ** _as_float(other)

    def __rpow__(self, other: object) -> float:
        return _as_float(other) ** float(self)

    def __eq__(self, other: object) -> bool:
        return float(self) == other

    def __lt__(self, other: object) -> bool:
        return float(self) < _as_float(other)

    def __le__(self, other: object) -> bool:
        return float(self) <= _as_float(other)

    def __gt__(self, other: object) -> bool:
        return float(self) > _as_float(other)

    def __ge__(self, other: object) -> bool:
        return float(self) >= _as_float(other)

    def __hash__(self) -> int:
        return hash(float(self))

    def __repr__(self) -> str:
        if is_text_of_program():
            return repr(float(self))
        return f"float({self._numerator})" if self._scale == 1.0 else f"{self._scale} * float({self._numerator})"

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else repr(self)


Number = int | float | SymInt | SymFloat


def _as_float(value: object) -> float:
    if isinstance(value, (int, float, SymInt, SymFloat)):
        return float(value)
    raise error("A001", "a number is expected", value=value)


def check(condition: object, message: object = "") -> None:
    """Promises a condition on sizes, or on values that `item()` gave: what is compiled may rely on it.

    Where it is not known while tracing it is checked at each run, before anything is written. `message`, a text or a
    function that makes one, says what is wrong. Errors: R002.
    """
    promise = condition.condition if isinstance(condition, SymBool) else condition
    if promise is True:
        return
    said = message() if callable(message) else message
    check_condition(promise if isinstance(promise, Condition) else _truth(promise), str(said))


def _truth(condition: object) -> bool:
    try:
        return bool(condition)
    except RushlightError:
        raise
    except Exception as cause:
        raise error("A001", "check: a condition is expected", condition=condition) from cause


def holds(condition: object, message: str = "") -> bool:
    """Whether what a function needs of sizes holds: known, guarded, or asserted at run time. See `sym.required`."""
    return required(condition.condition, message) if isinstance(condition, SymBool) else bool(condition)


def sym_max(a: object, b: object) -> int | SymInt:
    """The larger of two sizes, without asking which it is."""
    return wrap_size(maximum(_size(a, "sym_max"), _size(b, "sym_max")))


def sym_min(a: object, b: object) -> int | SymInt:
    """The smaller of two sizes, without asking which it is."""
    return wrap_size(minimum(_size(a, "sym_min"), _size(b, "sym_min")))


def _size(value: object, op: str) -> Size:
    size = unwrap_size(value)
    if not isinstance(size, (int, SizeExpr)) or isinstance(size, bool):
        raise error("A001", f"{op}: a size is expected", value=value)
    return size


def _converted(value: object, kind: Callable[[Any], N], op: str) -> N:
    try:
        return kind(value)
    except RushlightError:
        raise
    except Exception as cause:
        raise error("A001", f"{op}: a number is expected", value=value) from cause


def sym_float(value: object) -> float | SymFloat:
    """A size as a float."""
    return SymFloat(value) if isinstance(value, SymInt) else _converted(value, float, "sym_float")


def sym_int(value: object) -> int | SymInt:
    """A number as an integer; SymInts pass."""
    return value if isinstance(value, SymInt) else _converted(value, int, "sym_int")


def sym_not(value: object) -> bool:
    """`not value`."""
    return not _truth(value)
