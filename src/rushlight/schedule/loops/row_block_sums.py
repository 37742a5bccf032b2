"""Products that sum over the rows of a chain: bands that come in order each add their share.

The gradients of an attention's keys and values are such. Their sums are made of blocks of the rows, first to last, and
so are bands that are as long as a block: the bits are those of the whole product.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from rushlight.ir.plan import RowBlockLoop
from rushlight.ir.scalar import Buffer, Scalar, constant, contract, load
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.lower.nodes import Node
from rushlight.schedule.lower.rewrite import Index, Substitution, as_size
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, coefficient, maximum, substitute

OnLoad = Callable[[Buffer, tuple[Scalar, ...]], Scalar | None]


def dims_with_axes(buffer: Buffer) -> list[int]:
    """The dims of a buffer that have an axis."""
    return [dim for dim, size in enumerate(buffer.type.shape) if size != 1]


def common(items: Sequence[object], others: Sequence[object]) -> int:
    """How many leading items are equal."""
    pairs = list(zip(items, others, strict=False))
    return next((place for place, (item, other) in enumerate(pairs) if item != other), len(pairs))


def matching(axes: Sequence[SizeExpr], buffer: Buffer, indices: Sequence[Scalar]) -> int:
    """How many of some axes, from the first on, are the leading indices of a load."""
    return common([as_size(indices[dim]) for dim in dims_with_axes(buffer)], axes)


def sums_over_rows(group: Group, sizes: Sequence[Size], made: Container[Buffer]) -> bool:
    """Whether a group is a product whose inner axis is the rows of a chain, the last of the leading `sizes`.

    The chain has `made` values, which it reads at its batch axes and the row.
    """
    shape, node = group.gemm, group.nodes[0]
    if shape is None or len(group.nodes) > 1 or len(shape.inner) != 1 or node.contraction is not node.body:
        return False
    place = (*shape.batch, *shape.inner)
    if shape.a.type is not node.body.type or node.axes[: len(shape.batch)] != shape.batch:
        return False
    if [axis_size(axis) for axis in place] != list(sizes):
        return False
    return all(matching(place, buffer, found) == len(place) for buffer, found in node.reads() if buffer in made)


def _as_they_lie(node: Node) -> tuple[SizeExpr, ...]:
    """The axes of a node, the one last that walks its buffer with step 1: what is added to is read and written so."""
    offset = node.offset()
    near = [axis for axis in node.axes if isinstance(offset, SizeExpr) and coefficient(offset, axis) == 1]
    return (*[axis for axis in node.axes if axis not in near], *near)


@dataclass(frozen=True, slots=True)
class Shares:
    """A sum over rows as bands see it: zeros before the first one, then what is there and a band's own share.

    `before` stands for what is there; it lies where the sum does.
    """

    zeros: Node
    share: Node
    before: Buffer


def add_shares(node: Node, batch: Mapping[SizeExpr, Index], rows: RowBlockLoop, on_load: OnLoad) -> Shares:
    """The sum that a node is, over the axes of a band; `batch` says where these stand, `on_load` what a band keeps."""
    contraction = node.contraction
    assert contraction is not None
    axes = _as_they_lie(node)[len(batch) :]
    sizes = {axis: image for axis, image in batch.items() if not isinstance(image, Scalar)}
    place = tuple([substitute(item, sizes) for item in node.index()])
    within = axis_symbol(rows.length, "k")
    (inner,) = contraction.attr("axes")
    operand = Substitution({**batch, inner: rows.start + within}, on_load)
    a, b = contraction.operands
    part = contract((within,), operand(a), operand(b), contraction.attr("order"))
    before = Buffer(f"{node.buffer.name}_before", node.buffer.type, node.buffer.scope)
    body = load(before, *place) + part
    first = axis_symbol(axis_size(axes[0]) * maximum(0, 1 - rows.start), "i")
    zero = constant(0.0, node.body.type)
    zeros_place = tuple([substitute(item, {axes[0]: first}) for item in place])
    zeros = Node(node.buffer, node.order, (first, *axes[1:]), zero, None, True, False, None, zeros_place)
    return Shares(zeros, node.with_body(axes, body, place), before)
