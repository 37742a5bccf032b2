"""Rows that wait: what a reduction keeps for the last loop over its row lies in memory of the kernel's own.

That is so where the result is stored past the caches. In the result's own place each line would first be read from
memory, a third of all that a softmax moves.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import INDEX
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.builder.sizes import Part
from rushlight.codegen.llvm.builder.vector_types import shape_of
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.sym import Size, SizeExpr, axis_size, parts

# What a row may take of the stack. Longer ones would leave the caches before they are read.
ROW_BYTES = 64 << 10


def row_length(ctx: Context, buffer: Buffer) -> Size | None:
    """How many elements wait in a row; None unless they lie beside each other in the order of one axis."""
    axes = {_axis(ctx, term) for term in ctx.analysis.kept[buffer]}
    axis = axes.pop() if len(axes) == 1 else None
    return None if axis is None or ctx.analysis.size_axes(axis_size(axis)) else axis_size(axis)


def _axis(ctx: Context, term: Scalar) -> SizeExpr | None:
    """The axis that leads from one kept element to the next."""
    offset = term.operands[1]
    inside = _parted(ctx, parts(offset.attr("expr")))[1] if offset.op is INDEX else []
    return inside[0][1][0] if len(inside) == 1 and inside[0][0] == len(inside[0][1]) == 1 else None


def _parted(ctx: Context, offset: Iterable[Part]) -> tuple[list[Part], list[Part]]:
    """The parts of an offset that are the same for all of a row, and the others, constants among them."""
    outside = sum([ctx.analysis.axis_bits[axis.symbol] for axis in ctx.kernel.parallel_axes])
    found: tuple[list[Part], list[Part]] = ([], [])
    for part in offset:
        found[not part[1] or bool(ctx.analysis.atoms_axes(part[1]) & ~outside)].append(part)
    return found


def start_of_row(ctx: Context, buffer: Buffer, bit: str, base: list[Part], scope: Scope) -> tuple[str, list[Part]]:
    """The address where a row begins, and the parts of an offset that lead on from there.

    It waits in the result's place if the i64 `bit` is not 0.
    """
    spare = ctx.rows.get(buffer)
    if spare is None:
        spare = ctx.rows[buffer] = ctx.entry.let(f"icmp eq i64 {bit}, 0"), ctx.allocate("i8", ROW_BYTES)
    outside, inside = _parted(ctx, base)
    place = ctx.place(ctx.analysis.atoms_axes([atom for _, atoms in outside for atom in atoms]), 0, scope)
    key = ("row", buffer, tuple(outside))
    known = place.sizes.get(key)
    if known is None:
        memory, total = shape_of(buffer.type.dtype).memory, sizes.sum_text(ctx, outside, place)
        there = place.let(f"getelementptr {memory}, ptr {ctx.base(buffer)}, i64 {total}")
        known = place.sizes[key] = place.let(f"select i1 {spare[0]}, ptr {spare[1]}, ptr {there}")
    return known, inside
