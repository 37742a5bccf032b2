"""Reductions as loops over accumulators; reductions along vector lanes are in `lane_reductions`.

Input: a reduction term with its `Order`. Output: its value. The order decides the bits: lanes, chain length and block
are kept for any vector width. Lanes without an element are left out of the tree: they would add +0.0, which changes
only the -0.0 that an fma may underflow to, and a block that is -0.0 is added to +0.0.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import ANY_LOAD, RISKY_LOAD
from rushlight.codegen.llvm.builder.functions import function_text
from rushlight.codegen.llvm.builder.scope import Context, Mask, Names, Scope, Value
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.builder.vector_types import Shape, shape_of, vector_type
from rushlight.codegen.llvm.kernel.accumulators import Fold, Group, find_group
from rushlight.codegen.llvm.kernel.lane_reductions import reduce_along_lanes
from rushlight.codegen.llvm.kernel.loop_close import Carry, close_loop, merge
from rushlight.codegen.llvm.kernel.segments import Segments
from rushlight.codegen.llvm.math.terms import operand, remember, value
from rushlight.ir.dtype import bool_, int64
from rushlight.ir.scalar import WIDE_LANES, Scalar
from rushlight.sym import Size, bounds, parts, product


def emit_reduction(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a reduction; values of other reductions that share its loop are recorded too."""
    group = find_group(ctx, term, scope, mask)
    ctx.in_progress.update([fold.term for fold in group.folds])
    vector = scope.vector
    across = vector is not None and bool(ctx.analysis.free[term] & vector.axes)
    count = product(group.extents)
    if across or ctx.target.grid or (group.order is not None and group.order.lanes == 1):
        assert vector is not None or not across
        results = _ChainReduction(ctx, group, scope, mask, vector.width if across and vector is not None else 1).emit(
            count
        )
    else:
        results = _reduce_lanes(ctx, group, scope, mask, count)
    ctx.in_progress.difference_update([fold.term for fold in group.folds])
    for fold, result in zip(group.folds, results, strict=True):
        if fold.term is not term:
            remember(ctx, fold.term, scope, mask, result)
    return results[[fold.term for fold in group.folds].index(term)]


def _reduce_lanes(ctx: Context, group: Group, scope: Scope, mask: Mask | None, count: Size) -> list[Value]:
    length = _until_end(ctx, group, scope, mask, masked_count(ctx, scope, mask, count))
    inside = scope.inner(scope.names.label(), hold=unhoistable(mask))
    texts = reduce_along_lanes(ctx, group, inside, length, count)
    return close_guard(scope, inside, group, texts, length, 1)


def unhoistable(mask: Mask | None) -> int:
    """The loads that may not be hoisted out of a reduction's loop, which may be empty or masked off."""
    return RISKY_LOAD if mask is None else RISKY_LOAD | ANY_LOAD


def masked_count(ctx: Context, scope: Scope, mask: Mask | None, count: Size) -> str:
    """The number of elements; 0 if a scalar mask is off."""
    text = sizes.size_text(ctx, count, scope)
    if mask is None or mask.lanes > 1:
        return text
    return scope.let(f"select i1 {mask.text}, i64 {text}, i64 0")


def _until_end(ctx: Context, group: Group, scope: Scope, mask: Mask | None, length: str) -> str:
    """The number of elements before the reduction's own guard ends it."""
    if group.end is None:
        return length
    limit = value(ctx, group.end.limit, scope, mask)
    assert limit.lanes == 1, "a loop's end differs between lanes"
    before = sizes.size_text(ctx, group.end.before, scope)
    end = limit.text if before == "0" else scope.let(f"sub i64 {limit.text}, {before}")
    return scope.let(f"call i64 @llvm.smin.i64(i64 {length}, i64 {end})")


