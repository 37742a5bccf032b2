"""Arithmetic, comparisons, logic and bits, element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.eager.symbols import unwrap_size
from rushlight.onnx.registry import define, operator, sizes, table
from rushlight.onnx.values import Numbers, Size, sizes_array
from rushlight.sym import divides, is_nonnegative

Binary = Callable[[Tensor, Tensor], Tensor]

table(
    {
        "Abs": rl.abs,
        "Acos": rl.acos,
        "Acosh": rl.acosh,
        "And": rl.logical_and,
        "Asin": rl.asin,
        "Asinh": rl.asinh,
        "Atan": rl.atan,
        "Atanh": rl.atanh,
        "BitwiseAnd": rl.bitwise_and,
        "BitwiseNot": rl.bitwise_not,
        "BitwiseOr": rl.bitwise_or,
        "BitwiseXor": rl.bitwise_xor,
        "Ceil": rl.ceil,
        "Cos": rl.cos,
        "Cosh": rl.cosh,
        "Equal": rl.eq,
        "Erf": rl.erf,
        "Exp": rl.exp,
        "Floor": rl.floor,
        "Greater": rl.gt,
        "GreaterOrEqual": rl.ge,
        "IsNaN": rl.isnan,
        "Less": rl.lt,
        "LessOrEqual": rl.le,
        "Log": rl.log,
        "Mul": rl.mul,
        "Neg": rl.neg,
        "Not": rl.logical_not,
        "Or": rl.logical_or,
        "Reciprocal": rl.reciprocal,
        "Round": rl.round,
        "Sign": rl.sign,
        "Sin": rl.sin,
        "Sinh": rl.sinh,
        "Sqrt": rl.sqrt,
        "Sub": rl.sub,
        "Tan": rl.tan,
        "Tanh": rl.tanh,
        "Where": rl.where,
        "Xor": rl.logical_xor,
        "Add": rl.add,
    }
)


@operator("Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    """The quotient; of integers, rounded towards zero."""
    return a / b if a.is_floating_point() else rl.div(a, b, rounding_mode="trunc")


@operator("Pow")
def power(a: Tensor, b: Tensor) -> Tensor:
    """A power in the first operand's dtype."""
    if a.dtype is b.dtype:
        return rl.pow(a, b)
    wide = rl.float64 if b.is_floating_point() and not a.is_floating_point() else a.dtype
    return rl.pow(a.to(wide), b.to(wide)).to(a.dtype)


@operator("Mod")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """The remainder, with the sign of the divisor, or with `fmod` of the dividend."""
    return rl.fmod(a, b) if fmod else rl.remainder(a, b)


@operator("BitShift")
def bit_shift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    """Bits moved left or right; what is moved by the width or more is 0, or -1 of what is negative."""
    moved = rl.bitwise_left_shift(a, b) if direction == "LEFT" else rl.bitwise_right_shift(a, b)
    sign = a.dtype.signed and direction != "LEFT"
    beyond = rl.where(a < 0, -rl.ones_like(moved), rl.zeros_like(moved)) if sign else rl.zeros_like(moved)
    return rl.where(b >= a.dtype.bits, beyond, moved)


