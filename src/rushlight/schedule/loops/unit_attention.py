"""Attention by matrix units, whose scores are never in memory: three launches of a plan become one.

The launches are a product (scores), a softmax along its rows, and a product with the result. A block takes some rows of
one batch and walks over the keys, a tile at a time: scores go to shared memory, rows are reduced by the threads of the
block, and what was summed with an earlier maximum is scaled down ("online softmax": Milakov and Gimelshein 2018; Dao et
al., FlashAttention, 2022). Weights are rounded to the 16 bits of the values before they are divided by their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rushlight.ir.dtype import float32, int64
from rushlight.ir.grid.matrix_unit import MMA, MatrixUnit
from rushlight.ir.kernel import Axis, AxisKind, Barrier, Kernel, Loop, Statement, Store, loops_in, stores_in
from rushlight.ir.plan import Launch, Plan
from rushlight.ir.scalar import (
    OPS,
    SEQUENTIAL,
    Buffer,
    Scalar,
    apply,
    bound_axes,
    cast,
    constant,
    guard,
    index,
    load,
    reduce,
    select,
)
from rushlight.ops.math.exponential import exp
from rushlight.schedule.gemm.matrices import count
from rushlight.schedule.loops.attention import Attention, find_attention, is_shifted
from rushlight.schedule.loops.kernels import named_in
from rushlight.schedule.loops.unit_products import (
    Accumulator,
    Body,
    Operand,
    Side,
    Slice,
    block_memory,
    by_all,
    guarded,
    placed_store,
    unrolled,
)
from rushlight.schedule.lower.rewrite import (
    Index,
    Substitution,
    at_position,
    rebuild,
)
from rushlight.schedule.memory.arena import plan_memory
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    floordiv,
    mod,
    product,
)
from rushlight.term import postorder
from rushlight.term import substitute as replace_terms

_LOAD = OPS["load"]
ROWS, THREADS = 64, 128
KEYS = {"mma": 32, "wgmma": 64}
"""The keys of a tile, by the name of the unit."""
PADDED = 32
"""Depths are rounded up to a multiple of this, so that the threads of a block stage equally many elements."""
SHARED_BYTES = 48 << 10
"""What a block may have without asking."""
PARTS = THREADS // ROWS
"""The threads that share a row's scores."""


def fuse_attention(plan: Plan, unit: MatrixUnit) -> Plan:
    """The plan with one launch in place of the three of each attention that is found."""
    at = 0
    while at < len(plan.launches):
        found = find_attention(plan, at)
        kernel = None if found is None else _kernel_of(found[0], unit, f"attention{at}")
        if found is None or kernel is None:
            at += 1
        else:
            plan = _with(plan, found[1], kernel)
    return plan


def _with(plan: Plan, numbers: tuple[int, int, int], kernel: Kernel) -> Plan:
    """The plan with a kernel in place of three launches."""
    words = (*kernel.buffers, *kernel.sizes)
    fused = Launch(len(plan.kernels), words, 1, 1)
    launches = [
        fused if number == numbers[2] else launch
        for number, launch in enumerate(plan.launches)
        if number not in numbers[:2]
    ]
    kernels = (*plan.kernels, kernel)
    used = sorted({launch.kernel for launch in launches})
    renumbered = [replace(launch, kernel=used.index(launch.kernel)) for launch in launches]
    slots = plan_memory(renumbered, plan.outputs, kept=plan.asserted)
    return replace(plan, kernels=tuple([kernels[number] for number in used]), launches=tuple(renumbered), slots=slots)


def _kernel_of(attention: Attention, unit: MatrixUnit, name: str) -> Kernel | None:
    """The kernel of an attention: by a warp's instruction where another needs too much shared memory."""
    for one in dict.fromkeys((unit, MMA)):
        schedule = _Schedule(attention, one)
        if schedule.shared_bytes() <= SHARED_BYTES:
            body = (Loop(Axis(schedule.block, axis_size(schedule.block), AxisKind.BLOCK), schedule.body()),)
            return Kernel(name, *_named(body), body)
    return None


