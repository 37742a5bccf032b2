"""Arithmetic: sums, products, quotients, remainders, and what is made of them directly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import DType, Kind, bool_, int64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, cast, constant, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.math import complex_elementary
from rushlight.ops.math.complex_elementary import by_kind
from rushlight.ops.math.core import like, sign_of, with_sign
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.complex import abs_, conjugate, real_of
from rushlight.ops.pointwise.definition import (
    FLOAT,
    SAME,
    Array,
    At,
    Result,
    array_type,
    binary,
    computed,
    converted,
    lowered,
    operating_dtype,
    sample_array,
    samples_of_pairs,
    scaled_result,
    typed_result,
    unary,
    zero_gradient,
)
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import FAMILIES, OPERATORS, Fact, Gradients, Sample, define
from rushlight.support.errors import require

# Sums.

add = define(
    "add(Tensor input, Tensor other, *, Tensor? alpha=None) -> Tensor",
    "input + alpha * other.",
    facts=Fact.POINTWISE | Fact.NUMERIC,
    variants="function method inplace out",
    syntax="add",
)


def scaled_by(alpha: Value | complex | None, value: Value) -> Value:
    """value * alpha, or value where there is no alpha."""
    return value if alpha is None else value * alpha


@add.meta
def add_meta(input: TensorType, other: TensorType, alpha: TensorType | None) -> TensorType:
    return scaled_result(add, [input, other], alpha=alpha)


@add.ref
def add_ref(input: ArrayLike, other: ArrayLike, alpha: ArrayLike | None) -> Array:
    if operating_dtype(add, [array_type(input), array_type(other)]) is bool_:
        return np.logical_or(input, other if alpha is None else np.logical_and(other, alpha))
    return computed(add, lambda a, b, c: a + scaled_by(c, b), [input, other, alpha])


@add.lower
def add_lower(at: At, input: Operand, other: Operand, alpha: Operand | None) -> Scalar:
    if operating_dtype(add, [input.type, other.type]) is bool_:  # an alpha of any dtype only chooses
        a, b = converted(input, at, bool_), converted(other, at, bool_)
        return a | (b if alpha is None else b & converted(alpha, at, bool_))
    return lowered(add, lambda a, b, c: a + scaled_by(c, b), at, [input, other, alpha])


@add.vjp
def add_vjp(g: Value, input: Value, other: Value, alpha: Value | None) -> Gradients:
    return unbroadcast(g, input), unbroadcast(scaled_by(None if alpha is None else conjugate(alpha), g), other), None


@add.samples
def add_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from samples_of_pairs(rng)
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (5,)), alpha=0.5)
    yield Sample(sample_array(rng, (3, 5)) > 0, sample_array(rng, (5,)) > 0, alpha=2)


sub = define(
    "sub(Tensor input, Tensor other, *, Tensor? alpha=None) -> Tensor",
    "input - alpha * other.",
    facts=Fact.POINTWISE | Fact.NUMERIC,
    dtypes="number",
    variants="function method inplace out",
    syntax="sub",
)


@sub.meta
def sub_meta(input: TensorType, other: TensorType, alpha: TensorType | None) -> TensorType:
    return scaled_result(sub, [input, other], alpha=alpha)


@sub.ref
def sub_ref(input: ArrayLike, other: ArrayLike, alpha: ArrayLike | None) -> Array:
    return computed(sub, lambda a, b, c: a - scaled_by(c, b), [input, other, alpha])


@sub.lower
def sub_lower(at: At, input: Operand, other: Operand, alpha: Operand | None) -> Scalar:
    return lowered(sub, lambda a, b, c: a - scaled_by(c, b), at, [input, other, alpha])


@sub.vjp
def sub_vjp(g: Value, input: Value, other: Value, alpha: Value | None) -> Gradients:
    return unbroadcast(g, input), unbroadcast(-scaled_by(None if alpha is None else conjugate(alpha), g), other), None


@sub.samples
def sub_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from samples_of_pairs(rng)
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (5,)), alpha=0.5)


rsub = define(
    "rsub(Tensor input, Tensor other, *, Tensor? alpha=None) -> Tensor",
    "other - alpha * input.",
    facts=Fact.POINTWISE,
    dtypes="number",
)


@rsub.decompose
def rsub_decompose(input: Value, other: Value, alpha: Value | None) -> Value:
    return sub(other, input) if alpha is None else sub(other, input, alpha=alpha)


@rsub.ref
def rsub_ref(input: ArrayLike, other: ArrayLike, alpha: ArrayLike | None) -> Array:
    return sub_ref(other, input, alpha)


@rsub.samples
def rsub_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from samples_of_pairs(rng)
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (5,)), alpha=0.5)


neg = unary("neg", "-input.", ref=np.negative, scalar=lambda x: -x, dtypes="number", syntax="neg")


@neg.vjp
def neg_vjp(g: Value) -> Value:
    return -g


# Products.

mul = binary(
    "mul",
    "input * other.",
    ref=np.multiply,
    scalar=lambda a, b: a & b if a.type is bool_ else a * b,
    dtypes="all",
    syntax="mul",
    facts=Fact.NUMERIC,
    factor=True,
)


@mul.vjp
def mul_vjp(g: Value, input: Value, other: Value) -> Gradients:
    return unbroadcast(_times(g, input, other), input), unbroadcast(_times(g, other, input), other)


def _times(g: Value, of: object, factor: Value | complex) -> Value:
    """g * factor, conjugate, where `of` takes a gradient."""
    return g * conjugate(factor) if isinstance(of, Value) else g


square = define(
    "square(Tensor input) -> Tensor",
    "input * input; an integer of a bool.",
    dtypes="all",
    facts=Fact.POINTWISE,
    variants="function method inplace out",
)


@square.meta
def square_meta(input: TensorType) -> TensorType:
    return typed_result(square, [input], dtype=_squared_dtype(input))


def _squared_dtype(input: TensorType) -> DType:
    return int64 if input.dtype is bool_ else operating_dtype(square, [input])


@square.ref
def square_ref(input: ArrayLike) -> Array:
    return computed(square, lambda x: x * x, [input], dtype=_squared_dtype(array_type(input)))


@square.lower
def square_lower(at: At, input: Operand) -> Scalar:
    dtype = _squared_dtype(input.type)
    x = converted(input, at, dtype)
    return cast(x * x, dtype)


@square.samples
def square_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (7,)))
    yield Sample(sample_array(rng, (3, 5)))


@square.vjp
def square_vjp(g: Value, input: Value) -> Value:
    return g * (conjugate(input) * 2)


# Quotients.


def _fmod(a: Scalar, b: Scalar) -> Scalar:
    """The remainder with the dividend's sign; 0 for an integer divisor 0."""
    if a.type.kind is Kind.FLOAT:
        return with_sign(apply("remainder", apply("abs", a), apply("abs", b)), sign_of(a))
    rest = apply("remainder", a, b)
    if not a.type.signed:
        return rest
    zero = constant(0, a.type)
    crossed = rest.differs(zero) & ((a < 0) ^ (b < 0))
    return select(crossed, rest - b, rest)


