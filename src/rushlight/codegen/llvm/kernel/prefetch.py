"""Software prefetch: while a kernel computes, it requests the cache lines that it reads next.

*Next row.* A second pass over a row prefetches the same elements of the next row. A softmax first looks for the row's
maximum, bound by memory, then computes exponentials from the cache while memory is idle: with prefetch it takes a
seventh less time.

*Next iteration.* A scalar loop inside a vector loop, which reads lines far apart, prefetches what it reads in the next
vector iteration, or in the next call: panels of a convolution's pixels are adjacent. They take a fifth less time (Zen
3).

*Rows ahead.* A loop that reads rows which an index names prefetches the row of the index some places ahead. Hardware
cannot guess it: an update of 300,000 rows of 64 floats, each a sum of rows, takes 19 ms instead of 33.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import CONSTANT, INDEX, LOAD
from rushlight.codegen.llvm.builder.scope import Context, Lanes, Mask, Scope
from rushlight.codegen.llvm.builder.sizes import Offset
from rushlight.codegen.llvm.builder.vector_types import shape_of
from rushlight.codegen.llvm.kernel.addresses import LaneAddresses, locate
from rushlight.codegen.llvm.math.terms import value
from rushlight.ir.dtype import int32, int64
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import OPS, Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.sym import Size, SizeExpr, coefficient, free_symbols, parts, product
from rushlight.term import postorder

_MUL = OPS["mul"]
# Terms per element from which a pass is bound by arithmetic, so that memory has time for prefetches.
LONG_PASS_TERMS = 12
# How many places ahead an index is read whose row is prefetched.
ROWS_AHEAD = 8


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


def prefetch_rows_ahead(ctx: Context, term: Scalar, address: LaneAddresses, scope: Scope, mask: Mask | None) -> None:
    """Prefetches what a load from a row that an index names reads of a row soon after.

    Nothing beyond the index is read: its last place is asked again.
    """
    lanes = scope.vector
    if lanes is None or ctx.target.is_gpu or ctx.target.emulates or address.stride != 1 or address.extra is not None:
        return
    named = _named_row(ctx, term.operands[0], lanes)
    if named is None:
        return
    read, step = named
    places: Buffer = read.attr("buffer")
    kind, size = shape_of(read.type).memory, read.type.itemsize
    here = locate(ctx, places, read.operands[0], scope, mask).pointer
    ahead = scope.let(f"getelementptr i8, ptr {here}, i64 {ROWS_AHEAD * size}")
    end, last = _last_place(ctx, places)
    place = scope.let(f"select i1 {scope.let(f'icmp ult ptr {ahead}, {end}')}, ptr {ahead}, ptr {last}")
    rows = [scope.let(f"load {kind}, ptr {place}, align {size}"), value(ctx, read, scope, mask).text]
    if kind != "i64":
        rows = [scope.let(f"sext {kind} {row} to i64") for row in rows]
    distance = scope.let(f"mul i64 {scope.let(f'sub i64 {rows[0]}, {rows[1]}')}, {step}")
    row = scope.let(f"getelementptr {shape_of(term.type).memory}, ptr {address.pointer}, i64 {distance}")
    for start in range(0, lanes.width * term.type.itemsize, Target.LINE_BYTES):
        line = scope.let(f"getelementptr i8, ptr {row}, i64 {start}")
        scope.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 3, i32 1)")


def _named_row(ctx: Context, offset: Scalar, lanes: Lanes) -> tuple[Scalar, str] | None:
    """The only index that an offset depends on, if it is one run of memory, and the elements of a row."""
    data = Offset(offset).data
    if len(data) != 1:
        return None
    ((factor, row),) = data
    step: Size = factor
    if row.op is _MUL:
        sized = [one for one in row.operands if one.op in (INDEX, CONSTANT)]
        others = [one for one in row.operands if one not in sized]
        if len(sized) != 1 or ctx.analysis.free[sized[0]]:
            return None
        (row,), (size,) = others, sized
        step = factor * size.attr("expr" if size.op is INDEX else "value")
    reads = {one for one in postorder([row], lambda one: () if one.op is LOAD else one.operands) if one.op is LOAD}
    if len(reads) != 1:
        return None
    (read,) = reads
    places: Buffer = read.attr("buffer")
    moves = bool(ctx.analysis.free[read]) and not ctx.analysis.free[read] & lanes.axes
    known = places in ctx.kernel.buffers and places not in ctx.analysis.buffer_bits and places.type.is_contiguous
    count = product(places.type.shape)
    known = known and (isinstance(count, int) or set(free_symbols(count)) <= set(ctx.kernel.sizes))
    if not moves or not known or not read.operands or read.type not in (int32, int64):
        return None
    return read, sizes.size_text(ctx, step, ctx.entry)


def _last_place(ctx: Context, places: Buffer) -> tuple[str, str]:
    """The last place of an index, as a bound and as what is read: no place, and zeros, where it is empty."""
    count = sizes.size_text(ctx, product(places.type.shape) - 1, ctx.entry)
    kind = shape_of(places.type.dtype).memory
    last = ctx.entry.once((places, "last"), f"getelementptr {kind}, ptr {ctx.base(places)}, i64 {count}")
    some = ctx.entry.once((places, "some"), f"icmp sge i64 {count}, 0")
    end = ctx.entry.once((places, "end"), f"select i1 {some}, ptr {last}, ptr null")
    return end, ctx.entry.once((places, "read"), f"select i1 {some}, ptr {last}, ptr {ctx.zeros_address()}")


def _distance(ctx: Context, step: Size) -> str:
    """The bytes from a row to the next; 0, which prefetches a line at hand, if that is too far."""
    text = sizes.size_text(ctx, step, ctx.entry)
    far = ctx.entry.let(f"icmp ugt i64 {text}, {Target.NEAR_CACHE_BYTES}")
    return ctx.entry.let(f"select i1 {far}, i64 0, i64 {text}")
