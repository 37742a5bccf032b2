"""Statements of a kernel: scalar loops, vector loops with a masked tail, stores.

Input: IR loops and stores. Output: lines in a scope. A vector loop has a main loop on full vectors and one masked tail;
only loops with transposed loads have a scalar remainder loop.
"""

from __future__ import annotations

import functools
import operator
from itertools import groupby

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import RISKY_LOAD
from rushlight.codegen.llvm.builder.scope import Context, Lanes, Scope
from rushlight.codegen.llvm.builder.vector_types import shape_of
from rushlight.codegen.llvm.kernel.grid import emit_barrier, enter_thread, thread_index
from rushlight.codegen.llvm.kernel.loop_close import close_loop
from rushlight.codegen.llvm.kernel.matrix_unit import emit_multiply
from rushlight.codegen.llvm.kernel.prefetch import prefetch_next_iteration
from rushlight.codegen.llvm.kernel.row_segments import RowSegments, find_quotients
from rushlight.codegen.llvm.kernel.scan import carry_scans, find_scans
from rushlight.codegen.llvm.kernel.stores import emit_stores
from rushlight.codegen.llvm.kernel.transposed_loads import has_transposed_loads
from rushlight.codegen.llvm.kernel.widths import least_bytes, loop_lanes
from rushlight.codegen.llvm.math.masks import run_below, run_first
from rushlight.codegen.llvm.math.terms import value
from rushlight.ir.dtype import int64
from rushlight.ir.kernel import AxisKind, Loop, Multiply, Statement, Store
from rushlight.ir.scalar import Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, bounds


def emit_statements(ctx: Context, statements: tuple[Statement, ...], scope: Scope) -> None:
    """Emits statements in order. Outside of grids barriers emit nothing, since one thread runs all of a range."""
    for is_store, group in groupby(statements, lambda statement: isinstance(statement, Store)):
        if is_store:
            emit_stores(ctx, [store for store in group if isinstance(store, Store)], scope)
            continue
        for statement in group:
            if isinstance(statement, Loop):
                _emit_loop(ctx, statement, scope)
            elif isinstance(statement, Multiply):
                emit_multiply(ctx, statement, scope)
            elif ctx.target.grid:
                emit_barrier(ctx, scope)


def _emit_loop(ctx: Context, loop: Loop, scope: Scope) -> None:
    axis = loop.axis
    start, extent = bound_text(ctx, axis.start, scope), bound_text(ctx, axis.extent, scope)
    if axis.kind is AxisKind.THREAD:
        _emit_threads(ctx, loop, scope, extent)
        return
    if axis.kind is AxisKind.UNROLLED and isinstance(axis.extent, int):
        for number in range(axis.extent):
            _emit_in_line(ctx, loop, scope, str(number))
        return
    end = extent if start == "0" else scope.let(f"add i64 {start}, {extent}")
    runs = not isinstance(axis.extent, Scalar) and _is_positive(axis.extent)
    fixed = axis.extent if isinstance(axis.extent, int) else None
    emit_range(ctx, axis.symbol, loop.body, scope, (start, end), runs, fixed, axis.kind.is_vector)


def _emit_threads(ctx: Context, loop: Loop, scope: Scope, extent: str) -> None:
    """What each thread of a block does: one iteration, or all of them in turn where a processor runs the grid."""
    symbol, names = loop.axis.symbol, scope.names
    if ctx.target.is_gpu and loop.axis.extent == ctx.kernel.threads:
        _emit_in_line(ctx, loop, scope, thread_index(ctx))
        return
    hold = ctx.analysis.stored_in(loop.body) | RISKY_LOAD
    inner = scope.inner(names.label(), ctx.analysis.axis_bits[symbol], -1 if ctx.target.emulates else hold)
    if ctx.target.emulates:
        counter = inner.sizes[symbol] = names.value()
        enter_thread(ctx, inner, counter)
        emit_statements(ctx, loop.body, inner)
        close_loop(scope, inner, counter, ("0", extent))
        return
    inner.sizes[symbol] = thread_index(ctx)
    emit_statements(ctx, loop.body, inner)
    after = names.label()
    scope.branch(scope.let(f"icmp slt i64 {inner.sizes[symbol]}, {extent}"), inner.first, after)
    scope.block(inner.first)
    scope.append(inner)
    scope.jump(after)
    scope.block(after)


