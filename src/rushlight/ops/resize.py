"""Images of other sizes: the nearest element, or sums of near ones, dim after dim.

Where an element of the result lies in the input is computed in the dtype of the arithmetic on elements, as PyTorch
does: places come out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, float32, int64
from rushlight.ir.value import Value
from rushlight.ops.create import count_of, filled, positions
from rushlight.ops.dims import Array, Shape, compute_array, convert, normal, widened
from rushlight.ops.index.read import index_select
from rushlight.ops.pointwise.arithmetic import div
from rushlight.ops.pointwise.rounding import floor, maximum, minimum
from rushlight.ops.record import Sample, define
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, gt, required

CUBIC = -0.75  # the slope at the second neighbours (Keys 1981), as in PyTorch

Scales = tuple[float, ...] | None
Tap = tuple[Any, Any]
"""Places along a dim, and the weights of the elements there."""
resize_nearest = define(
    "resize_nearest(Tensor input, Size[] size, float[]? scales=None, bool exact=False) -> Tensor",
    "The last dims in other sizes: each element is the one that its corner (or, when exact, its middle) falls on.",
    variants="",
)
resize_linear = define(
    "resize_linear(Tensor input, Size[] size, float[]? scales=None, bool align_corners=False) -> Tensor",
    "The last dims in other sizes: in each, a mean of two neighbours, nearer ones with more weight. Aligned corners "
    "put the first and last elements on each other, else their outer edges are.",
    dtypes="float",
    variants="",
)
resize_cubic = define(
    "resize_cubic(Tensor input, Size[] size, float[]? scales=None, bool align_corners=False) -> Tensor",
    "resize_linear with four neighbours, by cubic convolution.",
    dtypes="float",
    variants="",
)


def number_of(world: Value, size: Size, dtype: DType) -> Value:
    """A size as a number of a floating-point dtype, in the world of another value."""
    count = count_of(world, size)
    return filled(world, (), count, dtype) if isinstance(count, int) else convert(count, dtype)


def _step(world: Value, before: Size, after: Size, scale: float | None, dtype: DType) -> Value:
    """How far elements of the result are from each other in the input."""
    if scale is not None:
        return filled(world, (), 1.0 / scale, dtype)
    return div(number_of(world, before, dtype), number_of(world, after, dtype))


def _nearest_taps(world: Value, before: Size, after: Size, scale: float | None, exact: bool) -> Value:
    position = convert(positions(world, after), float32)
    position = floor((position + 0.5 if exact else position) * _step(world, before, after, scale, float32))
    return minimum(convert(position, int64), count_of(position, before - 1))


def _source(world: Value, before: Size, after: Size, scale: float | None, align_corners: bool, dtype: DType) -> Value:
    points = convert(positions(world, after), dtype)
    if align_corners:
        # Alone, an element is at 0 whatever the step.
        gaps = maximum(number_of(world, after - 1, dtype), 1.0)
        return points * div(number_of(world, before - 1, dtype), gaps)
    return (points + 0.5) * _step(world, before, after, scale, dtype) - 0.5


def _held(position: Value, before: Size) -> Value:
    """Places within the input."""
    return minimum(maximum(position, 0), count_of(position, before - 1))


def _linear_taps(source: Value, before: Size) -> list[Tap]:
    source = maximum(source, 0.0)
    low = _held(convert(source, int64), before)
    share = minimum(source - convert(low, source.dtype), 1.0)
    return [(low, 1.0 - share), (_held(low + 1, before), share)]


def _cubic_taps(source: Value, before: Size) -> list[Tap]:
    low = floor(source)
    after = source - low
    first = convert(low, int64) - 1
    weights = [cubic_far(after + 1.0), cubic_near(after), cubic_near(1.0 - after), cubic_far(2.0 - after)]
    return [(_held(first + position, before), weight) for position, weight in enumerate(weights)]


def cubic_near(x: Any) -> Any:
    """Cubic convolution at distances up to 1, of arrays or values."""
    return ((CUBIC + 2.0) * x - (CUBIC + 3.0)) * x * x + 1.0


def cubic_far(x: Any) -> Any:
    """Cubic convolution at distances from 1 to 2, of arrays or values."""
    return ((x - 5.0) * (CUBIC * x) + 8.0 * CUBIC) * x - 4.0 * CUBIC


def require_sizes(op: str, input: Value, size: Shape, scales: Scales) -> list[tuple[int, Size, float | None]]:
    """Return (dim, its new size, how many times as large) for each dim, the last one first."""
    require(len(size) <= input.ndim, "S002", f"{op}: more sizes than dims", input=input.shape, size=size)
    for one in size:
        require(required(gt(one, 0)), "A002", f"{op}: sizes must be greater than 0", size=size)
    require(scales is None or len(scales) == len(size), "A004", f"{op}: a scale for each size", scales=scales)
    lead = input.ndim - len(size)
    resized = [(lead + at, one, None if scales is None else scales[at]) for at, one in enumerate(size)]
    return resized[::-1]


@resize_nearest.decompose
def resize_nearest_decompose(input: Value, size: Shape, scales: Scales, exact: bool) -> Value:
    result = input
    for dim, after, scale in require_sizes("resize_nearest", input, size, scales):
        result = index_select(result, dim, _nearest_taps(input, input.shape[dim], after, scale, exact))
    return result


def _resized(
    op: str, input: Value, size: Shape, scales: Scales, align_corners: bool, taps: Callable[[Any, Size], list[Tap]]
) -> Value:
    result = widened(input)
    for dim, after, scale in require_sizes(op, input, size, scales):
        before = input.shape[dim]
        source = _source(input, before, after, scale, align_corners, result.dtype)
        column = (-1, *(1,) * (input.ndim - 1 - dim))
        parts = [
            index_select(result, dim, indices) * reshape(weight, column) for indices, weight in taps(source, before)
        ]
        result = parts[0]
        for part in parts[1:]:
            result = result + part
    return convert(result, input.dtype)


@resize_linear.decompose
def resize_linear_decompose(input: Value, size: Shape, scales: Scales, align_corners: bool) -> Value:
    return _resized("resize_linear", input, size, scales, align_corners, _linear_taps)


@resize_cubic.decompose
def resize_cubic_decompose(input: Value, size: Shape, scales: Scales, align_corners: bool) -> Value:
    return _resized("resize_cubic", input, size, scales, align_corners, _cubic_taps)


def _source_array(before: int, after: int, scale: float | None, align_corners: bool, dtype: Any) -> Array:
    points = np.arange(after).astype(dtype)
    if align_corners:
        return points * (dtype(before - 1) / dtype(max(after - 1, 1)))
    return (points + dtype(0.5)) * (dtype(before) / dtype(after) if scale is None else dtype(1 / scale)) - dtype(0.5)


def _weighted(
    input: Array,
    size: Sequence[int],
    scales: Scales,
    align_corners: bool,
    reach: int,
    kernel: Callable[[Array], Array],
) -> Array:
    """The result for a kernel of distances that is 0 beyond `reach`."""
    lead = input.ndim - len(size)
    result = compute_array(input)
    for at, after in enumerate(size):
        before = input.shape[lead + at]
        scale = None if scales is None else scales[at]
        source = _source_array(before, after, scale, align_corners, np.dtype(result.dtype).type)
        source = np.clip(source, 0, None) if reach == 1 else source
        column = (-1, *(1,) * (len(size) - 1 - at))
        near = np.floor(source) + np.arange(1 - reach, reach + 1)[:, None]
        places = np.clip(near, 0, before - 1).astype(int)
        weights = kernel(np.abs(source - near)).astype(result.dtype)
        taps = zip(places, weights, strict=True)
        parts = [np.take(result, indices, lead + at) * weight.reshape(column) for indices, weight in taps]
        result = np.sum(parts, 0)
    return result.astype(input.dtype)


@resize_nearest.ref
def resize_nearest_ref(input: Array, size: tuple[int, ...], scales: Scales, exact: bool) -> Array:
    lead, result = input.ndim - len(size), input
    for at, after in enumerate(size):
        before = input.shape[lead + at]
        step = np.float32(before) / np.float32(after) if scales is None else np.float32(1 / scales[at])
        indices = np.floor((np.arange(after).astype(np.float32) + np.float32(0.5 * exact)) * step).astype(int)
        result = np.take(result, np.minimum(indices, before - 1), lead + at)
    return result


@resize_linear.ref
def resize_linear_ref(input: Array, size: tuple[int, ...], scales: Scales, align_corners: bool) -> Array:
    return _weighted(input, size, scales, align_corners, 1, lambda distance: np.clip(1 - distance, 0, 1))


@resize_cubic.ref
def resize_cubic_ref(input: Array, size: tuple[int, ...], scales: Scales, align_corners: bool) -> Array:
    def kernel(distance: Array) -> Array:
        return np.where(distance <= 1, cubic_near(distance), cubic_far(distance))

    return _weighted(input, size, scales, align_corners, 2, kernel)


@resize_nearest.samples
def resize_nearest_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4, 5), (8, 10))
    yield Sample(normal(rng, 2, 3, 5), (3,), None, True)
    yield Sample(normal(rng, 2, 3, 5), (7,), (1.5,))


@resize_linear.samples
def resize_linear_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4, 5), (8, 3))
    yield Sample(normal(rng, 2, 3, 5), (9,), None, True)
    yield Sample(normal(rng, 2, 5), (7,), (1.5,))
    yield Sample(normal(rng, 2, 5, 3), (1, 1), None, True)


@resize_cubic.samples
def resize_cubic_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4, 5), (8, 3))
    yield Sample(normal(rng, 2, 3, 5), (9,), None, True)
