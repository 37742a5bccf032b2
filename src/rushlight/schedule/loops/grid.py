"""Blocks and threads: kernels for machines whose threads run in blocks with shared memory.

Input: a plan of loops. Output: the same plan with grids. Where each iteration of the parallel loops is small, a thread
takes one. Otherwise a block takes one: its threads share vector loops, and reductions whose `Order` has lanes give each
lane to a thread and join the lanes through shared memory. Orders are kept, so a grid has the bits of the CPU's loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rushlight.ir.grid.matrix_unit import MatrixUnit
from rushlight.ir.kernel import Axis, AxisKind, Barrier, Kernel, Loop, Statement, Store, loops_in
from rushlight.ir.plan import Address, Launch, Plan
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.schedule.loops.lane_threads import LaneReductions
from rushlight.schedule.loops.unit_attention import fuse_attention
from rushlight.schedule.loops.unit_products import find_product, multiplied
from rushlight.schedule.lower.rewrite import Index, Substitution, at_position
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    minimum,
    product,
    size_of_code,
    substitute,
    total,
)

THREADS = 256
"""Threads of a block whose threads do not meet."""
ROW_THREADS = 64
"""Threads of a block that reduces: one for each lane of `ir.scalar.LANES`."""

Body = tuple[Statement, ...]


def to_grid(plan: Plan, unit: MatrixUnit | None = None) -> Plan:
    """The plan with every kernel as a grid. Launches count blocks, and pass the bytes of each buffer last."""
    plan = plan if unit is None else fuse_attention(plan, unit)
    grids: list[Kernel] = []
    for kernel in plan.kernels:
        assert isinstance(kernel, Kernel), "plans for grids have loops alone"
        grids.append(grid_of(kernel, unit))
    launches = [_launch(launch, grids[launch.kernel]) for launch in plan.launches]
    once = None if plan.once is None else to_grid(plan.once, unit)
    return replace(plan, kernels=tuple(grids), launches=tuple(launches), once=once)


def _launch(launch: Launch, grid: Kernel) -> Launch:
    sizes = [_extent_bytes(word) for word in launch.arguments if isinstance(word, Buffer | Address)]
    arguments = (*launch.arguments, *sizes)
    given = zip(grid.sizes, arguments[len(grid.buffers) :], strict=True)
    images = {symbol: word for symbol, word in given if not isinstance(word, Buffer | Address)}
    blocks = product([_size(axis.extent) for axis in grid.parallel_axes])
    return Launch(launch.kernel, arguments, substitute(blocks, images), 1)


def _extent_bytes(word: Buffer | Address) -> Size:
    """The bytes from an address to behind the last element of its buffer."""
    buffer, offset = (word.buffer, word.offset) if isinstance(word, Address) else (word, 0)
    sizes, strides = buffer.type.shape, buffer.type.strides
    last = total([(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)])
    return (last + 1 - offset) * buffer.type.dtype.itemsize


def grid_of(kernel: Kernel, unit: MatrixUnit | None = None) -> Kernel:
    """A kernel as a grid, whose products of 16-bit numbers a matrix unit computes if there is one."""
    axes = kernel.parallel_axes
    body = kernel.body
    for _ in axes:
        assert isinstance(body[0], Loop)
        body = body[0].body
    extents = tuple([size_of_code(f"bytes of {buffer.name}") for buffer in kernel.buffers])
    if axes and axes[0].kind is AxisKind.BLOCK:
        return replace(kernel, sizes=(*kernel.sizes, *extents))
    lanes = LaneReductions(kernel.name)
    matrices = None if unit is None else find_product(axes, body)
    if unit is not None and matrices is not None:
        block, inside = multiplied(matrices, unit)
        blocks = (block,)
    elif not axes or _has_lanes(body) or lanes.any_in(body):
        threads = ROW_THREADS if lanes.any_in(body) else THREADS
        inside = _Blocks(lanes, threads).body(body)
        blocks = axes or (Axis(axis_symbol(1, "block"), 1),)
    else:
        block, inside = _one_thread_each(axes, body)
        blocks = (block,)
    for axis in reversed(blocks):
        inside = (Loop(replace(axis, kind=AxisKind.BLOCK), inside),)
    return replace(kernel, sizes=(*kernel.sizes, *extents), body=inside, unread=())


def _has_lanes(body: Body) -> bool:
    """Whether a loop in lanes is among some statements."""
    return any(loop.axis.kind.is_vector for loop in loops_in(body))


def _one_thread_each(axes: Sequence[Axis], body: Body) -> tuple[Axis, Body]:
    """The axis of blocks, and what a block does whose threads take one iteration each."""
    count = product([_size(axis.extent) for axis in axes])
    block = axis_symbol(ceildiv(count, THREADS), "block")
    threads = minimum(THREADS, count - block * THREADS)
    thread = axis_symbol(threads, "thread")
    places = at_position(block * THREADS + thread, [axis.symbol for axis in axes])
    images: dict[SizeExpr, Index] = {axis.symbol: places[axis.symbol] + _size(axis.start) for axis in axes}
    loop = Loop(Axis(thread, threads, AxisKind.THREAD), moved(body, images))
    return Axis(block, axis_size(block)), (loop,)


def _size(bound: Size | Scalar) -> Size:
    assert not isinstance(bound, Scalar), "the bounds of parallel loops are sizes"
    return bound


class _Blocks:
    """Writes what one block does for an iteration: loops over threads, with a barrier between any two."""

    def __init__(self, lanes: LaneReductions, threads: int) -> None:
        self.lanes = lanes
        self.threads = threads

    def body(self, statements: Body) -> Body:
        """The loops over threads of some statements that all threads reach."""
        made: list[Statement] = []
        stores: list[Store] = []
        for statement in (*statements, None):
            if isinstance(statement, Store):
                stores.append(statement)
                continue
            if stores:
                self._add(made, self._by_one_thread(tuple(stores)))
                stores = []
            if isinstance(statement, Loop):
                self._add(made, self._loop(statement))
        return tuple(made)

    def _add(self, made: list[Statement], part: Body) -> None:
        if made and part:
            made.append(Barrier())
        made += part

    def _by_one_thread(self, stores: tuple[Store, ...]) -> Body:
        before, replaced = self.lanes.taken_out(stores, frozenset())
        own = Loop(Axis(axis_symbol(1, "thread"), 1, AxisKind.THREAD), replaced)
        self.lanes.forget(replaced)
        return (*before, own)

    def _loop(self, loop: Loop) -> Body:
        axis = loop.axis
        if not axis.kind.is_vector:
            if not _has_lanes(loop.body) and not self.lanes.any_in(loop.body):
                own = Loop(Axis(axis_symbol(1, "thread"), 1, AxisKind.THREAD), (loop,))
                self.lanes.forget((loop,))
                return (own,)
            known = self.lanes.known()
            self.lanes.forget((loop,))
            inside = self.body(loop.body)
            self.lanes.restore(known)
            self.lanes.forget((loop,))
            return (Loop(axis, (*inside, Barrier())),)
        before, body = self.lanes.taken_out(loop.body, frozenset([axis.symbol]))
        self.lanes.forget(body)
        return (*before, self._shared_loop(axis, body))

    def _shared_loop(self, axis: Axis, body: Body) -> Loop:
        """A loop in lanes, dealt out in turn to the threads."""
        extent, start = _size(axis.extent), _size(axis.start)
        threads = minimum(self.threads, extent)
        thread = axis_symbol(threads, "thread")
        turns = ceildiv(extent - thread, self.threads)
        if isinstance(extent, int) and extent <= self.threads:
            return Loop(Axis(thread, threads, AxisKind.THREAD), moved(body, {axis.symbol: start + thread}))
        turn = axis_symbol(turns, "turn")
        inside = moved(body, {axis.symbol: start + turn * self.threads + thread})
        return Loop(Axis(thread, threads, AxisKind.THREAD), (Loop(Axis(turn, turns), inside),))


def moved(body: Body, images: dict[SizeExpr, Index]) -> Body:
    """Statements with other values in place of some axes; loops of other extents get axes of their own."""
    made: list[Statement] = []
    at = Substitution(images)
    for statement in body:
        if isinstance(statement, Loop):
            axis = statement.axis
            extent, start = (_bound(bound, at, images) for bound in (axis.extent, axis.start))
            symbol, inner = axis.symbol, images
            if not isinstance(extent, Scalar) and extent != axis.extent:
                symbol = axis_symbol(extent, "inner")
                inner = {**images, axis.symbol: symbol}
            made.append(Loop(Axis(symbol, extent, axis.kind, start), moved(statement.body, inner)))
        elif isinstance(statement, Store):
            offset = statement.offset
            where = None if statement.where is None else at(statement.where)
            place = at(offset) if isinstance(offset, Scalar) else _placed(offset, images)
            made.append(Store(statement.buffer, place, at(statement.value), statement.combine, where))
        else:
            made.append(statement)
    return tuple(made)


def _bound(bound: Size | Scalar, at: Substitution, images: dict[SizeExpr, Index]) -> Size | Scalar:
    return at(bound) if isinstance(bound, Scalar) else _placed(bound, images)


def _placed(size: Size, images: dict[SizeExpr, Index]) -> Size:
    sizes = {axis: image for axis, image in images.items() if not isinstance(image, Scalar)}
    assert len(sizes) == len(images), "axes of grids are sizes"
    return substitute(size, sizes)
