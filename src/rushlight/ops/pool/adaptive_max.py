"""Largest elements of windows that cover the last dims, and elements put back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import compute_dtype, int64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import BLOCKED, Scalar, cast, constant, index, is_nan, reduce, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import zeros_of
from rushlight.ops.dims import Array, At, Shape, guarded, normal, require_floating, same_shape
from rushlight.ops.index.read import require_integers
from rushlight.ops.index.write import scatter, scatter_add
from rushlight.ops.pool.pool_nd import adaptive_space, covered, window_range
from rushlight.ops.pool.window import lowest
from rushlight.ops.record import Fact, Sample, define
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, gt, product, required

adaptive_max_pool = define(
    "adaptive_max_pool(Tensor input, Size[] output_size) -> Tensor",
    "The largest element of each of the windows that adaptive_avg_pool takes means of.",
    facts=Fact.REDUCTION,
    dtypes="float",
    variants="",
)
adaptive_max_pool_indices = define(
    "adaptive_max_pool_indices(Tensor input, Size[] output_size) -> Tensor",
    "The flat place in space of each window's largest element, the first of equals.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    dtypes="float",
    variants="",
)
max_unpool = define(
    "max_unpool(Tensor input, Tensor indices, Size[] output_size) -> Tensor",
    "Zeros of a larger space with each element at the flat place in space that its index gives.",
    dtypes="number",
    variants="",
)


@adaptive_max_pool.meta
def adaptive_max_pool_meta(input: TensorType, output_size: Shape) -> TensorType:
    require_floating(input, "adaptive_max_pool")
    lead, space = adaptive_space(input.shape, output_size)
    filled = all(required(gt(size, 0)) for size in space)
    require(filled, "S010", "adaptive_max_pool: windows without elements", input=input, output_size=output_size)
    return TensorType((*lead, *output_size), input.dtype, input.device)


def _windows(input: Array, output_size: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    lead = input.ndim - len(output_size)
    for output in np.ndindex(*output_size):
        rule = zip(output, input.shape[lead:], output_size, strict=True)
        yield output, tuple([slice(*window_range(*window)) for window in rule])


@adaptive_max_pool.ref
def adaptive_max_pool_ref(input: Array, output_size: tuple[int, ...]) -> Array:
    lead = input.ndim - len(output_size)
    result = np.zeros((*input.shape[:lead], *output_size), input.dtype)
    for output, window in _windows(input, output_size):
        result[(..., *output)] = np.max(input[(..., *window)], tuple(range(lead, input.ndim)))
    return result


def _largest(at: At, input: Operand, output_size: Shape) -> tuple[Scalar, list[Scalar], Size, At]:
    """(An element of the window, when it is one, its flat place in space, the axes over the window)."""
    lead, space = adaptive_space(input.shape, output_size)
    axes, places, conditions = covered(at[len(lead) :], space, output_size)
    wide = compute_dtype(input.dtype)
    element = cast(input[(*at[: len(lead)], *places)], wide)
    flat: Size = 0
    for position, size in zip(places, space, strict=True):
        flat = flat * size + position
    return guarded(conditions, element, constant(lowest(wide.numpy), wide)), conditions, flat, axes


@adaptive_max_pool.lower
def adaptive_max_pool_lower(at: At, input: Operand, output_size: Shape) -> Scalar:
    element, _, _, axes = _largest(at, input, output_size)
    return cast(reduce("max", axes, element, BLOCKED), input.dtype)


@adaptive_max_pool.vjp
def adaptive_max_pool_vjp(g: Value, input: Value, output_size: Shape) -> Value:
    lead, space = adaptive_space(input.shape, output_size)
    flat = (*lead, product(output_size))
    places = reshape(adaptive_max_pool_indices(input, output_size), flat)
    gradient = scatter_add(zeros_of(g, (*lead, product(space))), -1, places, reshape(g, flat))
    return reshape(gradient, input.shape)


@adaptive_max_pool.samples
def adaptive_max_pool_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 5, 4), (3, 2))
    yield Sample(normal(rng, 2, 3), (5,))


@adaptive_max_pool_indices.meta
def adaptive_max_pool_indices_meta(input: TensorType, output_size: Shape) -> TensorType:
    return TensorType(adaptive_max_pool_meta(input, output_size).shape, int64, input.device)


@adaptive_max_pool_indices.ref
def adaptive_max_pool_indices_ref(input: Array, output_size: tuple[int, ...]) -> Array:
    lead = input.ndim - len(output_size)
    result = np.zeros((*input.shape[:lead], *output_size), np.int64)
    numbers = np.arange(int(np.prod(input.shape[lead:]))).reshape(input.shape[lead:])
    for output, window in _windows(input, output_size):
        rows = input[(..., *window)].reshape(*input.shape[:lead], -1)
        result[(..., *output)] = numbers[window].reshape(-1)[np.argmax(rows, -1)]
    return result


@adaptive_max_pool_indices.lower
def adaptive_max_pool_indices_lower(at: At, input: Operand, output_size: Shape) -> Scalar:
    element, _, _, axes = _largest(at, input, output_size)
    top = reduce("max", axes, element, BLOCKED)
    again, conditions, flat, axes = _largest(at, input, output_size)
    hit = again.equals(top) | is_nan(again)
    for condition in conditions:
        hit = hit & condition
    _, space = adaptive_space(input.shape, output_size)
    return reduce("min", axes, select(hit, index(flat), index(product(space))), BLOCKED)


@adaptive_max_pool_indices.samples
def adaptive_max_pool_indices_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 5, 4), (3, 2))


@max_unpool.decompose
def max_unpool_decompose(input: Value, indices: Value, output_size: Shape) -> Value:
    count = len(output_size)
    require(input.ndim > count, "S002", "max_unpool: the input needs a dim of channels", input=input.shape)
    require_integers("max_unpool", indices=indices)
    fits = same_shape(input.shape, indices.shape)
    require(fits, "S014", "max_unpool: input and indices differ in shape", input=input.shape, indices=indices.shape)
    lead = input.shape[: input.ndim - count]
    flat = (*lead, product(input.shape[input.ndim - count :]))
    empty = zeros_of(input, (*lead, product(output_size)))
    return reshape(scatter(empty, -1, reshape(indices, flat), reshape(input, flat)), (*lead, *output_size))


@max_unpool.ref
def max_unpool_ref(input: Array, indices: Array, output_size: tuple[int, ...]) -> Array:
    lead = input.shape[: input.ndim - len(output_size)]
    result = np.zeros((int(np.prod(lead)), int(np.prod(output_size))), input.dtype)
    for row, places, values in zip(
        result, indices.reshape(len(result), -1), input.reshape(len(result), -1), strict=True
    ):
        row[places] = values
    return result.reshape(*lead, *output_size)


@max_unpool.samples
def max_unpool_samples(rng: np.random.Generator) -> Iterator[Sample]:
    places = rng.permuted(np.tile(np.arange(20), (6, 1)), axis=1)[:, :4].reshape(2, 3, 2, 2)
    yield Sample(normal(rng, 2, 3, 2, 2), places, (4, 5))
