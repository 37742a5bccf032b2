"""Nontemporal stores: they write a large result that nothing reads back to memory past the caches.

An ordinary store first reads the cache line that it changes: a third of the memory traffic of a copy. The size of a
result and the alignment of its rows are known only at run time, so each full vector has a branch between the two
stores.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.builder.vector_types import Shape
from rushlight.codegen.llvm.kernel.row_scratch import row_length
from rushlight.ir.kernel import Loop, Statement, Store
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.sym import Size


def cached_bit(ctx: Context, buffer: Buffer) -> str | None:
    """An i64: 0 if stores of whole lines to a buffer are nontemporal, else 1; None if they never are.

    It is an address bit: `or` with the address and one test check the alignment and the choice together.
    """
    if buffer not in ctx.cached_bits:
        ctx.cached_bits[buffer] = _make_bit(ctx, buffer)
    return ctx.cached_bits[buffer]


def _make_bit(ctx: Context, buffer: Buffer) -> str | None:
    if buffer not in ctx.kernel.unread or ctx.target.architecture != "x86_64":
        return None
    counts = _store_counts(ctx, ctx.kernel.body, buffer, 1)
    if len(counts) != 1 or counts[0] is None:
        return None
    itemsize = buffer.type.dtype.itemsize
    moved = sizes.size_text(ctx, counts[0] * itemsize, ctx.entry)
    small = ctx.entry.let(f"icmp ult i64 {moved}, {Target.NONTEMPORAL_BYTES}")
    if buffer in ctx.analysis.spills:
        length = row_length(ctx, buffer)
        if length is None:
            return None
        row = sizes.size_text(ctx, length * itemsize, ctx.entry)
        small = ctx.entry.let(f"or i1 {small}, {ctx.entry.let(f'icmp ugt i64 {row}, {Target.NEAR_CACHE_BYTES}')}")
    return ctx.entry.let(f"zext i1 {small} to i64")


def _store_counts(ctx: Context, body: tuple[Statement, ...], buffer: Buffer, around: Size | None) -> list[Size | None]:
    """How often each store to a buffer runs; None if that depends on data or on axes."""
    counts: list[Size | None] = []
    for statement in body:
        if isinstance(statement, Store) and statement.buffer is buffer:
            counts.append(around)
        elif isinstance(statement, Loop):
            extent = statement.axis.extent
            inside = None
            if around is not None and not isinstance(extent, Scalar) and not ctx.analysis.size_axes(extent):
                inside = around * extent
            counts += _store_counts(ctx, statement.body, buffer, inside)
    return counts


def store_nontemporal(scope: Scope, shape: Shape, pointer: str, text: str, bit: str) -> None:
    """Stores one full vector; the store is nontemporal if `bit` is 0 and the address is 64-byte aligned."""
    names = scope.names
    nontemporal, cached, after = names.label(), names.label(), names.label()
    address = scope.let(f"ptrtoint ptr {pointer} to i64")
    low = scope.let(f"and i64 {scope.let(f'or i64 {address}, {bit}')}, {Target.LINE_BYTES - 1}")
    scope.branch(scope.let(f"icmp eq i64 {low}, 0"), nontemporal, cached)
    scope.block(nontemporal)
    scope.do(f"store {shape.memory_type} {text}, ptr {pointer}, align {Target.LINE_BYTES}, !nontemporal !{{i32 1}}")
    scope.jump(after)
    scope.block(cached)
    scope.do(f"store {shape.memory_type} {text}, ptr {pointer}, align {shape.itemsize}")
    scope.jump(after)
    scope.block(after)


def fence_nontemporal(ctx: Context) -> None:
    """Emits a store fence at the end of the function: nontemporal stores are weakly ordered.

    Without it another thread could see the end of the range before its data.
    """
    for bit in [bit for bit in ctx.cached_bits.values() if bit is not None]:
        scope = ctx.entry
        fence, after = scope.names.label(), scope.names.label()
        scope.branch(scope.let(f"icmp eq i64 {bit}, 0"), fence, after)
        scope.block(fence)
        scope.do("call void @llvm.x86.sse.sfence()")
        scope.jump(after)
        scope.block(after)
