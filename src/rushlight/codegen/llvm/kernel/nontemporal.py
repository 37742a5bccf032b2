"""Stores past the caches: a large result that nothing reads back is written without being read first.

An ordinary store brings the line that it changes into the cache, a third of what a copy moves. How large a result is
and whether its rows begin at a line is known at run time, so each full vector is stored in one of two ways.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.builder.vector_types import Shape
from rushlight.codegen.llvm.kernel.row_scratch import ROW_BYTES, row_length
from rushlight.ir.kernel import Loop, Statement, Store
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.sym import Size

# Results of as many bytes are no longer in the last-level cache when they are complete, by far the most of them.
STREAMED_BYTES = 32 << 20
LINE = 64


def stream_bit(ctx: Context, buffer: Buffer) -> str | None:
    """An i64 of the kernel: 0 if stores of whole lines to a buffer go past the caches, else 1. None if none ever do."""
    if buffer not in ctx.streams:
        ctx.streams[buffer] = _make_bit(ctx, buffer)
    return ctx.streams[buffer]


def _make_bit(ctx: Context, buffer: Buffer) -> str | None:
    if buffer not in ctx.kernel.unread or ctx.target.architecture != "x86_64":
        return None
    counts = _store_counts(ctx, ctx.kernel.body, buffer, 1)
    if len(counts) != 1 or counts[0] is None:
        return None
    itemsize = buffer.type.dtype.itemsize
    moved = sizes.size_text(ctx, counts[0] * itemsize, ctx.entry)
    small = ctx.entry.let(f"icmp ult i64 {moved}, {STREAMED_BYTES}")
    if buffer in ctx.analysis.kept:
        length = row_length(ctx, buffer)
        if length is None:
            return None
        row = sizes.size_text(ctx, length * itemsize, ctx.entry)
        small = ctx.entry.let(f"or i1 {small}, {ctx.entry.let(f'icmp ugt i64 {row}, {ROW_BYTES}')}")
    return ctx.entry.let(f"zext i1 {small} to i64")


def _store_counts(ctx: Context, body: tuple[Statement, ...], buffer: Buffer, around: Size | None) -> list[Size | None]:
    """How often each store to a buffer is run, None where that depends on data or on axes."""
    found: list[Size | None] = []
    for statement in body:
        if isinstance(statement, Store) and statement.buffer is buffer:
            found.append(around)
        elif isinstance(statement, Loop):
            extent = statement.axis.extent
            inside = None
            if around is not None and not isinstance(extent, Scalar) and not ctx.analysis.size_axes(extent):
                inside = around * extent
            found += _store_counts(ctx, statement.body, buffer, inside)
    return found


def store_streamed(scope: Scope, shape: Shape, pointer: str, text: str, bit: str) -> None:
    """Stores one full vector, past the caches if `bit` is 0 and it begins at a line."""
    names = scope.names
    past, through, after = names.label(), names.label(), names.label()
    address = scope.let(f"ptrtoint ptr {pointer} to i64")
    low = scope.let(f"and i64 {scope.let(f'or i64 {address}, {bit}')}, {LINE - 1}")
    scope.branch(scope.let(f"icmp eq i64 {low}, 0"), past, through)
    scope.open(past)
    scope.do(f"store {shape.memory_type} {text}, ptr {pointer}, align {LINE}, !nontemporal !{{i32 1}}")
    scope.jump(after)
    scope.open(through)
    scope.do(f"store {shape.memory_type} {text}, ptr {pointer}, align {shape.itemsize}")
    scope.jump(after)
    scope.open(after)


def close_streams(ctx: Context) -> None:
    """At the end of a share: what went past the caches is there before what is stored from now on."""
    for bit in [bit for bit in ctx.streams.values() if bit is not None]:
        scope = ctx.entry
        fence, after = scope.names.label(), scope.names.label()
        scope.branch(scope.let(f"icmp eq i64 {bit}, 0"), fence, after)
        scope.open(fence)
        scope.do("call void @llvm.x86.sse.sfence()")
        scope.jump(after)
        scope.open(after)