def _remainder(a: Scalar, b: Scalar) -> Scalar:
    """The remainder with the divisor's sign."""
    if a.type.kind is not Kind.FLOAT:
        return apply("remainder", a, b)
    rest = _fmod(a, b)
    return select(rest.differs(0.0) & ((rest < 0.0) ^ (b < 0.0)), rest + b, rest)


def _floor_divide(a: Scalar, b: Scalar) -> Scalar:
    """floor(a / b), precise for floats too: the quotient of what the remainder leaves."""
    if a.type.kind is not Kind.FLOAT:
        return apply("floordiv", a, b)
    rest = _fmod(a, b)
    quotient = (a - rest) / b
    quotient = select(rest.differs(0.0) & ((rest < 0.0) ^ (b < 0.0)), quotient - 1.0, quotient)
    whole = apply("floor", quotient)
    whole = select(quotient - whole > 0.5, whole + 1.0, whole)
    plain = a / b
    whole = select(quotient.equals(0.0), with_sign(like(a, 0.0), sign_of(plain)), whole)
    return select(b.equals(0.0), plain, whole)


def truncated_quotient(a: Scalar, b: Scalar) -> Scalar:
    """The quotient rounded towards zero; 0 for an integer divisor 0."""
    if a.type.kind is Kind.FLOAT:
        return apply("trunc", a / b)
    floor = apply("floordiv", a, b)
    if not a.type.signed:
        return floor
    rest = a - floor * b
    return select(rest.differs(0) & ((a < 0) ^ (b < 0)) & b.differs(0), floor + 1, floor)


