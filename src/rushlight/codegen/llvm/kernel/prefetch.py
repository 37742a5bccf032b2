"""Reading ahead: while a kernel computes, memory is asked for what it will read next.

A later pass over a row asks for the same place one row further on. A softmax looks for a row's maximum, which waits for
memory, and then computes exponentials of what the cache has, while memory would have nothing to do: reading ahead, it
takes a seventh less time.

A loop within a turn of a vector loop, which reads far apart, asks for what it reads in the next turn. That may be the
next call's first one: panels of a convolution's pixels lie side by side. (They take a fifth less time so, on a Zen 3.)
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import INDEX, LOAD
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.kernel.memory import locate
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.sym import Size, SizeExpr, coefficient, parts
from rushlight.term import postorder

# Terms per element from which a pass takes longer than memory.
LONG_WORK = 12
# What is further off would leave the first-level cache, or the second, before it is used.
_FARTHEST_BYTES = 64 << 10
_LINE = 64


def ask_for_next_rows(ctx: Context, roots: Iterable[Scalar], scope: Scope) -> None:
    """Prefetches, in a loop over vectors along a row, what the roots' loads there read in the next row."""
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
        place = locate(ctx, buffer, load.operands[0], scope, None)
        if place.stride != 1 or place.extra is not None:
            continue
        size = buffer.type.dtype.itemsize
        next_row = scope.let(f"getelementptr i8, ptr {place.pointer}, i64 {_distance(ctx, step * size)}")
        for start in range(0, lanes.width * size, _LINE):
            line = scope.let(f"getelementptr i8, ptr {next_row}, i64 {start}")
            scope.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 3, i32 1)")


def ask_for_next_turn(ctx: Context, stores: Iterable[Store], scope: Scope) -> None:
    """Prefetches, in a loop within a turn of a vector loop, what the stores' values read there in the next turn.

    Of loads that are a constant apart the first asks; each line is asked for by its last byte.
    """
    lanes = scope.vector
    assert lanes is not None
    asked: set[object] = set()
    for load in postorder([store.value for store in stores]):
        if load.op is not LOAD or not ctx.analysis.free[load] & lanes.axes or load.operands[0].op is not INDEX:
            continue
        buffer: Buffer = load.attr("buffer")
        row = (buffer, *[part for part in parts(load.operands[0].attr("expr")) if part[1]])
        place = locate(ctx, buffer, load.operands[0], scope, None)
        if row in asked or place.extra is not None or not isinstance(place.stride, int) or place.repeats:
            continue
        asked.add(row)
        length = lanes.width * place.stride * buffer.type.dtype.itemsize
        for start in range(length, 2 * length, _LINE):
            line = scope.let(f"getelementptr i8, ptr {place.pointer}, i64 {start + _LINE - 1}")
            scope.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 3, i32 1)")


def _distance(ctx: Context, step: Size) -> str:
    """The bytes from a row to the next; 0, which asks for what is there, where that is too far."""
    text = sizes.size_text(ctx, step, ctx.entry)
    far = ctx.entry.let(f"icmp ugt i64 {text}, {_FARTHEST_BYTES}")
    return ctx.entry.let(f"select i1 {far}, i64 0, i64 {text}")
