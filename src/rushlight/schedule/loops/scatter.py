"""Kernels of results with data-dependent stores: the initial value, then the stores in their order.

Where the result lies in the memory of its initial value, there are the stores alone.

Source axes that are unchanged in the result's index never collide, so they are shared among threads and vector lanes;
the other axes run in ascending order, which fixes the order of sums. Writes to distinct places need no order: they are
stores of ordinary groups (`schedule/lower/nodes.py`, `Overwrite`), which start from the initial value as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.ir.kernel import Axis, AxisKind, Loop, Statement, Store
from rushlight.ir.loops import Index, Scatter
from rushlight.ir.scalar import OPS, Buffer, Scalar, index
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.loops.kernels import Step, build_kernel, finish_kernel
from rushlight.schedule.loops.nest import LoopNest, NestStore, collapse, inside, linearise, open_group
from rushlight.schedule.lower.nodes import Node, make_node
from rushlight.schedule.lower.rewrite import Substitution, as_size, linear_offset
from rushlight.sym import SizeExpr, axis_size, axis_symbol, ceildiv, minimum, product

# Columns of one share: a few cache lines, so that threads do not write to the same line.
CHUNK = 64


def build_scatter(node: Node, aliases: Mapping[Buffer, Buffer], number: int) -> list[Step]:
    """The kernel of the initial value, unless that is there, and the kernel of the writes."""
    scatter = node.scatter
    assert scatter is not None
    steps = _start(node, node.axes, node.body, aliases, number)
    return [*steps, _writes(node, scatter, aliases, f"k{number + len(steps)}")]


def start_overwrites(group: Group, aliases: Mapping[Buffer, Buffer], number: int) -> list[Step]:
    """The kernels of what nodes of a group write over, unless that is there."""
    steps: list[Step] = []
    for node in group.nodes:
        over = node.overwrite
        if over is not None:
            steps += _start(node, over.axes, over.initial, aliases, number + len(steps))
    return steps


def _start(
    node: Node, axes: tuple[SizeExpr, ...], initial: Scalar, aliases: Mapping[Buffer, Buffer], number: int
) -> list[Step]:
    """The kernel that makes the value that a node's writes start from, unless it is there."""
    start = make_node(node.buffer, node.order, axes, initial)
    if _is_there(start, aliases):
        return []
    nest = open_group(Group(0, (start,), None), aliases)
    collapse(nest)
    return [build_kernel(nest, f"k{number}")]


def _is_there(node: Node, aliases: Mapping[Buffer, Buffer]) -> bool:
    """Whether the initial value is read from the memory that it would be written to, element by element."""
    body = node.body
    if body.op is not OPS["load"]:
        return False
    source: Buffer = body.attr("buffer")
    same = aliases.get(source, source) is aliases.get(node.buffer, node.buffer)
    return same and as_size(linear_offset(body.operands, source.type.strides)) == node.offset()


def _writes(node: Node, scatter: Scatter, aliases: Mapping[Buffer, Buffer], name: str) -> Step:
    buffer = aliases.get(node.buffer, node.buffer)
    free = [axis for axis in scatter.axes if axis_size(axis) != 1 and _independent(axis, scatter)]
    images: dict[SizeExpr, Index] = {axis: 0 for axis in scatter.axes if axis_size(axis) == 1}
    chunked: tuple[SizeExpr, SizeExpr] | None = None
    if free:
        last = free[-1]
        chunk = axis_symbol(ceildiv(axis_size(last), CHUNK), "c")
        within = axis_symbol(minimum(CHUNK, axis_size(last) - chunk * CHUNK), "d")
        images[last] = chunk * CHUNK + within
        chunked = (chunk, within)
    image = Substitution(images)
    indices = tuple([image(expr if isinstance(expr, Scalar) else index(expr)) for expr in scatter.index])
    where = inside(indices, node.buffer.type.shape)
    offset = linear_offset(indices, node.buffer.type.strides)
    nest = LoopNest((), [NestStore((), buffer, offset, image(scatter.value), where)])
    linearise(nest, aliases)
    (store,) = nest.stores
    combine = None if scatter.combine == "set" else scatter.combine
    body: tuple[Statement, ...] = (Store(buffer, store.offset, store.value, combine, store.where),)
    if chunked is not None:
        body = (Loop(Axis(chunked[1], axis_size(chunked[1]), AxisKind.VECTOR), body),)
    for axis in reversed([axis for axis in scatter.axes if axis_size(axis) != 1 and axis not in free]):
        body = (Loop(Axis(axis, axis_size(axis), AxisKind.SERIAL), body),)
    parallel = [*free[:-1], chunked[0]] if chunked is not None else []
    work = product([axis_size(axis) for axis in scatter.axes if axis not in free]) * (CHUNK if free else 1)
    return finish_kernel(nest, name, parallel, body, work)


def _independent(axis: SizeExpr, scatter: Scatter) -> bool:
    return any(entry is axis or (isinstance(entry, Scalar) and as_size(entry) is axis) for entry in scatter.index)
