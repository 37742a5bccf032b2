"""Complex numbers of length and angle, and the angles of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.value import Value
from rushlight.ops.dims import compute_array, convert, widened
from rushlight.ops.number.parts import complex_, complex_ref, imag_, real_, require_parts
from rushlight.ops.pointwise.comparison import eq, lt, ne
from rushlight.ops.pointwise.definition import (
    FLOAT,
    Array,
    array_type,
    operating_dtype,
    sample_array,
)
from rushlight.ops.pointwise.elementary import atan2, cos, sin
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Sample, define

polar = define(
    "polar(Tensor abs, Tensor angle) -> Tensor",
    "Complex numbers of their magnitudes and angles.",
    dtypes="float",
    variants="function out",
    autocast="float32",
)


@polar.decompose
def polar_decompose(abs: Value, angle: Value) -> Value:
    require_parts("polar", abs.dtype, angle.dtype)
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
    return atan2(imag_(input), real_(input))


@complex_angle.ref
def complex_angle_ref(input: Array) -> Array:
    return np.angle(input)


@complex_angle.vjp
def complex_angle_vjp(g: Value, input: Value) -> Value:
    x, y = real_(input), imag_(input)
    scale = where(eq(input, 0), 0.0, g / (x * x + y * y))
    return complex_(-scale * y, scale * x)


@complex_angle.samples
def complex_angle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((sample_array(rng, (4,)) + 1j * sample_array(rng, (4,))).astype(np.complex64))