def _emit_in_line(ctx: Context, loop: Loop, scope: Scope, position: str) -> None:
    """One iteration, without a branch."""
    bits, hold = ctx.analysis.axis_bits[loop.axis.symbol], ctx.analysis.stored_in(loop.body)
    inner = scope.inner(scope.label, bits, hold)
    inner.sizes[loop.axis.symbol] = position
    emit_statements(ctx, loop.body, inner)
    scope.append(inner)


def _is_positive(size: Size) -> bool:
    return size > 0 if isinstance(size, int) else (bounds(size)[0] or 0) > 0


def bound_text(ctx: Context, bound: Size | Scalar, scope: Scope) -> str:
    """A loop bound as an i64."""
    if not isinstance(bound, Scalar):
        return sizes.size_text(ctx, bound, scope)
    length = value(ctx, bound, scope)
    if length.lanes > 1:
        raise NotImplementedError("codegen: a loop's bound differs between the lanes of a vector loop around it")
    if bound.type.itemsize == 8:
        return length.text
    extend = "sext" if bound.type.signed else "zext"
    return scope.let(f"{extend} {shape_of(bound.type).type} {length.text} to {shape_of(int64).type}")


def emit_range(
    ctx: Context,
    symbol: SizeExpr,
    body: tuple[Statement, ...],
    scope: Scope,
    bounds_: tuple[str, str],
    runs: bool,
    fixed: int | None,
    in_lanes: bool,
) -> None:
    """A loop of an axis over a range; `runs`: it is not empty; `fixed`: its length if constant."""
    outer = scope
    after = ""
    if not runs:
        after = scope.names.label()
        outer = scope.inner(scope.names.label(), hold=RISKY_LOAD)
    if in_lanes and scope.vector is None:
        _vector_loop(ctx, symbol, body, outer, bounds_, fixed)
    else:
        _scalar_loop(ctx, symbol, body, outer, bounds_)
    if not runs:
        scope.branch(scope.let(f"icmp slt i64 {bounds_[0]}, {bounds_[1]}"), outer.first, after)
        scope.block(outer.first)
        scope.append(outer)
        scope.jump(after)
        scope.block(after)


def _scalar_loop(
    ctx: Context, symbol: SizeExpr, body: tuple[Statement, ...], outer: Scope, bounds_: tuple[str, str]
) -> None:
    hold = ctx.analysis.stored_in(body)
    chains = find_scans(ctx, body, symbol) if bounds_[0] == "0" else []
    bits = [ctx.analysis.axis_bits[axis] for axis in (symbol, *[axis for term in chains for axis in bound_axes(term)])]
    inner = outer.inner(outer.names.label(), functools.reduce(operator.or_, bits), hold)
    counter = inner.sizes[symbol] = outer.names.value()
    carries = carry_scans(ctx, chains, symbol, inner)
    emit_statements(ctx, body, inner)
    if inner.vector is not None and not ctx.kernel.parallel_axes:
        prefetch_next_iteration(ctx, [store for store in body if isinstance(store, Store)], inner)
    close_loop(outer, inner, counter, bounds_, carries=carries, runs=True)


