"""Which part of a tensor a rank holds: for each dim a range of its places, as `torch.chunk` cuts it.

A dim of `size` places on an axis of n ranks is cut into parts of ceil(size / n) places; the last parts are shorter, or
empty. Further axes that shard the same dim cut the parts again, in an order that the spec says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from rushlight.ir.placement import Placement, Shard

Range = tuple[int, int]
"""The first place, and the one after the last."""
Box = tuple[Range, ...]


def part(whole: Range, count: int, index: int) -> Range:
    """Part `index` of `count` of a range."""
    begin, end = whole
    step = -((begin - end) // count)
    first = min(begin + step * index, end)
    return first, min(first + step, end)


def sharding_axes(placements: Sequence[Placement], dim: int, order: Sequence[int]) -> list[int]:
    """The axes of the mesh that shard a dim, the one that cuts first in front."""
    return [axis for axis in order if placements[axis].is_shard(dim)]


def box_of(
    shape: Sequence[int],
    placements: Sequence[Placement],
    mesh_shape: Sequence[int],
    coordinate: Sequence[int],
    order: Sequence[int] | None = None,
) -> Box:
    """The ranges of the rank at a coordinate of the mesh. `order` says which axes cut first."""
    ranges = [(0, size) for size in shape]
    for axis in range(len(placements)) if order is None else order:
        placement = placements[axis]
        if isinstance(placement, Shard):
            ranges[placement.dim] = part(ranges[placement.dim], mesh_shape[axis], coordinate[axis])
    return tuple(ranges)


def shape_of(box: Box) -> tuple[int, ...]:
    """The sizes of a box."""
    return tuple([end - begin for begin, end in box])


def starts_of(box: Box) -> tuple[int, ...]:
    """Where a box begins, along each dim."""
    return tuple([begin for begin, _ in box])


def count_of(box: Box) -> int:
    """The number of places in a box."""
    return math.prod(shape_of(box))


def box_at(starts: Sequence[int], sizes: Sequence[int]) -> Box:
    """The box of some sizes from some place on."""
    return tuple([(start, start + size) for start, size in zip(starts, sizes, strict=True)])


def whole(shape: Sequence[int]) -> Box:
    """All of a tensor of a shape."""
    return tuple([(0, size) for size in shape])


def lies_in(box: Box, shape: Sequence[int]) -> bool:
    """Whether a box is one of a tensor of a shape."""
    return len(box) == len(shape) and all(
        0 <= begin <= end <= size for (begin, end), size in zip(box, shape, strict=True)
    )


def common(one: Box, other: Box) -> Box | None:
    """The places in both boxes; None where there are none."""
    ranges = tuple([(max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(one, other, strict=True)])
    return ranges if all(begin < end for begin, end in ranges) else None


def within(inner: Box, outer: Box) -> tuple[slice, ...]:
    """Where a box lies in another one that contains it."""
    return tuple([slice(a - begin, b - begin) for (a, b), (begin, _) in zip(inner, outer, strict=True)])


def is_even(shape: Sequence[int], placements: Sequence[Placement], mesh_shape: Sequence[int]) -> bool:
    """Whether all ranks hold parts of one shape: each cut divides without remainder."""
    counts = [1] * len(shape)
    for placement, count in zip(placements, mesh_shape, strict=True):
        if isinstance(placement, Shard):
            counts[placement.dim] *= count
    return all(not size % count for size, count in zip(shape, counts, strict=True))


def view_of(array: NDArray[Any], inner: Box, outer: Box) -> NDArray[Any]:
    """A box as a view of an array that holds another one, which contains it."""
    return array[(*within(inner, outer), ...)]
