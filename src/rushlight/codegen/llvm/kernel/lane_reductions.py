"""Reductions along the lanes of vectors: the innermost reduced axis runs in the lanes.

The lanes of an order are the lanes of its accumulator: 64 lanes of float32 are four AVX-512 registers. If the body is
short, an iteration takes as many elements as the order has lanes, and the accumulator stays in registers: four
independent chains hide the latency of an add. If the body is long, or registers are few, an iteration takes fewer
elements and the accumulator lies in memory. Masked iterations of one register do the remainder. The bits are the same
in each case: element i is always added to lane i modulo the order's lanes.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Context, Lanes, Scope
from rushlight.codegen.llvm.builder.vector_types import Shape, shape_of, vector_type
from rushlight.codegen.llvm.kernel.accumulators import Fold, Group
from rushlight.codegen.llvm.kernel.loop_close import Carry, close_loop
from rushlight.codegen.llvm.kernel.prefetch import LONG_PASS_TERMS, prefetch_next_row
from rushlight.codegen.llvm.kernel.segments import Segments
from rushlight.codegen.llvm.kernel.widths import is_light, register_lanes, value_terms, vectors_at_once, work
from rushlight.codegen.llvm.math.masks import run_below
from rushlight.ir.scalar import WIDE_LANES
from rushlight.ir.target import Target
from rushlight.sym import Size, bounds


def reduce_along_lanes(ctx: Context, group: Group, scope: Scope, length: str, count: Size) -> list[str]:
    """Emits the loops into `scope`, which runs only if there are elements; returns the scalar results."""
    return _LaneReduction(ctx, group, count).emit(scope, length)


class _LaneReduction:
    """`lanes` accumulators per fold, `step` elements per full iteration, `width` per masked one."""

    def __init__(self, ctx: Context, group: Group, count: Size) -> None:
        self.ctx = ctx
        self.group = group
        bits = group.bits(ctx, slice(-1, None))
        terms = list(value_terms([operand for fold in group.folds for operand in fold.elements]))
        width = register_lanes(ctx, terms, bits, [fold.element for fold in group.folds])
        cost = work(ctx, terms, bits)
        vectors, short = vectors_at_once(cost), is_light(cost, ctx.target)
        self.prefetches = cost >= LONG_PASS_TERMS and any(_depends_on_reduction(ctx, fold) for fold in group.folds)
        order = group.order
        self.ordered_lanes = min(vectors * width, Target.MOST_LANES) if order is None else order.lanes
        self.lanes = self.ordered_lanes
        while isinstance(count, int) and self.lanes > 2 and self.lanes // 2 >= count:
            self.lanes //= 2
        self.width = width = min(width, self.lanes)
        size = sum([fold.element.itemsize for fold in group.folds]) * self.lanes
        fits = 2 * size <= ctx.target.registers * ctx.target.vector_bytes
        self.several = len(group.extents) > 1
        self.step = self.lanes if short and fits else min(vectors * width, self.lanes)
        if self.several:
            self.step = width
        most = count if isinstance(count, int) else bounds(count)[1]
        self.block = None if order is None or (most is not None and most <= order.block) else order.block
        if order is None:
            self.lanes = self.step
        self.in_memory = self.step < self.lanes or (self.several and order is not None)
        self.tables: list[str] = []
        if self.in_memory or (order is not None and width < self.step):
            self.tables = [ctx.allocate(fold.shape(1).memory, self.lanes + width) for fold in group.folds]

    def emit(self, scope: Scope, length: str) -> list[str]:
        """Emits the blocks; returns the results."""
        if self.block is None:
            segments = Segments(self.ctx, self.group, scope, None) if self.several else None
            texts = self._block(scope, "0", length, segments)
            return [
                fold.only_block(scope, fold.total_shape(1), text)
                for fold, text in zip(self.group.folds, texts, strict=True)
            ]
        names = scope.names
        block = scope.inner(names.label())
        first = names.value()
        end = block.let(f"add i64 {first}, {self.block}")
        end = block.let(f"call i64 @llvm.smin.i64(i64 {end}, i64 {length})")
        segments = Segments(self.ctx, self.group, scope, block) if self.several else None
        texts = self._block(block, first, end, segments)
        totals: list[Carry] = []
        for fold, text in zip(self.group.folds, texts, strict=True):
            shape = fold.total_shape(1)
            total = Carry(shape.type, fold.identity(shape), names.value())
            total.result = fold.join(block, shape, total.name, text)
            totals.append(total)
        carries = [*(segments.carries if segments is not None else ()), *totals]
        close_loop(scope, block, first, ("0", length), self.block, carries, runs=True)
        return [total.result for total in totals]

    def _block(self, outer: Scope, first: str, end: str, segments: Segments | None) -> list[str]:
        if self.in_memory:
            self._save(outer, [fold.identity(fold.shape(self.lanes)) for fold in self.group.folds])
        if segments is None:
            return self._straight(outer, first, end)
        accumulators = self._runs(outer, first, end, segments)
        return self._trees(outer, self._saved(outer) if self.in_memory else accumulators, self.lanes)

    def _save(self, scope: Scope, texts: list[str]) -> None:
        """Stores accumulators to their tables."""
        for fold, table, text in zip(self.group.folds, self.tables, texts, strict=True):
            shape = fold.shape(self.lanes)
            scope.do(f"store {shape.memory_type} {_to_table(scope, shape, text)}, ptr {table}, align 64")

    def _saved(self, scope: Scope) -> list[str]:
        """Loads accumulators from their tables."""
        texts: list[str] = []
        for fold, table in zip(self.group.folds, self.tables, strict=True):
            shape = fold.shape(self.lanes)
            raw = scope.let(f"load {shape.memory_type}, ptr {table}, align 64")
            texts.append(_from_table(scope, shape, raw))
        return texts

    def _straight(self, outer: Scope, first: str, end: str) -> list[str]:
        """One axis: full iterations, then masked ones. Returns the results."""
        length = end if first == "0" else outer.let(f"sub i64 {end}, {first}")
        middle = outer.let(f"and i64 {length}, {-self.step}")
        if first != "0":
            middle = outer.let(f"add i64 {middle}, {first}")
        main, tail = self._lanes_scope(outer, self.step), self._lanes_scope(outer, self.width)
        assert main.vector is not None
        assert tail.vector is not None
        carries = self._step(main, first, self.in_memory)
        if self.prefetches:
            prefetch_next_row(self.ctx, [fold.term for fold in self.group.folds], main)
        run_below(tail, end)
        tail_carries = self._step(tail, first, bool(self.tables))
        results = close_loop(outer, main, main.vector.base, (first, middle), self.step, carries)
        if self.tables and not self.in_memory:
            self._save(outer, results)
        if self.step == self.width:
            for carry, result in zip(tail_carries, results, strict=True):
                carry.start = result
        ends = close_loop(outer, tail, tail.vector.base, (middle, end), self.width, tail_carries)
        if self.tables:
            return self._trees(outer, self._saved(outer), self.lanes)
        if self.step > self.width:
            for number, fold in enumerate(self.group.folds):
                shorter = self._halve(outer, fold, results[number], self.step, self.width)
                ends[number] = fold.join(outer, fold.shape(self.width), shorter, ends[number])
        return self._trees(outer, ends, self.width)

    def _runs(self, outer: Scope, first: str, end: str, segments: Segments) -> list[str]:
        """Several axes: masked vectors in each segment; with tables, a vector ends where the lanes wrap around."""
        run = segments.open(outer, first, end)
        inner = self._lanes_scope(run, self.step)
        lanes = inner.vector
        assert lanes is not None
        stop, slot = segments.stop, ""
        step: int | str = self.step
        if self.in_memory:
            before = run.let(f"sub i64 {run.let(f'sub i64 {segments.flat}, {first}')}, {segments.start}")
            slot = inner.let(f"and i64 {inner.let(f'add i64 {before}, {lanes.base}')}, {self.lanes - 1}")
            left = inner.let(f"sub i64 {self.lanes}, {slot}")
            wrap = inner.let(f"add i64 {lanes.base}, {left}")
            stop = inner.let(f"call i64 @llvm.smin.i64(i64 {stop}, i64 {wrap})")
            here = inner.let(f"sub i64 {stop}, {lanes.base}")
            step = inner.let(f"call i64 @llvm.smin.i64(i64 {here}, i64 {self.step})")
        run_below(inner, stop)
        carries = segments.chain(self._step(inner, first, self.in_memory, slot))
        folded = close_loop(run, inner, lanes.base, (segments.start, segments.stop), step, carries, runs=True)
        return segments.close(folded)

    def _lanes_scope(self, outer: Scope, width: int) -> Scope:
        names = outer.names
        last = slice(-1, None)
        base = names.value()
        lanes = Lanes(self.group.bits(self.ctx, last, ones=False), width, base, None)
        scope = outer.inner(names.label(), self.group.bits(self.ctx, last), 0, lanes)
        self.group.bind(scope, -1, base)
        return scope

    def _step(self, scope: Scope, first: str, in_memory: bool, slot: str = "") -> list[Carry]:
        """Accumulates one vector of elements; returns the carries. Inactive lanes keep their accumulators."""
        lanes = scope.vector
        assert lanes is not None
        if in_memory and not slot:
            slot = scope.let(f"and i64 {scope.let(f'sub i64 {lanes.base}, {first}')}, {self.lanes - 1}")
        carries: list[Carry] = []
        for number, fold in enumerate(self.group.folds):
            shape = fold.shape(lanes.width)
            at = ""
            if in_memory:
                at = scope.let(f"getelementptr {shape.memory}, ptr {self.tables[number]}, i64 {slot}")
                old = _from_table(
                    scope, shape, scope.let(f"load {shape.memory_type}, ptr {at}, align {shape.itemsize}")
                )
            else:
                old = scope.names.value()
            new = fold.step(self.ctx, scope, None, shape, old)
            if lanes.mask is not None:
                new = scope.let(f"select {shape.mask_type} {lanes.mask}, {shape.type} {new}, {shape.type} {old}")
            if at:
                raw = _to_table(scope, shape, new)
                scope.do(f"store {shape.memory_type} {raw}, ptr {at}, align {shape.itemsize}")
            else:
                carry = Carry(shape.type, fold.identity(shape), old)
                carry.result = new
                carries.append(carry)
        return carries

    def _trees(self, scope: Scope, texts: list[str], lanes: int) -> list[str]:
        """The results of all folds, reduced over their lanes."""
        return [self._halve(scope, fold, text, lanes, 1) for fold, text in zip(self.group.folds, texts, strict=True)]

    def _halve(self, scope: Scope, fold: Fold, text: str, lanes: int, least: int) -> str:
        """Halves to `least` lanes: lane l is combined with lane l + lanes / 2; a single lane is widened."""
        shape = fold.shape(lanes)
        while lanes > least:
            if lanes <= WIDE_LANES and shape is not fold.total_shape(lanes):
                text, shape = fold.widen(scope, lanes, text), fold.total_shape(lanes)
            kind, lanes = shape.type, lanes // 2
            shape = shape_of(shape.dtype, lanes)
            if lanes == 1:
                low = scope.let(f"extractelement {kind} {text}, i64 0")
                high = scope.let(f"extractelement {kind} {text}, i64 1")
            else:
                low, high = (_extract_lanes(scope, kind, text, start, lanes) for start in (0, lanes))
            text = fold.join(scope, shape, low, high)
        return fold.widen(scope, lanes, text) if lanes == 1 and shape is not fold.total_shape(1) else text


def _depends_on_reduction(ctx: Context, fold: Fold) -> bool:
    """Whether a reduction needs the result of another: then it is a second pass over the row."""
    return ctx.analysis.below[fold.term].bit_count() > 1


def _extract_lanes(scope: Scope, kind: str, text: str, start: int, count: int) -> str:
    order = ", ".join([f"i32 {lane}" for lane in range(start, start + count)])
    return scope.let(f"shufflevector {kind} {text}, {kind} poison, {vector_type(count, 'i32')} <{order}>")


def _to_table(scope: Scope, shape: Shape, text: str) -> str:
    return scope.let(f"zext {shape.type} {text} to {shape.memory_type}") if shape.is_bool else text


def _from_table(scope: Scope, shape: Shape, raw: str) -> str:
    return scope.let(f"trunc {shape.memory_type} {raw} to {shape.type}") if shape.is_bool else raw
