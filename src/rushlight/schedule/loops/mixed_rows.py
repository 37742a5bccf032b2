"""Rows, and the sums of their columns, in one pass: gradients of a norm read their operands once.

A kernel of rows and a kernel that sums columns in runs of rows read the same operands. Together they visit a run of
rows twice while it is in the cache. Neither order changes: rows are on their own, and sums add run by run.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TypeVar

from rushlight.ir.kernel import AxisKind, Kernel, loops_in
from rushlight.ir.scalar import COLUMNS, OPS, Buffer, Scalar, bound_axes
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.lower.nodes import Node
from rushlight.schedule.lower.rewrite import as_size, linear_offset
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size, ceildiv, depends_on, is_nonnegative, minimum, product
from rushlight.term import postorder

# With fewer rows there are too few blocks of them for all threads.
LEAST_ROWS = 16 * COLUMNS.block

Part = TypeVar("Part")


@frozen(eq=False)
class MixedRows:
    """A group of rows, and one of sums of columns in blocks of the same rows."""

    rows: Group
    sums: Group


def mixed_rows(parts: Sequence[Group | Part], aliases: Container[Buffer]) -> Iterator[Group | Part | MixedRows]:
    """The parts of a plan in order, where a group of rows and the sums of columns after it are one."""
    position = 0
    while position < len(parts):
        here, after = parts[position], parts[position + 1] if position + 1 < len(parts) else None
        if isinstance(here, Group) and isinstance(after, Group) and _can_mix(here, after, aliases):
            yield MixedRows(here, after)
            position += 2
        else:
            yield here
            position += 1


def _can_mix(rows: Group, sums: Group, aliases: Container[Buffer]) -> bool:
    """Whether the sums are of columns of the same many rows, and read no other row's results."""
    nodes = (*rows.nodes, *sums.nodes)
    if rows.gemm is not None or sums.gemm is not None or rows.outer is None or not rows.reads & sums.reads:
        return False
    if any(node.writes_at_data or node.buffer in aliases for node in nodes):
        return False
    count = product(rows.nodes[0].sizes[: rows.outer])
    if not isinstance(count, int) or count < LEAST_ROWS or not any(node.reduces for node in rows.nodes):
        return False
    made = {node.buffer: product(node.sizes[rows.outer :]) for node in rows.nodes}
    return all(_sums_blocks(node, count) and _reads_own_rows(node, made) for node in sums.nodes)


def is_row_by_row(kernel: Kernel) -> bool:
    """Whether a kernel is one loop over rows that threads share, with loops of equal lengths inside."""
    axes = kernel.parallel_axes
    if len(axes) != 1 or axes[0].kind is not AxisKind.PARALLEL or axes[0].start != 0:
        return False
    inside = [loop.axis for loop in loops_in(kernel.body) if loop.axis is not axes[0]]
    bounds = [bound for axis in inside for bound in (axis.extent, axis.start)]
    bounds += [
        axis_size(axis) for store in kernel.stores() for term in postorder(store.roots) for axis in bound_axes(term)
    ]
    is_even = not any(isinstance(bound, Scalar) or depends_on(bound, axes[0].symbol) for bound in bounds)
    return is_even and all(isinstance(store.offset, Scalar) for store in kernel.stores())


def _sums_blocks(node: Node, count: int) -> bool:
    """Whether a node has the sums of columns of each block of so many rows."""
    body = node.body
    if (
        body.op is not OPS["reduce"]
        or body.attr("order") != COLUMNS
        or len(bound_axes(body)) != 1
        or len(node.axes) < 2
    ):
        return False
    block, (step,) = node.axes[0], bound_axes(body)
    blocks = ceildiv(count, COLUMNS.block)
    return axis_size(block) == blocks and axis_size(step) == minimum(COLUMNS.block, count - block * COLUMNS.block)


def _reads_own_rows(node: Node, made: dict[Buffer, Size]) -> bool:
    """Whether a node reads, of what the rows make, the elements of the row that it adds, and no others."""
    block, (step,) = node.axes[0], bound_axes(node.body)
    row = block * COLUMNS.block + step
    for buffer, index in node.reads:
        if buffer in made:
            offset = as_size(linear_offset(index, buffer.type.strides))
            if offset is None or not buffer.type.is_contiguous:
                return False
            rest = offset - row * made[buffer]
            if isinstance(rest, SizeExpr) and (depends_on(rest, block) or depends_on(rest, step)):
                return False
            # A read behind a condition may be of the row before, which another thread makes.
            if not (is_nonnegative(rest) and is_nonnegative(made[buffer] - 1 - rest)):
                return False
    return True