def _fmod_array(a: Array, b: Array) -> Array:
    return np.fmod(a, b) if a.dtype.kind == "f" else np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))


def _remainder_array(a: Array, b: Array) -> Array:
    rest = _fmod_array(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _floor_divide_array(a: Array, b: Array) -> Array:
    if a.dtype.kind != "f":
        return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))
    return np.where(b == 0, a / b, np.floor_divide(a, b))


def truncated_quotient_array(a: Array, b: Array) -> Array:
    """`truncated_quotient` of arrays."""
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    floor = _floor_divide_array(a, b)
    return np.where((a != floor * b) & ((a < 0) != (b < 0)) & (b != 0), floor + 1, floor)


_ROUNDINGS: dict[str | None, tuple[Result, Any, Any]] = {
    None: (FLOAT, lambda a, b: a / b, np.divide),
    "floor": (SAME, _floor_divide, _floor_divide_array),
    "trunc": (SAME, truncated_quotient, truncated_quotient_array),
}

div = define(
    "div(Tensor input, Tensor other, *, str? rounding_mode=None) -> Tensor",
    "input / other: the true quotient, or it rounded down (floor) or towards zero (trunc).",
    facts=Fact.POINTWISE | Fact.NUMERIC,
    variants="function method inplace out",
    syntax="truediv",
)


@div.meta
def div_meta(input: TensorType, other: TensorType, rounding_mode: str | None) -> TensorType:
    valid = rounding_mode in _ROUNDINGS
    require(valid, "A002", f"div: rounding_mode must be None, 'floor' or 'trunc', not {rounding_mode!r}")
    result = typed_result(div, [input, other], _ROUNDINGS[rounding_mode][0])
    rounded = rounding_mode is None or result.dtype.kind in FAMILIES["ordered"]
    require(rounded, "D001", f"div: rounding is not supported for {result.dtype.name}")
    return result


@div.ref
def div_ref(input: ArrayLike, other: ArrayLike, rounding_mode: str | None) -> Array:
    result, _, function = _ROUNDINGS[rounding_mode]
    return computed(div, function, [input, other], result, factor=True)


@div.lower
def div_lower(at: At, input: Operand, other: Operand, rounding_mode: str | None) -> Scalar:
    result, scalar, _ = _ROUNDINGS[rounding_mode]
    return lowered(div, scalar, at, [input, other], result, factor=True)


@div.vjp
def div_vjp(g: Value, input: Value, other: Value, rounding_mode: str | None) -> Gradients:
    if rounding_mode is not None:
        return zero_gradient(input), zero_gradient(other)
    slope = g / conjugate(other)
    by_divisor = -slope * conjugate(input / other) if isinstance(other, Value) else g
    return unbroadcast(slope, input), unbroadcast(by_divisor, other)


@div.samples
def div_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from samples_of_pairs(rng, "nonzero")
    for mode in ("floor", "trunc"):
        x = sample_array(rng, (3, 5), "smooth") * 3
        yield Sample(x, sample_array(rng, (5,), "nonzero"), rounding_mode=mode, domain="nonzero")


floor_divide = binary(
    "floor_divide",
    "input / other rounded down; 0 for an integer divisor 0.",
    ref=_floor_divide_array,
    scalar=_floor_divide,
    syntax="floordiv",
    dtypes="ordered",
    domain="nonzero",
    facts=Fact.NUMERIC,
    factor=True,
)