def _vector_loop(
    ctx: Context,
    symbol: SizeExpr,
    body: tuple[Statement, ...],
    outer: Scope,
    bounds_: tuple[str, str],
    fixed: int | None,
) -> None:
    """The main loop on full vectors, then a masked tail; `outer` runs only if the range is not empty."""
    start, end = bounds_
    wide, narrow = loop_lanes(ctx, body, symbol, fixed)
    if ctx.analysis.has_quotients and least_bytes(ctx, body) >= ctx.target.masked_bytes:
        vector = Lanes(ctx.analysis.axis_bits[symbol], narrow, start, None, start == "0")
        quotients = find_quotients(ctx, body, outer, vector)
        if quotients:
            wide = narrow if ctx.target.has_masks else loop_lanes(ctx, body, symbol, fixed, frozenset(quotients))[0]
            _loop_by_rows(ctx, symbol, body, outer, bounds_, quotients, (wide, narrow))
            return
    hold = ctx.analysis.stored_in(body)
    middle = end
    if fixed is None or fixed % wide:
        extent = end if start == "0" else outer.let(f"sub i64 {end}, {start}")
        middle = outer.let(f"and i64 {extent}, {-wide}")
        if start != "0":
            middle = outer.let(f"add i64 {start}, {middle}")
    main, tail = None, None
    if fixed is None or fixed >= wide:
        main = _lanes_scope(ctx, symbol, outer, hold, wide, start == "0")
        emit_statements(ctx, body, main)
    if has_transposed_loads(body, symbol):
        # A transposed load is long code, and a masked one would be as long: the tail is a scalar loop.
        if main is not None and main.vector is not None:
            close_loop(outer, main, main.vector.base, (start, middle), wide, runs=fixed is not None)
        if fixed is None or fixed % wide:
            emit_range(ctx, symbol, body, outer, (start if main is None else middle, end), False, None, False)
        return
    if fixed is None or fixed % wide:
        tail = _lanes_scope(ctx, symbol, outer, hold, narrow, start == "0")
        run_below(tail, end)
        emit_statements(ctx, body, tail)
    if main is not None and main.vector is not None:
        close_loop(outer, main, main.vector.base, (start, middle), wide, runs=fixed is not None)
    if tail is not None and tail.vector is not None:
        close_loop(
            outer, tail, tail.vector.base, (start if main is None else middle, end), narrow, runs=fixed is not None
        )


def _loop_by_rows(
    ctx: Context,
    symbol: SizeExpr,
    body: tuple[Statement, ...],
    outer: Scope,
    bounds_: tuple[str, str],
    quotients: list[SizeExpr],
    widths: tuple[int, int],
) -> None:
    """A vector loop whose iterations end where a quotient changes (`row_segments`).

    Every iteration is masked if the target has mask registers, else full vectors have a branch of their own. `widths`
    are the lanes of a full and of a masked iteration.
    """
    wide, narrow = widths
    scope = _lanes_scope(ctx, symbol, outer, ctx.analysis.stored_in(body), wide)
    lanes = scope.vector
    assert lanes is not None
    lanes.uniform = frozenset(quotients)
    rows = RowSegments(ctx, quotients, outer, scope, symbol, bounds_[0])
    left = scope.let(f"sub i64 {bounds_[1]}, {lanes.base}")
    length = scope.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 {rows.length})")
    if ctx.target.has_masks:
        run_first(scope, length)
        emit_statements(ctx, body, scope)
    else:
        length = _full_or_masked(ctx, symbol, body, scope, length, narrow)
    close_loop(outer, scope, lanes.base, bounds_, length, rows.close(length), runs=True)


def _full_or_masked(
    ctx: Context, symbol: SizeExpr, body: tuple[Statement, ...], scope: Scope, length: str, narrow: int
) -> str:
    """A branch for full vectors and one for masked ones; returns the number of elements done.

    Without mask registers (AVX2) a masked store takes tens of cycles: on a Zen 3, panels of a convolution's pixels took
    13 cycles per 8 pixels with masks only and take 4 with the branch. Masked iterations have `narrow` lanes.
    """
    around = scope.vector
    assert around is not None
    is_full = scope.let(f"icmp eq i64 {length}, {around.width}")
    if narrow < around.width:
        less = scope.let(f"call i64 @llvm.smin.i64(i64 {length}, i64 {narrow})")
        length = scope.let(f"select i1 {is_full}, i64 {length}, i64 {less}")
    widths = around.with_width(around.width), around.with_width(narrow)
    full, masked = (scope.inner(scope.names.label(), around.axes, scope.hold, lanes) for lanes in widths)
    for inner in (full, masked):
        inner.sizes[symbol] = around.base
    run_first(masked, length)
    after = scope.names.label()
    scope.branch(is_full, full.first, masked.first)
    for inner in (full, masked):
        emit_statements(ctx, body, inner)
        scope.block(inner.first)
        scope.append(inner)
        scope.jump(after)
    scope.block(after)
    return length


def _lanes_scope(ctx: Context, symbol: SizeExpr, outer: Scope, hold: int, width: int, aligned: bool = False) -> Scope:
    names = outer.names
    bit = ctx.analysis.axis_bits[symbol]
    base = names.value()
    scope = outer.inner(names.label(), bit, hold, Lanes(bit, width, base, None, aligned))
    scope.sizes[symbol] = base
    return scope
