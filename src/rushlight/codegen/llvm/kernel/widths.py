"""How many lanes the vectors of a loop have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from rushlight.codegen.llvm.builder.analysis import CONSTANT, INDEX, LOAD, statement_scalars
from rushlight.codegen.llvm.builder.scope import Context
from rushlight.codegen.llvm.builder.sizes import Offset
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.kernel.row_segments import lane_step
from rushlight.ir.dtype import DType
from rushlight.ir.kernel import Statement, Store
from rushlight.ir.scalar import Scalar, bound_axes
from rushlight.ir.target import Target
from rushlight.sym import SizeExpr, axis_size, bounds
from rushlight.term import postorder

# Terms per element up to which 4, or 2, vectors at once pay: 1.25x on exp, for the latency of its chain of fma.
_LIGHT, _MIDDLING = 50, 90
_LIGHT_IN_FEW_REGISTERS = 50


def value_terms(roots: Iterable[Scalar]) -> Iterator[Scalar]:
    """The terms of roots without those that only make up addresses."""
    return postorder(roots, lambda term: () if term.op is LOAD else term.operands)


def widest(dtypes: Iterable[DType]) -> int:
    """The bytes of the widest float, or of the widest element if there is no float."""
    floats = others = 1
    for dtype in dtypes:
        if dtype.is_floating_point:
            floats = max(floats, dtype.itemsize)
        else:
            others = max(others, dtype.itemsize)
    return floats if floats > 1 else others


def register_lanes(ctx: Context, terms: Iterable[Scalar], axes: int, dtypes: Iterable[DType] = ()) -> int:
    """The lanes of one vector register for the terms that depend on the axes."""
    free = ctx.analysis.free
    dtypes_of_terms = [term.type for term in terms if free[term] & axes and term.op is not INDEX]
    return min(ctx.target.vector_bytes // widest([*dtypes_of_terms, *dtypes]), Target.MOST_LANES)


def work(ctx: Context, terms: Iterable[Scalar], axes: int) -> int:
    """The number of terms computed per element of the axes, loads not counted."""
    free = ctx.analysis.free
    return sum([1 for term in terms if free[term] & axes and term.op is not LOAD and term.op is not CONSTANT])


def vectors_at_once(cost: int) -> int:
    """How many vectors of a body of some cost to work on at once, registers permitting."""
    return 4 if cost <= _LIGHT else 2 if cost <= _MIDDLING else 1


def is_light(cost: int, target: CodeTarget) -> bool:
    """Whether four vectors of a body at once fit in registers."""
    return cost <= (_LIGHT if target.registers >= 32 else _LIGHT_IN_FEW_REGISTERS)


def loop_lanes(
    ctx: Context,
    statements: tuple[Statement, ...],
    axis: SizeExpr,
    extent: int | None,
    uniform: Collection[SizeExpr] = (),
) -> tuple[int, int]:
    """Chooses the vector lanes of the main loop and of the tail. `extent` is the iterations, if constant.

    The main loop's are no more than there can be iterations. `uniform` quotients do not change in a turn of the loop.
    """
    bit = ctx.analysis.axis_bits[axis]
    terms = list(value_terms(statement_scalars(statements)))
    stored = [statement.buffer.type.dtype for statement in statements if isinstance(statement, Store)]
    narrow = register_lanes(ctx, _most_repeated(ctx, terms, bit), bit, stored)
    if extent is not None and extent < narrow:
        narrow = 1 << max(extent - 1, 1).bit_length()
    cost = work(ctx, terms, bit)
    wide = 4 if is_light(cost, ctx.target) else min(vectors_at_once(cost), 2)
    for term in terms:
        if bound_axes(term) and ctx.analysis.free[term] & bit:
            wide = min(wide, 1 if bound_axes(term) and term.attr("order").lanes > 1 else 4)
        elif term.op is LOAD and not _walks_by_one(ctx, term, bit, uniform):
            wide = 1
    wide = min(narrow * wide, Target.MOST_LANES)
    most = bounds(axis_size(axis))[1] if extent is None else extent
    while most is not None and wide > narrow and wide > most:
        wide //= 2
    return max(wide, narrow), narrow


def _most_repeated(ctx: Context, terms: list[Scalar], bit: int) -> list[Scalar]:
    """Selects the terms computed for each element of a reduction along an axis. It returns all if there are none."""
    repeated: list[Scalar] = []
    for term in terms:
        if bound_axes(term) and ctx.analysis.free[term] & bit:
            own = sum([ctx.analysis.axis_bits[axis] for axis in bound_axes(term)])
            repeated += [inner for inner in value_terms(term.operands) if ctx.analysis.free[inner] & own]
    return repeated or terms


def least_bytes(ctx: Context, statements: tuple[Statement, ...]) -> int:
    """The bytes of the narrowest element that is loaded or stored."""
    loaded = [term.type.itemsize for term in value_terms(statement_scalars(statements)) if term.op is LOAD]
    stored = [statement.buffer.type.dtype.itemsize for statement in statements if isinstance(statement, Store)]
    return min([*loaded, *stored], default=1)


def _walks_by_one(ctx: Context, term: Scalar, bit: int, uniform: Collection[SizeExpr]) -> bool:
    if not ctx.analysis.free[term] & bit:
        return True
    for operand in term.operands:
        split = Offset(operand)
        if any(ctx.analysis.free[index] & bit for _, index in split.data):
            return False
        if operand.op is INDEX and lane_step(ctx, operand.attr("expr"), bit, uniform) != 1:
            return False
    return True
