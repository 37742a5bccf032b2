"""Kernels of results with data-dependent stores: the initial value, then the stores in their order.

Where the result lies in the memory of its initial value, there are the stores alone.

Source axes that are unchanged in the result's index never collide, so they are shared among threads and vector lanes;
the other axes run in ascending order, which fixes the order of sums.
"""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.ir.dtype import bool_, int64
from rushlight.ir.kernel import Axis, AxisKind, Loop, Statement, Store
from rushlight.ir.loops import Index, Scatter
from rushlight.ir.scalar import OPS, Buffer, Scalar, apply, constant, index
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.loops.kernels import (
    LoopNest,
    NestStore,
    Step,
    build_kernel,
    collapse,
    finish_kernel,
    linearise,
    open_group,
)
from rushlight.schedule.lower.nodes import Node, make_node
from rushlight.schedule.lower.rewrite import Substitution, as_size, linear_offset
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, ceildiv, minimum, product

# Columns of one share: a few cache lines, so that threads do not write to the same line.
CHUNK = 64


def build_scatter(node: Node, aliases: Mapping[Buffer, Buffer], number: int) -> list[Step]:
    """The kernel of the initial value, unless that is there, and the kernel of the writes."""
    scatter = node.scatter
    assert scatter is not None
    if _is_there(node, aliases):
        return [_writes(node, scatter, aliases, f"k{number}")]
    start = make_node(node.buffer, node.order, node.axes, node.body)
    nest = open_group(Group(0, (start,), None), aliases)
    collapse(nest)
    return [build_kernel(nest, f"k{number}"), _writes(node, scatter, aliases, f"k{number + 1}")]


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
    store = NestStore((), buffer, linear_offset(indices, node.buffer.type.strides), image(scatter.value))
    where = _inside(indices, node.buffer.type.shape)
    nest = LoopNest((), [store])
    nest.conditions = [] if where is None else [where]
    linearise(nest, aliases)
    where = nest.conditions[0] if nest.conditions else None
    combine = None if scatter.combine == "set" else scatter.combine
    body: tuple[Statement, ...] = (Store(buffer, store.offset, store.value, combine, where),)
    if chunked is not None:
        body = (Loop(Axis(chunked[1], axis_size(chunked[1]), AxisKind.VECTOR), body),)
    for axis in reversed([axis for axis in scatter.axes if axis_size(axis) != 1 and axis not in free]):
        body = (Loop(Axis(axis, axis_size(axis), AxisKind.SERIAL), body),)
    parallel = [*free[:-1], chunked[0]] if chunked is not None else []
    work = product([axis_size(axis) for axis in scatter.axes if axis not in free]) * (CHUNK if free else 1)
    return finish_kernel(nest, name, parallel, body, work)


def _independent(axis: SizeExpr, scatter: Scatter) -> bool:
    return any(entry is axis or (isinstance(entry, Scalar) and as_size(entry) is axis) for entry in scatter.index)


def _inside(indices: tuple[Scalar, ...], shape: tuple[Size, ...]) -> Scalar | None:
    """The condition that every data-dependent index lies inside the result."""
    total: Scalar | None = None
    for position, size in zip(indices, shape, strict=True):
        if as_size(position) is None:
            low = apply("le", constant(0, int64), position)
            inside = low & apply("lt", position, index(size))
            total = inside if total is None else total & inside
    assert total is None or total.type is bool_
    return total