def close_guard(scope: Scope, inside: Scope, group: Group, texts: list[str], length: str, lanes: int) -> list[Value]:
    """Appends a scope that runs only if there are elements; the results are the identities otherwise."""
    before, after = scope.label, scope.names.label()
    scope.branch(scope.let(f"icmp sgt i64 {length}, 0"), inside.first, after)
    scope.block(inside.first)
    scope.append(inside)
    last = scope.label
    scope.jump(after)
    scope.block(after)
    results: list[Value] = []
    for number, (fold, text) in enumerate(zip(group.folds, list(texts), strict=True)):
        shape = fold.total_shape(lanes)
        texts[number] = merge(scope, shape.type, (fold.identity(shape), before), (text, last))
    for fold, text in zip(group.folds, texts, strict=True):
        results.append(Value(fold.decode(scope, fold.total_shape(lanes), text), lanes, scope))
    return results


class _ChainReduction:
    """Reduces element by element; an accumulator has one lane for each output.

    It is a scalar, or a vector if outputs are vectorised. An order with several lanes keeps that many accumulators in
    scratch memory.
    """

    def __init__(self, ctx: Context, group: Group, scope: Scope, mask: Mask | None, width: int) -> None:
        self.ctx = ctx
        self.group = group
        self.scope = scope
        self.mask = mask
        self.width = width
        order = group.order
        self.lanes = 1 if order is None else order.lanes
        self.block = None if order is None else order.block
        self.run = None if order is None else order.lanes * order.chain
        self.tables = [ctx.allocate(fold.shape(width).type, self.lanes) for fold in group.folds if self.in_memory(fold)]

    def in_memory(self, fold: Fold) -> bool:
        """Whether a fold's accumulators are a table in scratch memory."""
        return self.lanes > 1 and fold.ordered

    def emit(self, count: Size) -> list[Value]:
        """Emits the loops; returns the results."""
        ctx, scope = self.ctx, self.scope
        inside = scope.inner(scope.names.label(), hold=unhoistable(self.mask))
        ragged = None
        if scope.vector is not None and self._axes_of_length(count) & scope.vector.axes:
            length, ragged = self._ragged_count(count)
        else:
            length = _until_end(ctx, self.group, scope, self.mask, masked_count(ctx, scope, self.mask, count))
        most = count if isinstance(count, int) else bounds(count)[1]
        if self.run is None or (self.lanes == 1 and most is not None and most <= self.run):
            texts = self._widened(inside, self._run(inside, "0", length, ragged, None))
            texts = [
                fold.only_block(inside, fold.total_shape(self.width), text)
                for fold, text in zip(self.group.folds, texts, strict=True)
            ]
        else:
            texts = self._runs(inside, length, ragged, most)
        return close_guard(scope, inside, self.group, texts, length, self.width)

    def _axes_of_length(self, count: Size) -> int:
        """The axes on which the number of elements depends."""
        analysis, end = self.ctx.analysis, self.group.end
        axes = analysis.size_axes(count)
        return axes if end is None else axes | analysis.free[end.limit] | analysis.size_axes(end.before)

    def _ragged_count(self, count: Size) -> tuple[str, str]:
        """The greatest length over the lanes, and the vector of lengths."""
        scope, width = self.scope, self.width
        assert scope.vector is not None
        kind = vector_type(width, "i64")
        each = sizes.lanes_text(self.ctx, parts(count), scope)
        if self.group.end is not None:
            limit = shape_of(int64, width)
            end = operand(self.ctx, self.group.end.limit, scope, self.mask, limit)
            before = sizes.lanes_text(self.ctx, parts(self.group.end.before), scope)
            end = scope.let(f"sub {kind} {end}, {before}")
            each = scope.let(f"call {kind} @llvm.smin.v{width}i64({kind} {each}, {kind} {end})")
        for active in (scope.vector.mask, self.mask.text if self.mask is not None and self.mask.lanes > 1 else None):
            if active is not None:
                each = scope.let(f"select {vector_type(width, 'i1')} {active}, {kind} {each}, {kind} zeroinitializer")
        return scope.let(f"call i64 @llvm.vector.reduce.smax.v{width}i64({kind} {each})"), each

    def _runs(self, outer: Scope, length: str, ragged: str | None, most: int | None) -> list[str]:
        """The loop over chains: their results are added to their block's, those of blocks to the totals."""
        names = outer.names
        body = outer.inner(names.label())
        first = names.value()
        end = body.let(f"add i64 {first}, {self.run}")
        end = body.let(f"call i64 @llvm.smin.i64(i64 {end}, i64 {length})")
        segments = Segments(self.ctx, self.group, outer, body) if len(self.group.extents) > 1 else None
        parts = self._run(body, first, end, ragged, segments)
        sums: list[Carry] = []
        if self.run != self.block:
            sums = self._accumulate(body, [fold.shape(self.width) for fold in self.group.folds], parts, first, ragged)
            parts = [carry.result for carry in sums]
        totals: list[Carry] = []
        if not sums or most is None or self.block is None or most > self.block:
            shapes = [fold.total_shape(self.width) for fold in self.group.folds]
            if sums:
                totals = self._accumulate_blocks(body, sums, shapes, (end, length))
            else:
                totals = self._accumulate(body, shapes, self._widened(body, parts), first, ragged)
        carries = [*(segments.carries if segments is not None else ()), *sums, *totals]
        close_loop(outer, body, first, ("0", length), self.run or 1, carries, runs=True)
        results = [carry.result for carry in totals or sums]
        return results if totals else self._widened(outer, results)

    def _accumulate(
        self, body: Scope, shapes: list[Shape], parts: list[str], first: str, ragged: str | None
    ) -> list[Carry]:
        """The carried values that accumulate `parts`; lanes that end before element `first` keep theirs."""
        live = ""
        if ragged is not None:
            live = body.let(
                f"icmp sgt {vector_type(self.width, 'i64')} {ragged}, {sizes.splat_i64(body, first, self.width)}"
            )
        carries: list[Carry] = []
        for fold, shape, part in zip(self.group.folds, shapes, parts, strict=True):
            carry = Carry(shape.type, fold.identity(shape), body.names.value())
            carry.result = fold.join(body, shape, carry.name, part)
            if live:
                carry.result = body.let(
                    f"select {shape.mask_type} {live}, {shape.type} {carry.result}, {shape.type} {carry.name}"
                )
            carries.append(carry)
        return carries

    def _accumulate_blocks(
        self, body: Scope, sums: list[Carry], shapes: list[Shape], ends: tuple[str, str]
    ) -> list[Carry]:
        """The carried totals: at the end of each block its sums are added and restart at the identity."""
        end, length = ends
        assert self.block is not None
        inside = body.inner(body.names.label())
        totals = self._accumulate(inside, shapes, self._widened(inside, [carry.result for carry in sums]), "0", None)
        position = body.let(f"urem i64 {end}, {self.block}")
        full = body.let(f"icmp eq i64 {position}, 0")
        ended = body.let(f"or i1 {full}, {body.let(f'icmp eq i64 {end}, {length}')}")
        before, after = body.label, body.names.label()
        body.branch(ended, inside.first, after)
        body.block(inside.first)
        body.append(inside)
        last = body.label
        body.jump(after)
        body.block(after)
        for total, shape in zip(totals, shapes, strict=True):
            total.result = merge(body, shape.type, (total.name, before), (total.result, last))
        for carry in sums:
            carry.result = merge(body, carry.type, (carry.result, before), (carry.start, last))
        return totals

    def _widened(self, scope: Scope, texts: list[str]) -> list[str]:
        """Converts accumulators to the dtype of block sums; results of tables have it already."""
        return [
            text if self.in_memory(fold) else fold.widen(scope, self.width, text)
            for fold, text in zip(self.group.folds, texts, strict=True)
        ]

    def _run(self, outer: Scope, first: str, end: str, ragged: str | None, segments: Segments | None) -> list[str]:
        """The results of one chain, elements `first` to `end`."""
        self._clear_tables(outer, first, end)
        if len(self.group.extents) > 1:
            if segments is None:
                segments = Segments(self.ctx, self.group, outer, None)
            run = segments.open(outer, first, end)
            position = run.let(f"sub i64 {segments.flat}, {segments.start}")
            inner = run.inner(run.names.label(), self.group.bits(self.ctx, slice(-1, None)))
            counter = run.names.value()
            self.group.bind(inner, -1, counter)
            position = inner.let(f"add i64 {position}, {counter}") if self.tables or ragged else counter
            carries = self._step(inner, position, first, ragged)
            folded = close_loop(
                run, inner, counter, (segments.start, segments.stop), carries=segments.chain(carries), runs=True
            )
            results = segments.close(folded)
        else:
            inner = outer.inner(outer.names.label(), self.group.bits(self.ctx))
            counter = outer.names.value()
            self.group.bind(inner, 0, counter)
            carries = self._step(inner, counter, first, ragged)
            results = close_loop(outer, inner, counter, (first, end), carries=carries, runs=True)
        return self._gather_tables(outer, first, end, results)

    def _step(self, inner: Scope, position: str, first: str, ragged: str | None) -> list[Carry]:
        """The body: one element into every accumulator. Returns the accumulators that registers carry."""
        ctx, names = self.ctx, inner.names
        mask, live = self.mask if self.mask is not None and self.mask.lanes > 1 else None, None
        if ragged is not None:
            kind = vector_type(self.width, "i64")
            live = inner.let(f"icmp sgt {kind} {ragged}, {sizes.splat_i64(inner, position, self.width)}")
            text = live
            if mask is not None:
                text = inner.let(f"and {shape_of(bool_, self.width).type} {live}, {mask.text}")
            mask = Mask(text, self.width, inner, ("ragged", live))
        slot = ""
        if self.tables:
            slot = inner.let(f"and i64 {inner.let(f'sub i64 {position}, {first}')}, {self.lanes - 1}")
        carries: list[Carry] = []
        tables = iter(self.tables)
        for fold in self.group.folds:
            shape = fold.shape(self.width)
            if self.in_memory(fold):
                at = inner.let(f"getelementptr {shape.type}, ptr {next(tables)}, i64 {slot}")
                old = inner.let(f"load {shape.type}, ptr {at}, align {shape.itemsize}")
            else:
                at, old = "", names.value()
            new = fold.step(ctx, inner, mask, shape, old)
            if live is not None:
                new = inner.let(f"select {shape.mask_type} {live}, {shape.type} {new}, {shape.type} {old}")
            if at:
                inner.do(f"store {shape.type} {new}, ptr {at}, align {shape.itemsize}")
            else:
                carry = Carry(shape.type, fold.identity(shape), old)
                carry.result = new
                carries.append(carry)
        return carries

    def _used_lanes(self, scope: Scope, first: str, end: str) -> str:
        """The lanes of a block that have elements, rounded up to a power of two."""
        left = scope.let(f"sub i64 {end}, {first}")
        below = scope.let(f"sub i64 {scope.let(f'call i64 @llvm.smin.i64(i64 {left}, i64 {self.lanes})')}, 1")
        zeros = scope.let(f"call i64 @llvm.ctlz.i64(i64 {below}, i1 false)")
        digits = scope.let(f"sub i64 64, {zeros}")
        return scope.let(f"shl i64 1, {digits}")

    def _clear_tables(self, scope: Scope, first: str, end: str) -> None:
        if not self.tables:
            return
        used = self._used_lanes(scope, first, end)
        inner = scope.inner(scope.names.label())
        lane = scope.names.value()
        for fold, table in zip([fold for fold in self.group.folds if self.in_memory(fold)], self.tables, strict=True):
            shape = fold.shape(self.width)
            at = inner.let(f"getelementptr {shape.type}, ptr {table}, i64 {lane}")
            inner.do(f"store {shape.type} {fold.identity(shape)}, ptr {at}, align {shape.itemsize}")
        close_loop(scope, inner, lane, ("0", used), runs=True)

    def _gather_tables(self, scope: Scope, first: str, end: str, results: list[str]) -> list[str]:
        """Reduces the tables' lanes by halving; returns the results of all folds in order."""
        used = self._used_lanes(scope, first, end) if self.tables else ""
        carried, tables = iter(results), iter(self.tables)
        texts: list[str] = []
        for fold in self.group.folds:
            if not self.in_memory(fold):
                texts.append(next(carried))
                continue
            shape, table = fold.total_shape(self.width), next(tables)
            joined = self.ctx.allocate(shape.type, WIDE_LANES) if fold.is_wide else table
            scope.do(f"call void @{self._join_function(fold)}(ptr {table}, ptr {joined}, i64 {used})")
            texts.append(scope.let(f"load {shape.type}, ptr {joined}, align {shape.itemsize}"))
        return texts

    def _join_function(self, fold: Fold) -> str:
        """The name of the function that joins the lanes of a table."""
        target, width = self.ctx.target, self.width
        return self.ctx.functions.add("join_lanes", lambda name: _emit_join(fold, width, target, name))


