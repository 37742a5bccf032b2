"""Builds products that sum over a chain's rows, such as the gradients of attention keys and values.

The order of such a sum has blocks of rows, first to last. Row blocks of that length run in order and add a partial sum
each, so the bits are those of the whole product.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from rushlight.ir.plan import RowBlockLoop
from rushlight.ir.scalar import Buffer, Scalar, constant, contract, load
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.lower.nodes import Node, make_node
from rushlight.schedule.lower.rewrite import Index, Substitution, as_size
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, coefficient, maximum, substitute

OnLoad = Callable[[Buffer, tuple[Scalar, ...]], Scalar | None]


def dims_with_axes(buffer: Buffer) -> list[int]:
    """The dims of a buffer that have an axis."""
    return [dim for dim, size in enumerate(buffer.type.shape) if size != 1]


def common(items: Sequence[object], others: Sequence[object]) -> int:
    """The number of equal leading entries."""
    pairs = list(zip(items, others, strict=False))
    return next((position for position, (expr, other) in enumerate(pairs) if expr != other), len(pairs))


def matching(axes: Sequence[SizeExpr], buffer: Buffer, indices: Sequence[Scalar]) -> int:
    """How many leading axes are the leading indices of a load."""
    return common([as_size(indices[dim]) for dim in dims_with_axes(buffer)], axes)


def sums_over_rows(group: Group, sizes: Sequence[Size], made: Container[Buffer]) -> bool:
    """Whether a group is a product whose inner axis is the chain's rows, the last of the leading `sizes`.

    The product must read the chain's values, `made`, at the batch axes and the row.
    """
    shape, node = group.gemm, group.nodes[0]
    if shape is None or len(group.nodes) > 1 or len(shape.inner) != 1 or node.contraction is not node.body:
        return False
    index = (*shape.batch, *shape.inner)
    if shape.a.type is not node.body.type or node.axes[: len(shape.batch)] != shape.batch:
        return False
    if [axis_size(axis) for axis in index] != list(sizes):
        return False
    return all(matching(index, buffer, read_at) == len(index) for buffer, read_at in node.reads if buffer in made)


def _as_they_lie(node: Node) -> tuple[SizeExpr, ...]:
    """The axes of a node, with the axis of stride 1 last, so that partial sums are added along memory."""
    offset = node.offset()
    near = [axis for axis in node.axes if isinstance(offset, SizeExpr) and coefficient(offset, axis) == 1]
    return (*[axis for axis in node.axes if axis not in near], *near)


@dataclass(frozen=True, slots=True)
class PartialSums:
    """A sum over rows by row blocks: zeros before the first block, then the partial sum of each block.

    `before` stands for the sum so far; it shares the memory of the sum.
    """

    zeros: Node
    share: Node
    before: Buffer


def add_partial_sums(node: Node, batch: Mapping[SizeExpr, Index], rows: RowBlockLoop, on_load: OnLoad) -> PartialSums:
    """A sum over rows, over the axes of a row block.

    `batch` maps the batch axes to the block's indices; `on_load` replaces loads of private values.
    """
    contraction = node.contraction
    assert contraction is not None
    axes = _as_they_lie(node)[len(batch) :]
    sizes = {axis: image for axis, image in batch.items() if not isinstance(image, Scalar)}
    index = tuple([substitute(expr, sizes) for expr in node.index()])
    within = axis_symbol(rows.length, "k")
    (inner,) = contraction.attr("axes")
    operand = Substitution({**batch, inner: rows.start + within}, on_load)
    a, b = contraction.operands
    part = contract((within,), operand(a), operand(b), contraction.attr("order"))
    before = Buffer(f"{node.buffer.name}_before", node.buffer.type, node.buffer.scope)
    body = load(before, *index) + part
    first = axis_symbol(axis_size(axes[0]) * maximum(0, 1 - rows.start), "i")
    zero = constant(0.0, node.body.type)
    zeros_place = tuple([substitute(expr, {axes[0]: first}) for expr in index])
    zeros = make_node(node.buffer, node.order, (first, *axes[1:]), zero, place=zeros_place)
    return PartialSums(zeros, node.with_body(axes, body, index), before)
