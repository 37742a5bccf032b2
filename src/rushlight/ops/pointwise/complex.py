"""Complex numbers and their parts. Real elements are their own real part, conjugate and magnitude."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import bool_, real_dtype
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, cast
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.math.core import length
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.definition import (
    Array,
    At,
    array_type,
    computed,
    converted,
    operating_dtype,
    sample_array,
    typed_result,
    unary,
)
from rushlight.ops.record import OPERATORS, Fact, Operator, Sample, define


@overload
def conjugate(value: Value) -> Value: ...


@overload
def conjugate(value: complex) -> complex: ...


def conjugate(value: Value | complex) -> Value | complex:
    """The complex conjugate of a value or number; real values pass."""
    if isinstance(value, Value):
        return conjugated(value) if value.dtype.is_complex else value
    return value.conjugate() if isinstance(value, complex) else value


def real_of(value: Value) -> Value:
    """The real parts of complex values; real values pass."""
    return OPERATORS["real"](value) if value.dtype.is_complex else value


conjugated = unary(
    "conjugated",
    "The complex conjugate, in storage of its own.",
    ref=np.conjugate,
    scalar=lambda x: apply("complex", apply("real", x), -apply("imag", x)) if x.type.is_complex else x,
    dtypes="all",
    variants="",
)


@conjugated.vjp
def conjugated_vjp(g: Value) -> Value:
    return conjugate(g)


conj = define(
    "conj(Tensor(a) input) -> Tensor(a)",
    "The complex conjugate, in storage of its own; a real tensor itself.",
    variants="function method",
)


@conj.decompose
def conj_decompose(input: Value) -> Value:
    return conjugated(input) if input.dtype.is_complex else OPERATORS["alias"](input)


@conj.ref
def conj_ref(input: ArrayLike) -> Array:
    array = np.asarray(input)
    return np.conjugate(array) if array.dtype.kind == "c" else array


@conj.samples
def conj_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)))
    yield Sample(_sample_complex(rng, (4, 3)))


def _sample_complex(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return (sample_array(rng, shape) + 1j * sample_array(rng, shape)).astype(np.complex64)


def _part_type(op: Operator, input: TensorType) -> TensorType:
    return typed_result(op, [input], dtype=real_dtype(operating_dtype(op, [input])))


def _part_ref(op: Operator, function: Callable[[Array], Array], input: ArrayLike) -> Array:
    type_ = array_type(input)
    result = computed(op, lambda x: function(x).astype(x.dtype), [input])
    return np.real(result).astype(real_dtype(type_.dtype).numpy) if type_.dtype.is_complex else result


abs_ = define(
    "abs(Tensor input) -> Tensor",
    "The magnitude of each element; real for complex ones.",
    facts=Fact.POINTWISE,
    variants="function method inplace out",
    syntax="abs",
)


@abs_.meta
def abs_meta(input: TensorType) -> TensorType:
    return _part_type(abs_, input)


@abs_.ref
def abs_ref(input: ArrayLike) -> Array:
    return _part_ref(abs_, np.abs, input)


@abs_.lower
def abs_lower(at: At, input: Operand) -> Scalar:
    value = converted(input, at, input.dtype)
    if value.type.is_complex:
        return length(apply("real", value), apply("imag", value))
    if value.type is bool_ or not value.type.signed:
        return value
    return cast(apply("abs", value), input.dtype)


@abs_.vjp
def abs_vjp(g: Value, input: Value) -> Value:
    if not input.dtype.is_complex:
        return g * OPERATORS["sign"](input)
    length = abs_(input)
    return g * OPERATORS["where"](eq(length, 0), 0.0, input / length)


@abs_.samples
def abs_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((), (7,), (3, 5)):
        yield Sample(sample_array(rng, shape, "nonzero"), domain="nonzero")