def _named(body: Body) -> tuple[tuple[Buffer, ...], tuple[SizeExpr, ...]]:
    """The buffers outside a block, and the symbols, that some statements have."""
    stores = list(stores_in(body))
    sizes = [axis_size(loop.axis.symbol) for loop in loops_in(body)]
    sizes += [store.offset for store in stores if not isinstance(store.offset, Scalar)]
    roots = [root for store in stores for root in store.roots]
    buffers, symbols = named_in(roots, [store.buffer for store in stores], sizes)
    return tuple([buffer for buffer in buffers if buffer.scope not in ("shared", "register")]), symbols


class _Terms:
    """The terms of an attention at a row and a key of a block."""

    def __init__(self, attention: Attention, batch: Size, row: Size, first_key: Size) -> None:
        self.attention = attention
        self.batch = batch
        self.row = row
        self.first_key = first_key

    def batch_of(self, axes: Sequence[SizeExpr]) -> dict[SizeExpr, Size]:
        """Batch axes of a nest at the block's batch."""
        return at_position(self.batch, axes) if axes else {}

    def rows_of(self, axes: Sequence[SizeExpr], row: Size) -> dict[SizeExpr, Size]:
        """The axes of a nest over all rows at a row of the block; batches and rows may be one axis."""
        rows = axis_size(self.attention.scores.a.axes[0])
        if axis_size(axes[-1]) == rows:
            return {**self.batch_of(axes[:-1]), axes[-1]: self.row + row}
        return at_position(self.batch * rows + self.row + row, axes)

    def score(self, product_: Scalar, row: Size, column: Size) -> Scalar:
        """The score of a row and a key of the block, made of their product."""
        scores, softmax = self.attention.scores, self.attention.softmax
        images: dict[SizeExpr, Index] = {
            **self.batch_of(scores.batch),
            scores.a.axes[0]: self.row + row,
            scores.b.axes[0]: self.first_key + column,
        }
        (stored,) = replace_terms([scores.stores[0].value], {scores.term: product_}, rebuild)
        stored = Substitution(images)(stored)
        return self.of_rows(softmax.score, row, column, stored)

    def of_rows(self, term: Scalar, row: Size, column: Size, stored: Scalar) -> Scalar:
        """A term of the softmax for a row and a key, where the product that it reads is `stored`."""
        softmax, scored = self.attention.softmax, self.attention.scored
        images: dict[SizeExpr, Index] = {**self.rows_of(softmax.axes, row), softmax.keys: self.first_key + column}
        moved = Substitution(images, lambda buffer, _: stored if buffer is scored else None)
        return moved(term)

    def weighed(self, term: Scalar, row: Size, column: Size, score: Scalar, highest: Scalar) -> Scalar:
        """A weight or summand, of a score and the maximum so far."""
        powers = [part for part in postorder([term]) if is_shifted(part, self.attention.softmax.highest)]
        (value,) = replace_terms([term], dict.fromkeys(powers, score - highest), rebuild)
        return self.of_rows(value, row, column, score)


