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
from rushlight.sym import ceildiv, eq, guard, le, maximum, minimum, mod, statically_known

Range = tuple[Any, Any]
"""The first place, and the one after the last: ints, or sizes of a trace."""
Box = tuple[Range, ...]


def part(whole: Range, count: int, index: int) -> Range:
    """Part `index` of `count` of a range."""
    begin, end = whole
    step = ceildiv(end - begin, count)
    # What ends a part is written as what begins the next one, so that sizes of a trace show that they meet.
    first = minimum(begin + step * index, end) if index else begin
    return first, end if index == count - 1 else minimum(begin + step * (index + 1), end)


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


def shape_of(box: Box) -> tuple[Any, ...]:
    """The sizes of a box."""
    return tuple([end - begin for begin, end in box])


def starts_of(box: Box) -> tuple[int, ...]:
    """Where a box begins, along each dim."""
    return tuple([begin for begin, _ in box])


def count_of(box: Box) -> Any:
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
    """The places in both boxes; None where it is known that there are none."""
    ranges = tuple([_common_range(a, b) for a, b in zip(one, other, strict=True)])
    return None if any(begin is end or begin == end for begin, end in ranges) else ranges


def _common_range(one: Range, other: Range) -> Range:
    for inner, outer in ((one, other), (other, one)):
        if statically_known(le(outer[0], inner[0])) and statically_known(le(inner[1], outer[1])):
            return inner
    begin = maximum(one[0], other[0])
    end = minimum(one[1], other[1])
    return begin, begin if statically_known(le(end, begin)) else maximum(begin, end)


def tiled_dim(pieces: Sequence[Box], whole: Box) -> int | None:
    """The dim along which pieces are all of a box, one after another; None where they do not show that."""
    if not pieces:
        return None
    differ = [dim for dim, held in enumerate(whole) if any(piece[dim] != held for piece in pieces)]
    if len(differ) > 1:
        return None
    dim = differ[0] if differ else 0
    if not whole or (not differ and len(pieces) > 1):
        return 0 if len(pieces) == 1 else None
    ends = [whole[dim][0], *[piece[dim][1] for piece in pieces]]
    begins = [*[piece[dim][0] for piece in pieces], whole[dim][1]]
    return dim if all(end == begin for end, begin in zip(ends, begins, strict=True)) else None


def within(inner: Box, outer: Box) -> tuple[slice, ...]:
    """Where a box lies in another one that contains it."""
    return tuple([slice(a - begin, b - begin) for (a, b), (begin, _) in zip(inner, outer, strict=True)])


def is_even(shape: Sequence[int], placements: Sequence[Placement], mesh_shape: Sequence[int]) -> bool:
    """Whether all ranks hold parts of one shape: each cut divides without remainder."""
    counts = [1] * len(shape)
    for placement, count in zip(placements, mesh_shape, strict=True):
        if isinstance(placement, Shard):
            counts[placement.dim] *= count
    return all(guard(eq(mod(size, count), 0)) for size, count in zip(shape, counts, strict=True))


def view_of(array: NDArray[Any], inner: Box, outer: Box) -> NDArray[Any]:
    """A box as a view of an array that holds another one, which contains it."""
    return array[(*within(inner, outer), ...)]