@operator("IsInf")
def is_infinite(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Where numbers are infinite, of the signs that are asked for."""
    found = rl.isinf(x)
    if not detect_negative:
        found = found & (x > 0)
    return found if detect_positive else found & (x < 0)


@operator("Clip", 11)
def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Numbers moved into an interval; where its ends are the wrong way round, to the upper one."""
    x = x if low is None else rl.maximum(x, low)
    return x if high is None else rl.minimum(x, high)


@operator("Clip")
def clip_to_numbers(x: Tensor, *, min: float = -3.4028234663852886e38, max: float = 3.4028234663852886e38) -> Tensor:
    """Numbers moved into an interval."""
    return x.clamp(min, max)


def _folded(function: Binary) -> Callable[..., Tensor]:
    def fold(*operands: Tensor) -> Tensor:
        return functools.reduce(function, operands)

    return fold


for _name, _function in {"Max": rl.maximum, "Min": rl.minimum, "Sum": rl.add}.items():
    define(_name, _folded(_function), attributes=())


@operator("Mean")
def mean(*operands: Tensor) -> Tensor:
    """The mean of operands."""
    return functools.reduce(rl.add, operands) / len(operands)


@operator("CumSum", host=(1,))
def cumulative_sum(x: Tensor, axis: Numbers, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Running sums; `reverse` begins at the end, `exclusive` leaves out the element itself."""
    return _cumulative(rl.cumsum, 0, x, axis, exclusive, reverse)


@operator("CumProd", host=(1,))
def cumulative_product(x: Tensor, axis: Numbers, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Products of what comes before."""
    return _cumulative(rl.cumprod, 1, x, axis, exclusive, reverse)


def _cumulative(
    function: Callable[..., Tensor], start: int, x: Tensor, axis: Numbers, exclusive: int, reverse: int
) -> Tensor:
    dim = int(axis.reshape(-1)[0])
    x = x.flip(dim) if reverse else x
    if exclusive:
        first = rl.full_like(x.narrow(dim, 0, 1), start)
        x = rl.cat([first, x.narrow(dim, 0, x.shape[dim] - 1)], dim)
    result = function(x, dim).to(x.dtype)
    return result.flip(dim) if reverse else result


@sizes("Add")
def add_sizes(a: Numbers, b: Numbers) -> Numbers:
    """The sum."""
    return np.asarray(a + b, dtype=_kind(a, b))


@sizes("Sub")
def sub_sizes(a: Numbers, b: Numbers) -> Numbers:
    """The difference."""
    return np.asarray(a - b, dtype=_kind(a, b))


@sizes("Mul")
def mul_sizes(a: Numbers, b: Numbers) -> Numbers:
    """The product."""
    return np.asarray(a * b, dtype=_kind(a, b))


@sizes("Neg")
def neg_sizes(a: Numbers) -> Numbers:
    """The opposite."""
    return np.asarray(-a, dtype=a.dtype)


@sizes("Div")
def div_sizes(a: Numbers, b: Numbers) -> object:
    """The quotient by positive integers or sizes, rounded towards zero."""
    return _of_integers(_truncated_quotient, a, b)


@sizes("Mod")
def mod_sizes(a: Numbers, b: Numbers, *, fmod: int = 0) -> object:
    """What rounding down leaves of a division by positive integers or sizes."""
    return NotImplemented if fmod else _of_integers(_remainder, a, b)


@sizes("Max")
def max_sizes(*operands: Numbers) -> object:
    """The largest."""
    return functools.reduce(functools.partial(_of_integers, rl.sym_max), operands)


@sizes("Min")
def min_sizes(*operands: Numbers) -> object:
    """The least."""
    return functools.reduce(functools.partial(_of_integers, rl.sym_min), operands)


def _of_integers(rule: Callable[[Size, Size], Size | None], a: Numbers, b: Numbers) -> Numbers:
    """A rule for each pair of integers or sizes.

    NotImplemented for other numbers, and where the rule gives None.
    """
    if a is NotImplemented or not {a.dtype.kind, b.dtype.kind} <= set("iuO"):
        return NotImplemented
    pairs = np.broadcast(a.astype(object), b.astype(object))
    results = [rule(*pair) for pair in pairs]
    if any(result is None for result in results):
        return NotImplemented
    return sizes_array(results).reshape(pairs.shape).astype(_kind(a, b))


def _positive(b: Size) -> bool:
    """Whether a divisor is positive; a size is not 0 where something is divided by it."""
    return b > 0 if isinstance(b, int) else is_nonnegative(unwrap_size(b))


def _truncated_quotient(a: Size, b: Size) -> Size | None:
    if not _positive(b):
        return None
    if is_nonnegative(unwrap_size(a)) or divides(unwrap_size(b), unwrap_size(a)):
        return a // b
    return -(-a // b) if is_nonnegative(unwrap_size(-a)) else None


def _remainder(a: Size, b: Size) -> Size | None:
    return a % b if _positive(b) else None


def _kind(a: Numbers, b: Numbers) -> np.dtype[np.generic]:
    return np.dtype(object) if "O" in (a.dtype.kind, b.dtype.kind) else a.dtype