@floor_divide.vjp
def floor_divide_vjp(g: Value, input: Value, other: Value) -> Gradients:
    return zero_gradient(input), zero_gradient(other)


remainder = binary(
    "remainder",
    "What floor division leaves: it has the divisor's sign; 0 for an integer divisor 0.",
    ref=_remainder_array,
    scalar=_remainder,
    syntax="mod",
    dtypes="ordered",
    domain="nonzero",
    facts=Fact.LEADING,
)


@remainder.vjp
def remainder_vjp(g: Value, input: Value, other: Value) -> Gradients:
    by_divisor = -g * div(input, other, rounding_mode="floor") if isinstance(other, Value) else g
    return unbroadcast(g, input), unbroadcast(by_divisor, other)


fmod = binary(
    "fmod",
    "What division rounded towards zero leaves: it has the dividend's sign; 0 for an integer divisor 0.",
    ref=_fmod_array,
    scalar=_fmod,
    dtypes="ordered",
    domain="nonzero",
)


@fmod.vjp
def fmod_vjp(g: Value, input: Value, other: Value) -> Gradients:
    by_divisor = -g * div(input, other, rounding_mode="trunc") if isinstance(other, Value) else g
    return unbroadcast(g, input), unbroadcast(by_divisor, other)


reciprocal = unary(
    "reciprocal",
    "1 / input.",
    ref=lambda x: 1 / x,
    scalar=lambda x: like(x, 1.0) / x,
    result=FLOAT,
    domain="nonzero",
    dtypes="all",
)


@reciprocal.vjp
def reciprocal_vjp(g: Value, out: Value) -> Value:
    return -g * conjugate(out * out)


# Signs.


def _sign(x: Scalar) -> Scalar:
    if x.type is bool_:
        return x
    one, zero = constant(1, x.type), constant(0, x.type)
    below = select(x < zero, constant(-1, x.type), zero) if x.type.signed else zero
    return select(x > zero, one, below)


sign = unary(
    "sign",
    "-1, 0 or 1 as each element is below, at or above 0; 0 for NaN.",
    ref=lambda x: x if x.dtype.kind == "b" else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype),
    scalar=_sign,
    domain="nonzero",
)


@sign.vjp
def sign_vjp(g: Value) -> Value | None:
    return zero_gradient(g)


def _sgn_array(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.where(x == 0, 0, x / np.abs(x))
    return x if x.dtype.kind == "b" else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


sgn = unary(
    "sgn",
    "The sign of each element, as `sign`; of a complex one the number of length 1 with its angle.",
    ref=_sgn_array,
    scalar=by_kind(_sign, complex_elementary.sgn),
    domain="nonzero",
    dtypes="all",
)


@sgn.vjp
def sgn_vjp(g: Value, input: Value, out: Value) -> Value | None:
    if not input.dtype.is_complex:
        return zero_gradient(g)
    # What of the gradient is across the direction of each element; along it the sign does not change.
    along = out * real_of(g * conjugate(out))
    return OPERATORS["where"](eq(out, 0), 0.0, (g - along) / abs_(input))


signbit = unary(
    "signbit",
    "Whether the sign bit is set: for negative numbers, -0.0 and negative NaNs.",
    ref=lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
    scalar=lambda x: (
        sign_of(x).differs(0) if x.type.kind is Kind.FLOAT else x < 0 if x.type.signed else constant(False, bool_)
    ),
    result=Result.BOOL,
    variants="function method out",
    facts=Fact.NONDIFFERENTIABLE,
)

copysign = binary(
    "copysign",
    "input's magnitude with other's sign.",
    ref=np.copysign,
    scalar=lambda a, b: with_sign(apply("abs", a), sign_of(b)),
    result=FLOAT,
    domain="nonzero",
)


@copysign.vjp
def copysign_vjp(g: Value, input: Value, other: Value, out: Value) -> Gradients:
    return unbroadcast(g * (sign(input) * sign(out)), input), zero_gradient(other)
