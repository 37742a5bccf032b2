"""Elementwise functions of the array API standard: operators of tensors under the standard's names and promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compat.array_api import arithmetic
from rushlight.compat.array_api.array import Array, arrayed, plain
from rushlight.compat.array_api.dtypes import promoted, result_type
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import bool_
from rushlight.support.errors import require

Unary = Callable[[object], Array]
Binary = Callable[[object, object], Array]


def unary(name: str, method: Callable[..., object]) -> Unary:
    """A function of one array."""

    def call(x: object, /) -> Array:
        return arrayed(method(plain(x)))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = method.__doc__
    return call


def binary(name: str, method: Callable[..., object]) -> Binary:
    """A function of two arrays, or of an array and a number, which are promoted and broadcast together."""

    def call(x1: object, x2: object, /) -> Array:
        return arrayed(method(*promoted(_operand(x1, x2), _operand(x2, x1))))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = method.__doc__
    return call


def _operand(value: object, other: object) -> Any:
    """A tensor as such; a number stays one beside a tensor. Errors: A001 for anything else."""
    number = isinstance(value, bool | int | float | complex) and isinstance(other, Handle)
    return value if number else plain(value)


abs = unary("abs", Tensor.abs)
acos = unary("acos", Tensor.acos)
acosh = unary("acosh", Tensor.acosh)
add = binary("add", Tensor.add)
asin = unary("asin", Tensor.asin)
asinh = unary("asinh", Tensor.asinh)
atan = unary("atan", Tensor.atan)
atan2 = binary("atan2", Tensor.atan2)
atanh = unary("atanh", Tensor.atanh)
bitwise_and = binary("bitwise_and", Tensor.bitwise_and)
bitwise_left_shift = binary("bitwise_left_shift", Tensor.bitwise_left_shift)
bitwise_invert = unary("bitwise_invert", Tensor.bitwise_not)
bitwise_or = binary("bitwise_or", Tensor.bitwise_or)
bitwise_right_shift = binary("bitwise_right_shift", Tensor.bitwise_right_shift)
bitwise_xor = binary("bitwise_xor", Tensor.bitwise_xor)
ceil = unary("ceil", Tensor.ceil)
conj = unary("conj", Tensor.conj)
copysign = binary("copysign", Tensor.copysign)
cos = unary("cos", Tensor.cos)
cosh = unary("cosh", Tensor.cosh)
divide = binary("divide", Tensor.div)
equal = binary("equal", Tensor.eq)
exp = unary("exp", Tensor.exp)
expm1 = unary("expm1", Tensor.expm1)
floor = unary("floor", Tensor.floor)
floor_divide = binary("floor_divide", arithmetic.floor_divide)
greater = binary("greater", Tensor.gt)
greater_equal = binary("greater_equal", Tensor.ge)
hypot = binary("hypot", Tensor.hypot)
isfinite = unary("isfinite", Tensor.isfinite)
isinf = unary("isinf", Tensor.isinf)
isnan = unary("isnan", Tensor.isnan)
less = binary("less", Tensor.lt)
less_equal = binary("less_equal", Tensor.le)
log = unary("log", Tensor.log)
log10 = unary("log10", Tensor.log10)
log1p = unary("log1p", Tensor.log1p)
log2 = unary("log2", Tensor.log2)
logaddexp = binary("logaddexp", Tensor.logaddexp)
logical_and = binary("logical_and", Tensor.logical_and)
logical_not = unary("logical_not", Tensor.logical_not)
logical_or = binary("logical_or", Tensor.logical_or)
logical_xor = binary("logical_xor", Tensor.logical_xor)
maximum = binary("maximum", Tensor.maximum)
minimum = binary("minimum", Tensor.minimum)
multiply = binary("multiply", Tensor.mul)
negative = unary("negative", Tensor.neg)
nextafter = binary("nextafter", Tensor.nextafter)
not_equal = binary("not_equal", Tensor.ne)
pow = binary("pow", Tensor.pow)
reciprocal = unary("reciprocal", Tensor.reciprocal)
remainder = binary("remainder", arithmetic.remainder)
round = unary("round", arithmetic.round)
sign = unary("sign", arithmetic.sign)
signbit = unary("signbit", Tensor.signbit)
sin = unary("sin", Tensor.sin)
sinh = unary("sinh", Tensor.sinh)
sqrt = unary("sqrt", Tensor.sqrt)
square = unary("square", Tensor.square)
subtract = binary("subtract", Tensor.sub)
tan = unary("tan", Tensor.tan)
tanh = unary("tanh", Tensor.tanh)
trunc = unary("trunc", Tensor.trunc)


def clip(x: object, /, min: object = None, max: object = None) -> Array:
    """Return elements limited to a least and a greatest value, numbers or arrays; the dtype stays."""
    source = plain(x)
    bounds = [_bound(source, value) for value in (min, max)]
    if bounds == [None, None]:
        return arrayed(source.clone())
    return arrayed(source.clamp(*bounds))


def _bound(source: Tensor, value: object) -> Any:
    if not isinstance(value, Handle):
        return value
    return plain(value).to(result_type(source, value))


def imag(x: object, /) -> Array:
    """Return imaginary parts. Errors: D001 for real dtypes."""
    return arrayed(plain(x).imag)


def real(x: object, /) -> Array:
    """Return real parts; real numbers themselves."""
    return arrayed(plain(x).real)


def positive(x: object, /) -> Array:
    """Return the elements, unchanged. Errors: D001 for bools."""
    source = plain(x)
    require(source.dtype is not bool_, "D001", "positive: not for bools", x=source)
    return arrayed(source.clone())
