"""Floats by their bits: neighbours, fractions and exponents; and steps at zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import compute_dtype, int16, int32, int64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, bitcast, cast, constant, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import convert
from rushlight.ops.math.core import FORMS, magnitude
from rushlight.ops.pointwise.comparison import eq, gt
from rushlight.ops.pointwise.definition import (
    Array,
    At,
    array_type,
    computed,
    converted,
    element,
    operating_dtype,
    sample_array,
    samples_of_pairs,
    typed_result,
)
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import OPERATORS, Fact, Gradients, Sample, define
from rushlight.support.errors import require

heaviside = define(
    "heaviside(Tensor input, Tensor values) -> Tensor",
    "0 below zero, 1 above it, and the other operand's element at zero; of NaN 0.",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="function method inplace out",
)


@heaviside.decompose
def heaviside_decompose(input: Value, values: Value) -> Value:
    same = not (isinstance(input, Value) and isinstance(values, Value)) or input.dtype is values.dtype
    require(same, "D002", "heaviside: dtypes differ", input=input, values=values)
    return where(eq(input, 0), values, convert(gt(input, 0), input.dtype))


@heaviside.ref
def heaviside_ref(input: ArrayLike, values: ArrayLike) -> Array:
    x = np.asarray(input)
    return np.where(x == 0, values, x > 0).astype(x.dtype)


@heaviside.samples
def heaviside_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.array([[-1.0, 0.0, 2.0]], np.float32), sample_array(rng, (2, 1)))
    yield Sample(np.zeros((), np.float32), sample_array(rng, (3,)))


nextafter = define(
    "nextafter(Tensor input, Tensor other) -> Tensor",
    "The next number of the dtype in the direction of the other operand.",
    facts=Fact.POINTWISE,
    dtypes="float",
    variants="function method inplace out",
)
_INTEGERS = {2: int16, 4: int32, 8: int64}


@nextafter.meta
def nextafter_meta(input: TensorType, other: TensorType) -> TensorType:
    return typed_result(nextafter, [input, other])


@nextafter.ref
def nextafter_ref(input: ArrayLike, other: ArrayLike) -> Array:
    dtype = operating_dtype(nextafter, [array_type(input), array_type(other)])
    with np.errstate(all="ignore"):
        return np.nextafter(*[np.asarray(value).astype(dtype.numpy) for value in (input, other)])


@nextafter.lower
def nextafter_lower(at: At, input: Operand, other: Operand) -> Scalar:
    dtype = operating_dtype(nextafter, [input.type, other.type])
    narrow = [cast(element(value, at), dtype) for value in (input, other)]
    x, y = [cast(value, compute_dtype(dtype)) for value in narrow]
    whole = _INTEGERS[dtype.itemsize]
    bits, one = bitcast(narrow[0], whole), constant(1, whole)
    rises = x < y
    first = select(rises, one, constant(1 - (1 << (whole.bits - 1)), whole))
    away = rises.equals(x > 0.0)
    moved = select(x.equals(0.0), first, select(away, bits + one, bits - one))
    result = select(x.equals(y), narrow[1], bitcast(moved, dtype))
    return select(x.differs(x), narrow[0], select(y.differs(y), narrow[1], result))


@nextafter.vjp
def nextafter_vjp(g: Value, input: Value, other: Value) -> Gradients:
    return unbroadcast(g, input), unbroadcast(OPERATORS["zeros_like"](g), other)


@nextafter.samples
def nextafter_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from list(samples_of_pairs(rng))[2:4]


frexp_exponent = define(
    "frexp_exponent(Tensor input) -> Tensor",
    "The power of two of each element, as int32; 0 for zeros, infinities and NaN.",
    facts=Fact.POINTWISE | Fact.NONDIFFERENTIABLE,
    dtypes="float",
    variants="",
)


@frexp_exponent.meta
def frexp_exponent_meta(input: TensorType) -> TensorType:
    operating_dtype(frexp_exponent, [input])
    return typed_result(frexp_exponent, [input], dtype=int32)


def _exponent_array(x: Array) -> Array:
    return np.where(np.isfinite(x), np.frexp(x)[1], 0)


@frexp_exponent.ref
def frexp_exponent_ref(input: ArrayLike) -> Array:
    return _exponent_array(np.asarray(input).astype(compute_dtype(array_type(input).dtype).numpy)).astype(np.int32)


def _parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """The fraction, from 1/2 to 1, and the power of two, as an integer of the float's width."""
    form = FORMS[x.type]
    small = magnitude(x) < form.least_normal
    normal = select(small, x * 2.0**form.fraction, x)
    bits = bitcast(normal, form.signed)
    mask = (1 << (form.signed.bits - 1 - form.fraction)) - 1
    power = (bits >> form.fraction) & mask
    plain = apply("and", magnitude(x) < float("inf"), x.differs(0.0))
    fraction = bitcast((bits & ~(mask << form.fraction)) | ((form.bias - 1) << form.fraction), x.type)
    shift = select(small, constant(form.bias - 1 + form.fraction, form.signed), constant(form.bias - 1, form.signed))
    return select(plain, fraction, x), select(plain, power - shift, constant(0, form.signed))


@frexp_exponent.lower
def frexp_exponent_lower(at: At, input: Operand) -> Scalar:
    return cast(_parts(converted(input, at, input.dtype))[1], int32)


@frexp_exponent.samples
def frexp_exponent_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)) * np.float32(100))


frexp_mantissa = define(
    "frexp_mantissa(Tensor input) -> Tensor",
    "The fraction of each element, from 1/2 to 1 in size; zeros, infinities and NaN are their own.",
    facts=Fact.POINTWISE,
    dtypes="float",
    variants="",
)


@frexp_mantissa.meta
def frexp_mantissa_meta(input: TensorType) -> TensorType:
    return typed_result(frexp_mantissa, [input])


@frexp_mantissa.ref
def frexp_mantissa_ref(input: ArrayLike) -> Array:
    return computed(frexp_mantissa, lambda x: np.frexp(x)[0], [input])


@frexp_mantissa.lower
def frexp_mantissa_lower(at: At, input: Operand) -> Scalar:
    return cast(_parts(converted(input, at, input.dtype))[0], input.dtype)


@frexp_mantissa.vjp
def frexp_mantissa_vjp(g: Value, input: Value) -> Value:
    return g / OPERATORS["exp2"](convert(frexp_exponent(input), input.dtype))


@frexp_mantissa.samples
def frexp_mantissa_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5), "smooth"), domain="smooth")
