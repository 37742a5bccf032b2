"""Complex numbers of their parts or of length and angle, and the angles of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import DType, complex64, complex128, compute_dtype, float64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, cast
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import compute_array, convert, widened
from rushlight.ops.pointwise.comparison import eq, lt, ne
from rushlight.ops.pointwise.complex import imag, real_part
from rushlight.ops.pointwise.definition import (
    FLOAT,
    Array,
    At,
    array_type,
    element,
    operating_dtype,
    sample_array,
    typed_result,
)
from rushlight.ops.pointwise.elementary import atan2, cos, sin
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import unbroadcast
from rushlight.ops.record import OPERATORS, Fact, Gradients, Sample, define
from rushlight.support.errors import require

complex_ = define(
    "complex(Tensor real, Tensor imag) -> Tensor",
    "Complex numbers of their real and imaginary parts.",
    facts=Fact.POINTWISE,
    dtypes="float",
    variants="function out",
)


def _require_parts(name: str, first: DType, second: DType) -> None:
    require(first is second, "D002", f"{name}: dtypes differ", first=first, second=second)
    require(first.is_floating_point, "D001", f"{name}: the dtype must be floating-point", given=first)


@complex_.meta
def complex_meta(real: TensorType, imag: TensorType) -> TensorType:
    _require_parts("complex", real.dtype, imag.dtype)
    return typed_result(complex_, [real, imag], dtype=complex128 if real.dtype is float64 else complex64)


@complex_.ref
def complex_ref(real: Array, imag: Array) -> Array:
    first, second = np.broadcast_arrays(compute_array(real), compute_array(imag))
    found = np.empty(first.shape, np.result_type(first.dtype, np.complex64))
    found.real, found.imag = first, second
    return found


@complex_.lower
def complex_lower(at: At, real: Operand, imag: Operand) -> Scalar:
    return apply("complex", *[cast(element(part, at), compute_dtype(part.dtype)) for part in (real, imag)])


@complex_.vjp
def complex_vjp(g: Value, real: Value, imag: Value) -> Gradients:
    return unbroadcast(real_part(g), real), unbroadcast(OPERATORS["imag"](g), imag)


@complex_.samples
def complex_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 1)), sample_array(rng, (1, 5)))


polar = define(
    "polar(Tensor abs, Tensor angle) -> Tensor",
    "Complex numbers of their magnitudes and angles.",
    dtypes="float",
    variants="function out",
    autocast="float32",
)


@polar.decompose
def polar_decompose(abs: Value, angle: Value) -> Value:
    _require_parts("polar", abs.dtype, angle.dtype)
    size, turn = widened(abs), widened(angle)
    return complex_(size * cos(turn), size * sin(turn))


@polar.ref
def polar_ref(abs: Array, angle: Array) -> Array:
    size, turn = compute_array(abs), compute_array(angle)
    with np.errstate(all="ignore"):
        return complex_ref(size * np.cos(turn), size * np.sin(turn))


@polar.samples
def polar_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 1)), sample_array(rng, (1, 5)))


angle = define(
    "angle(Tensor input) -> Tensor",
    "The angle of each element: 0 or pi of a real one. NaN has none.",
    variants="function method out",
)


@angle.decompose
def angle_decompose(input: Value) -> Value:
    if input.dtype.is_complex:
        return complex_angle(input)
    if not input.dtype.is_floating_point:
        return lt(input, 0) * math.pi
    return where(ne(input, input), input, convert(lt(input, 0), input.dtype) * math.pi)


@angle.ref
def angle_ref(input: ArrayLike) -> Array:
    x = np.asarray(input)
    if x.dtype.kind == "c":
        return np.angle(x)
    dtype = operating_dtype(angle, [array_type(input)], FLOAT).numpy
    return np.where(x != x, x, np.where(x < 0, math.pi, 0)).astype(dtype)


@angle.samples
def angle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5), "nonzero"), domain="nonzero")
    yield Sample((sample_array(rng, (4,)) + 1j * sample_array(rng, (4,))).astype(np.complex64))


complex_angle = define(
    "complex_angle(Tensor input) -> Tensor",
    "The angle of each complex element; its derivative at 0 is 0.",
    dtypes="complex",
    variants="",
)


@complex_angle.decompose
def complex_angle_decompose(input: Value) -> Value:
    return atan2(imag(input), real_part(input))


@complex_angle.ref
def complex_angle_ref(input: Array) -> Array:
    return np.angle(input)


@complex_angle.vjp
def complex_angle_vjp(g: Value, input: Value) -> Value:
    x, y = real_part(input), imag(input)
    scale = where(eq(input, 0), 0.0, g / (x * x + y * y))
    return complex_(-scale * y, scale * x)


@complex_angle.samples
def complex_angle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((sample_array(rng, (4,)) + 1j * sample_array(rng, (4,))).astype(np.complex64))
