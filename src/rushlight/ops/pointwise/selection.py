"""Selection, casts, copies, and combinations of three operands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.dtype import DType, Kind, bfloat16, bool_, float16, float32, float64, int8, int64
from rushlight.ir.interpret import cast_array
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, cast, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.math.core import length
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.definition import (
    Array,
    At,
    array_type,
    check_dtype,
    computed,
    converted,
    element,
    lowered,
    sample_array,
    scaled_result,
    typed_result,
    zero_gradient,
)
from rushlight.ops.promote import promote, unbroadcast
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.support.errors import require

# Selection.

where = define(
    "where(Tensor condition, Tensor input, Tensor other) -> Tensor",
    "Elements of input where condition holds, of other elsewhere.",
    facts=Fact.POINTWISE | Fact.FITTING | Fact.STORED,
    variants="function",
)


@where.meta
def where_meta(condition: TensorType, input: TensorType, other: TensorType) -> TensorType:
    require(
        condition.dtype is bool_, "D001", "where: condition must be bool", condition=condition, hint="compare it with 0"
    )
    return typed_result(where, [condition, input, other], dtype=promote(input, other))


@where.ref
def where_ref(condition: ArrayLike, input: ArrayLike, other: ArrayLike) -> Array:
    dtype = promote(array_type(input), array_type(other))
    values = [computed(where, lambda x: x, [value], dtype=dtype) for value in (input, other)]
    return np.asarray(np.where(np.asarray(condition), *values))


@where.lower
def where_lower(at: At, condition: Operand, input: Operand, other: Operand) -> Scalar:
    dtype = promote(input.type, other.type)
    a, b = [cast(converted(operand, at, dtype), dtype) for operand in (input, other)]
    return select(element(condition, at), a, b)


@where.vjp
def where_vjp(g: Value, condition: Value, input: Value, other: Value) -> Gradients:
    return (
        None,
        unbroadcast(where(condition, g, 0.0), input) if isinstance(input, Value) else None,
        unbroadcast(where(condition, 0.0, g), other) if isinstance(other, Value) else None,
    )


@where.samples
def where_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shapes in (((), (), ()), ((3, 5), (3, 5), (3, 5)), ((3, 1), (5,), (3, 5)), ((5,), (3, 1), ())):
        mask, a, b = [sample_array(rng, shape) for shape in shapes]
        yield Sample(mask > 0, a, b)
    yield Sample(sample_array(rng, (3, 5)) > 0, sample_array(rng, (5,)), 0.5)
    yield Sample(sample_array(rng, (3, 5)) > 0, 1.5, 2)


# Casts and copies.

to_dtype = define(
    "to_dtype(Tensor input, DType dtype) -> Tensor",
    "input in another dtype: floats are truncated to integers, which wrap among themselves; nonzero is true.",
    facts=Fact.POINTWISE | Fact.STORED,
    variants="",
)


@to_dtype.meta
def to_dtype_meta(input: TensorType, dtype: DType) -> TensorType:
    result = typed_result(to_dtype, [input], dtype=dtype)
    return TensorType(result.shape, dtype, result.device, result.strides)


@to_dtype.ref
def to_dtype_ref(input: ArrayLike, dtype: DType) -> Array:
    array = np.asarray(input)
    with np.errstate(all="ignore"):
        return cast_array(np.real(array) if dtype.kind is not Kind.COMPLEX else array, dtype)


@to_dtype.lower
def to_dtype_lower(at: At, input: Operand, dtype: DType) -> Scalar:
    return cast(element(input, at), dtype)


@to_dtype.vjp(types=("input",))
def to_dtype_vjp(g: Value, input: TensorType) -> Value:
    return to_dtype(g, input.dtype)


@to_dtype.samples
def to_dtype_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = sample_array(rng, (3, 5)) * 4
    for dtype in (float16, bfloat16, float32, float64, int8, int64, bool_):
        yield Sample(x, dtype)


clone = define(
    "clone(Tensor input) -> Tensor",
    "A copy with storage of its own.",
    facts=Fact.POINTWISE | Fact.STORED,
)


@clone.meta
def clone_meta(input: TensorType) -> TensorType:
    return typed_result(clone, [input])


@clone.ref
def clone_ref(input: ArrayLike) -> Array:
    return np.array(input, array_type(input).dtype.numpy)


@clone.lower
def clone_lower(at: At, input: Operand) -> Scalar:
    return element(input, at)


@clone.vjp
def clone_vjp(g: Value) -> Value:
    return g


@clone.samples
def clone_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((), (7,), (3, 5)):
        yield Sample(sample_array(rng, shape))


fill = define(
    "fill(Tensor input, Tensor value) -> Tensor",
    "A tensor like input whose elements all are value, which has no dims.",
    facts=Fact.POINTWISE | Fact.FITTING | Fact.STORED,
    variants="function inplace",
)


@fill.meta
def fill_meta(input: TensorType, value: TensorType) -> TensorType:
    require(value.ndim == 0, "S002", "fill: the value must have no dims", value=value)
    return typed_result(fill, [input], dtype=input.dtype)


@fill.ref
def fill_ref(input: ArrayLike, value: ArrayLike) -> Array:
    array = np.asarray(input)
    return np.full(array.shape, to_dtype_ref(value, array_type(input).dtype))


@fill.lower
def fill_lower(at: At, input: Operand, value: Operand) -> Scalar:
    return cast(element(value, at), input.dtype)


@fill.vjp
def fill_vjp(g: Value, value: Value) -> Gradients:
    by_value = None
    if isinstance(value, Value):
        by_value = unbroadcast(g, value)
    return zero_gradient(g), by_value


@fill.samples
def fill_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)), 2.5)
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, ()))


# Three operands.

lerp = define(
    "lerp(Tensor input, Tensor end, Tensor weight) -> Tensor",
    "input + weight * (end - input), from the nearer end.",
    facts=Fact.POINTWISE,
    dtypes="inexact",
    variants="function method inplace out",
)


@lerp.meta
def lerp_meta(input: TensorType, end: TensorType, weight: TensorType) -> TensorType:
    check_dtype(lerp, input.dtype)  # a weight that is a Python float does not make integers floats
    return typed_result(lerp, [input, end, weight])


@lerp.ref
def lerp_ref(input: ArrayLike, end: ArrayLike, weight: ArrayLike) -> Array:
    def function(a: Array, b: Array, w: Array) -> Array:
        return np.where(np.abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))

    return computed(lerp, function, [input, end, weight])


@lerp.lower
def lerp_lower(at: At, input: Operand, end: Operand, weight: Operand) -> Scalar:
    def scalar(a: Scalar, b: Scalar, w: Scalar) -> Scalar:
        if w.type.is_complex:
            near = length(apply("real", w), apply("imag", w)) < 0.5
        else:
            near = (w < 0.5) & (w > -0.5)
        return select(near, a + w * (b - a), b - (b - a) * (1.0 - w))

    return lowered(lerp, scalar, at, [input, end, weight])


@lerp.vjp
def lerp_vjp(g: Value, input: Value, end: Value, weight: Value | float) -> Gradients:
    by_weight = unbroadcast(g * conjugate(end - input), weight) if isinstance(weight, Value) else None
    share = conjugate(weight)
    return unbroadcast(g * (1 - share), input), unbroadcast(g * share, end), by_weight


@lerp.samples
def lerp_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (3, 5)), 0.3)
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (5,)), sample_array(rng, (3, 1), "smooth"))


addcmul = define(
    "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Tensor? value=None) -> Tensor",
    "input + value * tensor1 * tensor2.",
    facts=Fact.POINTWISE,
    dtypes="number",
    variants="function method inplace out",
)


def _times(value: Value | complex | None, factor: Value) -> Value:
    return factor if value is None else value * factor


@addcmul.meta
def addcmul_meta(input: TensorType, tensor1: TensorType, tensor2: TensorType, value: TensorType | None) -> TensorType:
    return scaled_result(addcmul, [input, tensor1, tensor2], value=value)


@addcmul.ref
def addcmul_ref(input: ArrayLike, tensor1: ArrayLike, tensor2: ArrayLike, value: ArrayLike | None) -> Array:
    return computed(addcmul, lambda x, a, b, v: x + _times(v, a) * b, [input, tensor1, tensor2, value])


@addcmul.lower
def addcmul_lower(at: At, input: Operand, tensor1: Operand, tensor2: Operand, value: Operand | None) -> Scalar:
    operands = [input, tensor1, tensor2, value]
    return lowered(addcmul, lambda x, a, b, v: x + _times(v, a) * b, at, operands)


@addcmul.vjp
def addcmul_vjp(g: Value, input: Value, tensor1: Value, tensor2: Value, value: Value | None) -> Gradients:
    scaled = g if value is None else g * conjugate(value)
    by_first, by_second = scaled * conjugate(tensor2), scaled * conjugate(tensor1)
    return unbroadcast(g, input), unbroadcast(by_first, tensor1), unbroadcast(by_second, tensor2), None


@addcmul.samples
def addcmul_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (3, 5)), sample_array(rng, (5,)))
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (3, 1)), sample_array(rng, (5,)), value=0.5)


addcdiv = define(
    "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Tensor? value=None) -> Tensor",
    "input + value * tensor1 / tensor2.",
    facts=Fact.POINTWISE,
    dtypes="inexact",
    variants="function method inplace out",
)


@addcdiv.meta
def addcdiv_meta(input: TensorType, tensor1: TensorType, tensor2: TensorType, value: TensorType | None) -> TensorType:
    return scaled_result(addcdiv, [input, tensor1, tensor2], value=value)


@addcdiv.ref
def addcdiv_ref(input: ArrayLike, tensor1: ArrayLike, tensor2: ArrayLike, value: ArrayLike | None) -> Array:
    return computed(addcdiv, lambda x, a, b, v: x + _times(v, a) / b, [input, tensor1, tensor2, value])


@addcdiv.lower
def addcdiv_lower(at: At, input: Operand, tensor1: Operand, tensor2: Operand, value: Operand | None) -> Scalar:
    operands = [input, tensor1, tensor2, value]
    return lowered(addcdiv, lambda x, a, b, v: x + _times(v, a) / b, at, operands)


@addcdiv.vjp
def addcdiv_vjp(g: Value, input: Value, tensor1: Value, tensor2: Value, value: Value | None) -> Gradients:
    slope = (g if value is None else g * conjugate(value)) / conjugate(tensor2)
    by_divisor = -slope * conjugate(tensor1 / tensor2)
    return unbroadcast(g, input), unbroadcast(slope, tensor1), unbroadcast(by_divisor, tensor2), None


@addcdiv.samples
def addcdiv_samples(rng: np.random.Generator) -> Iterator[Sample]:
    divisor = sample_array(rng, (5,), "nonzero")
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (3, 5)), divisor, domain="nonzero")
    yield Sample(sample_array(rng, (3, 5)), sample_array(rng, (3, 1)), divisor, value=0.5, domain="nonzero")