def _emit_join(fold: Fold, width: int, target: CodeTarget, name: str) -> str:
    """Emits the function that joins the first `used` lanes of a table, in a wider one if need be.

    The result is the first lane. A kernel has many such tables, whose code would be most of its text.
    """
    scope = Scope(Names(), "start", None)
    shape, table, used = fold.shape(width), "%table", "%used"
    if fold.is_wide:
        _halve_table(scope, fold, shape, table, (used, WIDE_LANES))
        used = scope.let(f"call i64 @llvm.smin.i64(i64 {used}, i64 {WIDE_LANES})")
        _widen_table(scope, fold, width, used)
        shape, table = fold.total_shape(width), "%joined"
    _halve_table(scope, fold, shape, table, (used, 1))
    scope.do("ret void")
    header = f"define internal void @{name}(ptr %table, ptr %joined, i64 %used) noinline {target.attributes}"
    return function_text(header, (), scope.lines)


def _widen_table(scope: Scope, fold: Fold, width: int, lanes: str) -> None:
    """Copies the first lanes of a table to the other one in the dtype in which they are joined."""
    narrow, shape = fold.shape(width), fold.total_shape(width)
    inner, lane = scope.inner(scope.names.label()), scope.names.value()
    old = inner.let(f"getelementptr {narrow.type}, ptr %table, i64 {lane}")
    text = inner.let(f"load {narrow.type}, ptr {old}, align {narrow.itemsize}")
    new = inner.let(f"getelementptr {shape.type}, ptr %joined, i64 {lane}")
    inner.do(f"store {shape.type} {fold.widen(inner, width, text)}, ptr {new}, align {shape.itemsize}")
    close_loop(scope, inner, lane, ("0", lanes), runs=True)


