"""Splitting large reductions to few results, so that more than one thread can work on them.

The split is at the block edges that the reduction's Order fixes, so the bits are those of the unsplit form.
"""

from __future__ import annotations

from rushlight.ir.loops import Index
from rushlight.ir.scalar import OPS, Buffer, Order, Scalar, bound_axes, load, reduce
from rushlight.ir.type import TensorType
from rushlight.schedule.nodes import Node
from rushlight.schedule.terms import Substitution, rebuild
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    floordiv,
    minimum,
    mod,
    product,
)
from rushlight.term import postorder

# Blocks are folded one after the other: each is one element to the second stage.
FOLD = Order(1, 1)
MIN_BLOCKS = 4


def split_full_reductions(nodes: list[Node]) -> list[Node]:
    """Nodes without axes that reduce many blocks become two: one result per block, then the fold over them."""
    result: list[Node] = []
    for node in nodes:
        reduction = _splittable(node)
        if reduction is None:
            result.append(node)
        else:
            result.extend(_split(node, reduction))
    return result


def _splittable(node: Node) -> Scalar | None:
    root = node.body
    if root.op is OPS["cast"]:
        root = root.operands[0]
    if node.axes or node.scatter is not None or root.op is not OPS["reduce"]:
        return None
    if any(bound_axes(term) for term in postorder(root.operands)):
        return None
    count = product([axis_size(axis) for axis in bound_axes(root)])
    few = isinstance(count, int) and count < MIN_BLOCKS * root.attr("order").block
    return None if few else root


def _split(node: Node, reduction: Scalar) -> tuple[Node, Node]:
    order: Order = reduction.attr("order")
    axes = bound_axes(reduction)
    sizes = [axis_size(axis) for axis in axes]
    count = product(sizes)
    blocks = ceildiv(count, order.block)
    block = axis_symbol(blocks, "q")
    step = axis_symbol(minimum(order.block, count - block * order.block), "t")
    images = _delinearise(block * order.block + step, axes, sizes)
    body = Substitution(images)(reduction.operands[0])
    partial = Buffer(f"{node.buffer.name}_blocks", TensorType((blocks,), reduction.type), "arena")
    kind = reduction.attr("kind")
    first = Node(partial, node.order, (block,), reduce(kind, (step,), body, order), None, False, True, None)
    fold = axis_symbol(blocks, "q")
    total = reduce(kind, (fold,), load(partial, fold), FOLD)
    body = total if node.body is reduction else rebuild(node.body, (total,))
    return first, Node(node.buffer, node.order, (), body, None, node.stored, True, None)


def _delinearise(position: Size, axes: tuple[SizeExpr, ...], sizes: list[Size]) -> dict[SizeExpr, Index]:
    images: dict[SizeExpr, Index] = {}
    for axis, size in list(zip(axes, sizes, strict=True))[:0:-1]:
        images[axis] = mod(position, size)
        position = floordiv(position, size)
    images[axes[0]] = position
    return images
