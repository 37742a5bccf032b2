"""Splits large reductions into partial results of blocks, so that several threads can work on them.

The split is at the block edges that the reduction's Order fixes, so the bits are those of the unsplit form.
"""

from __future__ import annotations

from typing import NamedTuple

from rushlight.ir.scalar import OPS, Buffer, Order, Scalar, bound_axes, cast, load, reduce
from rushlight.ir.type import TensorType
from rushlight.schedule.lower.nodes import Node, make_node
from rushlight.schedule.lower.rewrite import Substitution, as_size, at_position, linear_offset, loads, rebuild
from rushlight.sym import (
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    coefficient,
    free_symbols,
    is_axis,
    minimum,
    product,
)
from rushlight.term import postorder
from rushlight.term import substitute as replace_terms

# The second stage folds the partial results of blocks one after the other.
FOLD = Order(1, 1, 1)
# The least number of steps of each lane for which a split pays.
MIN_STEPS = 512


class RowSum(NamedTuple):
    """The initial value and the step of a reduction that may run row by row."""

    start: float
    step: str


ROW_SUMS = {"sum": RowSum(0.0, "add"), "signed_sum": RowSum(-0.0, "add"), "prod": RowSum(1.0, "mul")}


def split_reductions(nodes: list[Node]) -> list[Node]:
    """Turns a reduction of many blocks into two nodes: partial results, then the fold over them.

    Reductions to a scalar are split, and reductions whose results lie along the rows that are summed.
    """
    spread = _spread_out(nodes)
    result: list[Node] = []
    for node in nodes:
        reduction = _splittable(node)
        if reduction is None or (node.axes and (node.buffer in spread or not _sums_rows(node, reduction))):
            result.append(node)
        else:
            result.extend(_split(node, reduction))
    return result


def _spread_out(nodes: list[Node]) -> set[Buffer]:
    """Values that are read inside a reduction, or by nodes with more axes: best computed in place."""
    rank = {node.buffer: len(node.axes) for node in nodes}
    return {
        buffer for node in nodes for buffer, _ in node.reads if node.reduces or len(node.axes) > rank.get(buffer, 0)
    }


def _sums_rows(node: Node, reduction: Scalar) -> bool:
    """Whether a node sums rows of numbers, a sum for each column, with columns of stride 1."""
    if reduction.attr("kind") not in ROW_SUMS or reduction.attr("order").lanes != 1:
        return False
    reads = [read for read in loads(reduction) if read.operands]
    offsets = [as_size(linear_offset(read.operands, read.attr("buffer").type.strides)) for read in reads]
    last = node.axes[-1]
    return any(isinstance(offset, SizeExpr) and coefficient(offset, last) == 1 for offset in offsets)


def _splittable(node: Node) -> Scalar | None:
    """Returns a node's only reduction, if it can be split.

    It must be unconditional, equally long for all results, and have several blocks.
    """
    reductions = [term for term in postorder([node.body]) if bound_axes(term)]
    if node.writes_at_data or len(reductions) != 1 or reductions[0].op is not OPS["reduce"]:
        return None
    (reduction,) = reductions
    around = postorder([node.body], lambda term: () if term is reduction else term.operands)
    count = product([axis_size(axis) for axis in bound_axes(reduction)])
    few = isinstance(count, int) and count < MIN_STEPS * reduction.attr("order").lanes
    ragged = isinstance(count, SizeExpr) and any(is_axis(symbol) for symbol in free_symbols(count))
    return None if few or ragged or any(term.op is OPS["guard"] for term in around) else reduction


def _split(node: Node, reduction: Scalar) -> tuple[Node, Node]:
    order: Order = reduction.attr("order")
    axes = bound_axes(reduction)
    sizes = [axis_size(axis) for axis in axes]
    count = product(sizes)
    blocks = ceildiv(count, order.block)
    block = axis_symbol(blocks, "q")
    step = axis_symbol(minimum(order.block, count - block * order.block), "t")
    images = at_position(block * order.block + step, axes)
    body = Substitution(images)(reduction.operands[0])
    kind, wide = reduction.attr("kind"), reduction.type
    share = reduce(kind, (step,), body, order, wide if wide is not body.type and order.lanes > 1 else None)
    partial = Buffer(f"{node.buffer.name}_blocks", TensorType((blocks, *node.sizes), share.type), "arena")
    first = make_node(partial, node.order, (block, *node.axes), share, stored=False)
    fold = axis_symbol(blocks, "q")
    total = reduce(kind, (fold,), cast(load(partial, fold, *node.axes), wide), FOLD)
    (body,) = replace_terms([node.body], {reduction: total}, rebuild)
    return first, make_node(node.buffer, node.order, node.axes, body, None, node.stored, node.place)