def _halve_table(scope: Scope, fold: Fold, shape: Shape, table: str, lanes: tuple[str, int]) -> None:
    """Halves a table from `used` to `least` lanes: lane l is combined with lane l + half."""
    used, least = lanes
    names = scope.names
    level, after = scope.inner(names.label()), names.label()
    width, lane = names.value(), names.value()
    half = level.let(f"lshr i64 {width}, 1")
    inner = level.inner(names.label())
    low = inner.let(f"getelementptr {shape.type}, ptr {table}, i64 {lane}")
    high = inner.let(f"getelementptr {shape.type}, ptr {low}, i64 {half}")
    a, b = (inner.let(f"load {shape.type}, ptr {at}, align {shape.itemsize}") for at in (low, high))
    inner.do(f"store {shape.type} {fold.join(inner, shape, a, b)}, ptr {low}, align {shape.itemsize}")
    close_loop(level, inner, lane, ("0", half), runs=True)
    before = scope.label
    scope.branch(scope.let(f"icmp sgt i64 {used}, {least}"), level.first, after)
    scope.block(level.first)
    scope.do(f"{width} = phi i64 [ {used}, %{before} ], [ {half}, %{level.label} ]")
    scope.append(level)
    scope.branch(scope.let(f"icmp sgt i64 {half}, {least}"), level.first, after)
    scope.block(after)