class _Schedule:
    """Writes what a block does for its rows."""

    def __init__(self, attention: Attention, unit: MatrixUnit) -> None:
        self.attention, self.unit = attention, unit
        scores = attention.scores
        self.keys = KEYS[unit.name]
        depth, width = (
            -(-int(count(axes)) // PADDED) * PADDED for axes in (bound_axes(scores.term), attention.axes[-1:])
        )
        width = -(-width // unit.columns) * unit.columns
        self.groups = THREADS // unit.group
        dtype = scores.a.element.type
        self.query = Side("a", scores.a, ROWS, self.groups, depth, unit)
        self.key = Side("b", scores.b, self.keys, 1, depth, unit)
        weight = Operand(constant(0.0, dtype), scores.a.axes)
        self.weight = Side("a", weight, ROWS, self.groups, self.keys, unit)
        self.value = Side("b", Operand(attention.values, attention.axes[-1:]), width, 1, self.keys, unit)
        (one,), (other,) = self.key.shared.type.shape, self.value.shared.type.shape
        assert isinstance(one, int)
        assert isinstance(other, int)
        # Keys are multiplied before values are staged, so both lie in one memory.
        self.key.shared = self.value.shared = block_memory("shared_kv", max(one, other), dtype, "shared")
        tiles = self.query.number
        batches = count(scores.batch)
        self.block = axis_symbol(batches * axis_size(tiles), "block")
        self.batch = floordiv(self.block, axis_size(tiles))
        self.row = mod(self.block, axis_size(tiles)) * ROWS
        self.query.first = self.weight.first = self.row
        self.step = axis_symbol(ceildiv(axis_size(scores.b.axes[0]), self.keys), "step")
        self.first_key = self.step * self.keys
        self.key.first = self.first_key
        self.terms = _Terms(attention, self.batch, self.row, self.first_key)
        self.width = self.keys + 1
        self.scores = block_memory("scores", ROWS * self.width, float32, "shared")
        self.partial = block_memory("partial", ROWS * PARTS, float32, "shared")
        self.highest, self.whole, self.rescale = (
            block_memory(name, ROWS, float32, "shared") for name in ("highest", "whole", "rescale")
        )
        self.products = Accumulator("scores_registers", self.query, self.key, unit)
        self.result = Accumulator("result_registers", self.weight, self.value, unit)

    def shared_bytes(self) -> int:
        """The shared memory of a block."""
        buffers = (self.query.shared, self.key.shared, self.weight.shared, self.scores, self.partial)
        rows = (self.highest, self.whole, self.rescale)
        return sum([int(product(buffer.type.shape)) * buffer.type.dtype.itemsize for buffer in (*buffers, *rows)])

    def body(self) -> Body:
        """The statements of a block."""
        depths = Slice(bound_axes(self.attention.scores.term), 0, self.query.depth)
        keys = Slice((self.attention.key,), self.first_key, self.keys)
        tile: list[Statement] = [
            *self._staged(self.key, depths, self.terms.batch_of(self.attention.scores.batch)),
            Barrier(),
            self.products.cleared(THREADS),
            self._multiplied(self.products),
            self._scored(),
            Barrier(),
            *self._staged(self.value, keys, self.terms.batch_of(self.attention.axes[:-2])),
            self._by_rows(self._part_highest),
            Barrier(),
            self._row_highest(),
            Barrier(),
            self._by_rows(self._part_weights),
            Barrier(),
            self._row_whole(),
            self._rescaled(),
            self._multiplied(self.result),
            Barrier(),
        ]
        return (
            self.result.cleared(THREADS),
            self._begun(),
            *self._staged(self.query, depths, self.terms.batch_of(self.attention.scores.batch)),
            Barrier(),
            Loop(Axis(self.step, axis_size(self.step)), tuple(tile)),
            self._finished(),
        )

    def _thread(self) -> tuple[SizeExpr, Size, tuple[Size, Size]]:
        """A thread, its place in its group, and the group's places along rows and columns."""
        thread = axis_symbol(THREADS, "thread")
        return thread, mod(thread, self.unit.group), (floordiv(thread, self.unit.group), 0)

    def _begun(self) -> Loop:
        """No key has been seen."""
        row = axis_symbol(ROWS, "thread")
        stores = (
            Store(self.highest, row, constant(float("-inf"), float32)),
            Store(self.whole, row, constant(0.0, float32)),
        )
        return by_all(row, stores)

    def _staged(self, side: Side, slice_: Slice, batch: Mapping[SizeExpr, Size]) -> Body:
        thread, *_ = self._thread()
        return (by_all(thread, side.staged(thread, THREADS, slice_, batch)),)

    def _multiplied(self, result: Accumulator) -> Loop:
        """Adds the product of what two sides have in shared memory."""
        inner = axis_symbol(result.a.depth // self.unit.depth, "depth")
        depth = inner * self.unit.depth
        thread, lane, groups = self._thread()
        taken = result.loaded(lane, groups, depth)
        loads = (by_all(thread, taken),) if taken else ()
        thread, _, groups = self._thread()
        body = (*loads, by_all(thread, result.multiplied(groups, depth)))
        return Loop(Axis(inner, axis_size(inner), AxisKind.UNROLLED), body)

    def _elements(self, result: Accumulator) -> tuple[SizeExpr, tuple[SizeExpr, ...], Size, Size, Size]:
        """A thread and its elements of a result: the axes, the place in registers, the row and the column."""
        thread, lane, groups = self._thread()
        return thread, *result.element(lane, groups)

    def _scored(self) -> Loop:
        """Each thread puts its scores into shared memory; those of no key are the least."""
        thread, axes, place, row, column = self._elements(self.products)
        value = self.terms.score(load(self.products.registers, index(place)), row, column)
        least = constant(float("-inf"), float32)
        for condition in (self.query.inside(row), self.key.inside(column)):
            value = value if condition is None else guard(condition, value, least)
        return by_all(thread, unrolled(axes, Store(self.scores, row * self.width + column, value)))

    def _by_rows(self, part: Callable[[SizeExpr, Size, Size], Body]) -> Loop:
        """Several threads for each row."""
        thread, *_ = self._thread()
        return by_all(thread, part(thread, floordiv(thread, PARTS), mod(thread, PARTS)))

    def _column(self, part: Size, at: SizeExpr) -> Size:
        return at * PARTS + part

    def _part_highest(self, thread: SizeExpr, row: Size, part: Size) -> Body:
        at = axis_symbol(self.keys // PARTS, "at")
        value = load(self.scores, index(row * self.width + self._column(part, at)))
        return (Store(self.partial, thread, reduce("max", (at,), value, SEQUENTIAL)),)

    def _row_highest(self) -> Loop:
        """The maximum of all keys so far, and what sums with the one before are scaled by."""
        row, part = axis_symbol(ROWS, "thread"), axis_symbol(PARTS, "part")
        before = load(self.highest, row)
        tile = reduce("max", (part,), load(self.partial, index(row * PARTS + part)), SEQUENTIAL)
        highest = apply("maximum", before, tile)
        scale = select(apply("eq", before, highest), constant(1.0, float32), exp(before - highest))
        return by_all(row, (Store(self.rescale, row, scale), Store(self.highest, row, highest)))

    def _part_weights(self, thread: SizeExpr, row: Size, part: Size) -> Body:
        """Weights, rounded, and the sum of a thread's. Nothing has weight while all scores are minus infinity."""
        at = axis_symbol(self.keys // PARTS, "at")
        column = self._column(part, at)
        summand = self._weighed(self.attention.softmax.summand, row, column)
        total = cast(reduce("sum", (at,), summand, SEQUENTIAL), float32)
        at = axis_symbol(self.keys // PARTS, "at")
        column = self._column(part, at)
        weight = cast(self._weighed(self.attention.softmax.weight, row, column), self.weight.shared.type.dtype)
        place = self.unit.shared_place(row, column, self.weight.step)
        return (
            Store(self.partial, thread, total),
            Loop(Axis(at, axis_size(at)), (Store(self.weight.shared, place, weight),)),
        )

    def _weighed(self, term: Scalar, row: Size, column: Size) -> Scalar:
        highest = load(self.highest, index(row))
        score = load(self.scores, index(row * self.width + column))
        value = self.terms.weighed(term, row, column, score, highest)
        counts = apply("lt", constant(float("-inf"), float32), highest)
        return guarded((counts, self.query.inside(row), self.key.inside(column)), value)

    def _row_whole(self) -> Loop:
        row, part = axis_symbol(ROWS, "thread"), axis_symbol(PARTS, "part")
        tile = cast(reduce("sum", (part,), load(self.partial, index(row * PARTS + part)), SEQUENTIAL), float32)
        whole = load(self.whole, row) * load(self.rescale, row) + tile
        return by_all(row, (Store(self.whole, row, whole),))

    def _rescaled(self) -> Loop:
        thread, axes, place, row, _ = self._elements(self.result)
        value = load(self.result.registers, index(place)) * load(self.rescale, index(row))
        return by_all(thread, unrolled(axes, Store(self.result.registers, place, value)))

    def _finished(self) -> Loop:
        """Each thread divides its elements by their row's sum, and stores what the kernel makes of them."""
        attention, softmax = self.attention, self.attention.softmax
        thread, axes, place, row, column = self._elements(self.result)
        images: dict[SizeExpr, Index] = {
            **self.terms.batch_of(attention.axes[:-2]),
            attention.axes[-2]: self.row + row,
            attention.axes[-1]: column,
        }
        whole = cast(load(self.whole, index(row)), softmax.whole.type)
        (scale,) = replace_terms([softmax.scale], {softmax.whole: whole}, rebuild)
        scale = self.terms.of_rows(scale, row, 0, constant(0.0, float32))
        value = load(self.result.registers, index(place))
        value = value / scale if softmax.divides else value * scale
        any_key = apply("lt", constant(0, int64), index(axis_size(softmax.keys)))
        value = guard(any_key, value, constant(0.0, float32))
        inside = (self.query.inside(row), self.value.inside(column))
        stores = [placed_store(store, {attention.term: value}, images, inside) for store in attention.stores]
        return by_all(thread, unrolled(axes, *stores))
