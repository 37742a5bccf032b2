"""Images of smaller sizes without aliasing: each element is a mean over all elements that it stands for.

The kernel of linear or cubic resizing is stretched by how many elements of the input one of the result stands for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, int64
from rushlight.ir.value import Value
from rushlight.ops.create import count_of, filled, positions
from rushlight.ops.dims import Array, Shape, compute_array, convert, normal, widened
from rushlight.ops.index.read import index
from rushlight.ops.pointwise.arithmetic import div
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.complex import abs_
from rushlight.ops.pointwise.rounding import floor, maximum, minimum
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.resize import Scales, number_of, require_sizes
from rushlight.ops.view.reorder import unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, ceildiv
from rushlight.sym import maximum as larger

SLOPE = -0.5  # of the cubic kernel at 1; that of plain cubic resizing is -0.75, as in PyTorch
_REACH = {"linear": 1, "cubic": 2}

resize_antialias = define(
    "resize_antialias(Tensor input, Size[] size, str kernel, float[]? scales=None, bool align_corners=False) -> Tensor",
    "The last dims in other sizes: in each, a mean weighted by a kernel as wide as what an element stands for.",
    dtypes="float",
    variants="",
)


def _number_of_taps(before: Size, after: Size, scale: float | None, align_corners: bool, reach: int) -> Size:
    """The most elements that a stretched kernel covers."""
    if align_corners:
        before, after = before - 1, larger(after - 1, 1)
    elif scale is not None:
        return 2 * math.ceil(reach * max(1.0 / scale, 1.0)) + 1
    return 2 * larger(ceildiv(reach * before, after), reach) + 1


def _step(world: Value, before: Size, after: Size, scale: float | None, align_corners: bool, dtype: DType) -> Value:
    """How many elements of the input one of the result stands for."""
    if align_corners:
        gaps = number_of(world, after - 1, dtype)
        return where(gaps > 0, div(number_of(world, before - 1, dtype), maximum(gaps, 1.0)), 0.0)
    if scale is not None:
        return filled(world, (), 1.0 / scale, dtype)
    return div(number_of(world, before, dtype), number_of(world, after, dtype))


def _kernel_at(distance: Any, kernel: str) -> Any:
    """The pieces of the kernel, nearest first: polynomials of distances that are not negative."""
    if kernel == "linear":
        return (1.0 - distance,)
    near = ((SLOPE + 2.0) * distance - (SLOPE + 3.0)) * distance * distance + 1.0
    far = (((distance - 5.0) * distance + 8.0) * distance - 4.0) * SLOPE
    return near, far


def _weights(distance: Value, kernel: str) -> Value:
    pieces = _kernel_at(distance, kernel)
    weights = where(distance < float(len(pieces)), pieces[-1], 0.0)
    return where(distance < 1.0, pieces[0], weights) if len(pieces) > 1 else weights


@resize_antialias.decompose
def resize_antialias_decompose(input: Value, size: Shape, kernel: str, scales: Scales, align_corners: bool) -> Value:
    require(kernel in _REACH, "A002", f"resize_antialias: kernel is one of {', '.join(_REACH)}", kernel=kernel)
    result, reach = widened(input), _REACH[kernel]
    for dim, after, scale in require_sizes("resize_antialias", input, size, scales):
        before = input.shape[dim]
        step = _step(result, before, after, scale, align_corners, result.dtype)
        stretch = maximum(step, 1.0)
        middle = (convert(positions(result, after), result.dtype) + 0.5) * step
        first = maximum(convert(floor(middle - stretch * float(reach) + 0.5), int64), 0)
        taps = positions(result, _number_of_taps(before, after, scale, align_corners, reach))
        places = unsqueeze(first, 1) + taps
        distance = abs_((convert(places, result.dtype) + 0.5 - unsqueeze(middle, 1)) / stretch)
        inside = places < count_of(places, before)
        weights = where(inside, _weights(distance, kernel), 0.0)
        total = sum_(weights, 1, True)
        weights = weights / where(total > 0.0, total, 1.0)  # an image without elements has no weights
        near = index(result, (minimum(places, count_of(places, before - 1)),), (dim,))
        weights = reshape(weights, (*weights.shape, *(1,) * (input.ndim - 1 - dim)))
        result = sum_(where(eq(weights, 0.0), 0.0, near * weights), dim + 1)  # infinities outside stay there
    return convert(result, input.dtype)


@resize_antialias.ref
def resize_antialias_ref(
    input: Array, size: tuple[int, ...], kernel: str, scales: Scales, align_corners: bool
) -> Array:
    result = compute_array(input)
    lead = input.ndim - len(size)
    for at, after in enumerate(size):
        before = input.shape[lead + at]
        step = before / after if scales is None else 1 / scales[at]
        step = step if not align_corners else (before - 1) / (after - 1) if after > 1 else 0.0
        middle = (np.arange(after) + 0.5) * step
        distance = np.abs(np.arange(before) + 0.5 - middle[:, None]) / max(step, 1.0)
        pieces = _kernel_at(distance, kernel)
        weights = np.select([distance < reach for reach in range(1, len(pieces) + 1)], pieces, 0.0)
        rows: list[Array] = []
        for row in weights:
            (used,) = np.nonzero(row)
            share = (row[used] / np.sum(row)).astype(result.dtype)
            rows.append(np.tensordot(share, np.take(result, used, lead + at), (0, lead + at)))
        result = np.stack(rows, lead + at)
    return result.astype(input.dtype)


@resize_antialias.samples
def resize_antialias_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 7, 5), (3, 8), "linear")
    yield Sample(normal(rng, 2, 9), (4,), "cubic", None, True)
