"""Software prefetch: while a kernel computes, it requests the cache lines that it reads next.

*Next row.* A second pass over a row prefetches the same elements of the next row. A softmax first looks for the row's
maximum, bound by memory, then computes exponentials from the cache while memory is idle: with prefetch it takes a
seventh less time.

*Next iteration.* A scalar loop inside a vector loop, which reads lines far apart, prefetches what it reads in the next
vector iteration, or in the next call: panels of a convolution's pixels are adjacent. They take a fifth less time (Zen
3).
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import INDEX, LOAD
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.kernel.addresses import locate
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.sym import Size, SizeExpr, coefficient, parts
from rushlight.term import postorder

# Terms per element from which a pass is bound by arithmetic, so that memory has time for prefetches.
LONG_PASS_TERMS = 12


def prefetch_next_row(ctx: Context, roots: Iterable[Scalar], scope: Scope) -> None:
    """In a vector loop along a row, prefetches what the loads of the roots read in the next row."""
    lanes, axes = scope.vector, ctx.kernel.parallel_axes
    if lanes is None or not axes:
        return
    row = axes[-1].symbol
    for load in [term for term in postorder(roots) if term.op is LOAD and ctx.analysis.free[term] & lanes.axes]:
        offset = load.operands[0].attr("expr") if load.operands[0].op is INDEX else None
        step = coefficient(offset, row) if isinstance(offset, SizeExpr) else None
        if step is None or step == 0 or ctx.analysis.size_axes(step):
            continue
        buffer: Buffer = load.attr("buffer")
        address = locate(ctx, buffer, load.operands[0], scope, None)
        if address.stride != 1 or address.extra is not None:
            continue
        size = buffer.type.dtype.itemsize
        next_row = scope.let(f"getelementptr i8, ptr {address.pointer}, i64 {_distance(ctx, step * size)}")
        for start in range(0, lanes.width * size, Target.LINE_BYTES):
            line = scope.let(f"getelementptr i8, ptr {next_row}, i64 {start}")
            scope.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 3, i32 1)")


def prefetch_next_iteration(ctx: Context, stores: Iterable[Store], scope: Scope) -> None:
    """Prefetches what the stores' values read in the next iteration of the vector loop around a loop.

    Loads with a constant distance are one stream, which the first of them prefetches. The address of a prefetch is the
    last byte of a line.
    """
    lanes = scope.vector
    assert lanes is not None
    streams: set[object] = set()
    for load in postorder([store.value for store in stores]):
        if load.op is not LOAD or not ctx.analysis.free[load] & lanes.axes or load.operands[0].op is not INDEX:
            continue
        buffer: Buffer = load.attr("buffer")
        row = (buffer, *[part for part in parts(load.operands[0].attr("expr")) if part[1]])
        address = locate(ctx, buffer, load.operands[0], scope, None)
        if row in streams or address.extra is not None or not isinstance(address.stride, int) or address.repeats:
            continue
        streams.add(row)
        length = lanes.width * address.stride * buffer.type.dtype.itemsize
        for start in range(length, 2 * length, Target.LINE_BYTES):
            line = scope.let(f"getelementptr i8, ptr {address.pointer}, i64 {start + Target.LINE_BYTES - 1}")
            scope.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 3, i32 1)")


def _distance(ctx: Context, step: Size) -> str:
    """The bytes from a row to the next; 0, which prefetches a line at hand, if that is too far."""
    text = sizes.size_text(ctx, step, ctx.entry)
    far = ctx.entry.let(f"icmp ugt i64 {text}, {Target.NEAR_CACHE_BYTES}")
    return ctx.entry.let(f"select i1 {far}, i64 0, i64 {text}")
