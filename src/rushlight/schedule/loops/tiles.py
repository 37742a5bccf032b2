"""Tiling of two axes, where some addresses are contiguous along the one and others along the other.

Row by row, a transposed operand yields one element of each cache line, and the lines are evicted before the next row
needs them. In tiles, all of a line is used at once. (Transposed copies of 4,000 by 4,000 float32 values, one thread of
a Zen 3: 1.5 GB/s by rows, 9.7 in tiles.)
"""

from __future__ import annotations

from collections.abc import Iterator

from rushlight.ir.scalar import Buffer, Scalar, bound_axes
from rushlight.ir.target import Target
from rushlight.schedule.lower.rewrite import loads, step_along
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, ceildiv, minimum
from rushlight.term import postorder

# Bytes of a block along an axis that operands cross: a few lines of the caches, asked for one after the other.
CROSSING_BYTES = 256
# Elements of a block along the axis that stores are contiguous along.
BLOCK_WIDTH = 64


@frozen
class Span:
    """A tiled axis: the axis of the blocks (0 if there is one), the axis within a block, and their value."""

    block: Size
    within: SizeExpr
    position: Size


def in_blocks(total: Size, width: int, name: str) -> Span:
    """Splits the values below `total` into blocks of a width; the last block may be shorter."""
    blocks = ceildiv(total, width)
    block = 0 if blocks == 1 else axis_symbol(blocks, f"{name}_block")
    within = axis_symbol(minimum(width, total - block * width), name)
    return Span(block, within, block * width + within)


def crossing_axis(
    stores: list[tuple[Buffer, Scalar]], values: list[Scalar], axes: tuple[SizeExpr, ...]
) -> tuple[SizeExpr, int] | None:
    """An axis along which operands are contiguous that have long strides along the last axis.

    Returned with its block size, in elements of the widest of these operands. None if there is no such axis, or if
    values are summed.
    """
    *others, last = axes
    if any(bound_axes(term) for term in postorder(values)):
        return None
    far = [(buffer, offset) for buffer, offset in _addresses(stores, values) if _is_far(step_along(offset, last))]
    for axis in reversed(others):
        crossed = [buffer.type.dtype.itemsize for buffer, offset in far if step_along(offset, axis) == 1]
        if crossed and axis_size(axis) != 1:
            return axis, max(1, CROSSING_BYTES // max(crossed))
    return None


def _addresses(stores: list[tuple[Buffer, Scalar]], values: list[Scalar]) -> Iterator[tuple[Buffer, Scalar]]:
    yield from stores
    for read in dict.fromkeys([read for value in values for read in loads(value)]):
        yield read.attr("buffer"), read.operands[0]


def _is_far(step: Size | None) -> bool:
    return step is not None and (isinstance(step, SizeExpr) or abs(step) > Target.WIDE_LOAD_STRIDE)
