"""Scratch memory for rows that a reduction spills and a later loop over the same row reads.

It is used if the result is stored nontemporally. Spilling to the result itself would read each of its lines from memory
first: a third of the memory traffic of a softmax.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import INDEX
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.builder.sizes import Part
from rushlight.codegen.llvm.builder.vector_types import shape_of
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.sym import Size, SizeExpr, axis_size, parts


def row_length(ctx: Context, buffer: Buffer) -> Size | None:
    """The number of spilled elements in a row; None unless they are contiguous along one axis."""
    axes = {_axis(ctx, term) for term in ctx.analysis.spills[buffer]}
    axis = axes.pop() if len(axes) == 1 else None
    return None if axis is None or ctx.analysis.size_axes(axis_size(axis)) else axis_size(axis)


def _axis(ctx: Context, term: Scalar) -> SizeExpr | None:
    """The axis along which spilled elements are contiguous."""
    offset = term.operands[1]
    inside = _split_offset(ctx, parts(offset.attr("expr")))[1] if offset.op is INDEX else []
    return inside[0][1][0] if len(inside) == 1 and inside[0][0] == len(inside[0][1]) == 1 else None


def _split_offset(ctx: Context, offset: Iterable[Part]) -> tuple[list[Part], list[Part]]:
    """Splits an offset into parts that are constant in a row, and the others, constants included."""
    outside = sum([ctx.analysis.axis_bits[axis.symbol] for axis in ctx.kernel.parallel_axes])
    split: tuple[list[Part], list[Part]] = ([], [])
    for part in offset:
        split[not part[1] or bool(ctx.analysis.atoms_axes(part[1]) & ~outside)].append(part)
    return split


def row_address(ctx: Context, buffer: Buffer, bit: str, base: list[Part], scope: Scope) -> tuple[str, list[Part]]:
    """The address of a row's first element, and the parts of the offset within the row.

    The row lies in scratch memory if the i64 `bit` is 0, else in the result.
    """
    scratch = ctx.row_scratch.get(buffer)
    if scratch is None:
        is_used = ctx.entry.let(f"icmp eq i64 {bit}, 0")
        scratch = ctx.row_scratch[buffer] = is_used, ctx.allocate("i8", Target.NEAR_CACHE_BYTES)
    outside, inside = _split_offset(ctx, base)
    home = ctx.hoist(ctx.analysis.atoms_axes([atom for _, atoms in outside for atom in atoms]), 0, scope)
    key = ("row", buffer, tuple(outside))
    address = home.sizes.get(key)
    if address is None:
        memory, total = shape_of(buffer.type.dtype).memory, sizes.sum_text(ctx, outside, home)
        in_result = home.let(f"getelementptr {memory}, ptr {ctx.base(buffer)}, i64 {total}")
        address = home.sizes[key] = home.let(f"select i1 {scratch[0]}, ptr {scratch[1]}, ptr {in_result}")
    return address, inside
