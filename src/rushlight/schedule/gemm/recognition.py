"""Recognises matrix products by their loop structure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.ir.dtype import float32, float64
from rushlight.ir.loops import Definition, ScatterDefinition
from rushlight.ir.scalar import BLOCKED, OPS, Scalar, apply, cast, constant, contract
from rushlight.schedule.gemm.matrices import Axes, count, made_format, matrices
from rushlight.schedule.lower.constants import is_constant
from rushlight.schedule.lower.nodes import Node
from rushlight.schedule.lower.rewrite import Substitution, as_size, free_axes, index_exprs, linear_offset, rebuild
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    eq,
    floordiv,
    parts,
    product,
    statically_known,
)
from rushlight.term import postorder
from rushlight.term import substitute as replace_terms

# The least multiplications and columns for which the GEMM template pays. An unknown size counts as large, because the
# artifact serves all sizes.
MIN_WORK = 16384
MIN_COLUMNS = 8
# The least length of the sums for which a transposed result pays.
MIN_INNER = 64
# With fewer rows, packing `b` at each call does not pay: it must be a matrix in memory or constant. Computing it in a
# prologue does not pay either, unless by columns, which other kernels read with long strides.
MIN_ROWS = 4


@dataclass(frozen=True, slots=True)
class GemmShape:
    """A contraction seen as C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n].

    Each letter is a set of axes; all but `inner` may be empty. A and B are swapped if there are few columns. `parted`
    maps axes of the node that are split in two to sizes made of axes of this shape.
    """

    batch: tuple[SizeExpr, ...]
    rows: tuple[SizeExpr, ...]
    columns: tuple[SizeExpr, ...]
    inner: tuple[SizeExpr, ...]
    a: Scalar
    b: Scalar
    parted: tuple[tuple[SizeExpr, Size], ...] = ()


def settle_products(definitions: list[Definition | ScatterDefinition], products: frozenset[str]) -> None:
    """Makes products of one step pointwise, and widens elements that the target cannot multiply.

    Both are exact.
    """
    for position, definition in enumerate(definitions):
        if isinstance(definition, Definition):
            definitions[position] = Definition(
                definition.buffer,
                definition.axes,
                _with_wide_products(_without_single_steps(definition.body), products),
            )


def _without_single_steps(body: Scalar) -> Scalar:
    """A body whose contractions of one step are pointwise, so that they fuse as such; a sum begins at +0."""
    single = [
        term
        for term in postorder([body])
        if term.op is OPS["contract"] and not term.type.is_complex and count(term.attr("axes")) == 1
    ]
    return replace_terms([body], {term: _only_step(term) for term in single}, rebuild)[0] if single else body


def _only_step(term: Scalar) -> Scalar:
    at = Substitution(dict.fromkeys(term.attr("axes"), 0))
    a, b = (cast(at(operand), term.type) for operand in term.operands)
    return apply("fma", a, b, constant(0.0, term.type)) if term.type.is_floating_point else apply("mul", a, b)


def _with_wide_products(body: Scalar, products: frozenset[str]) -> Scalar:
    narrow = [
        term
        for term in postorder([body])
        if term.op is OPS["contract"]
        and term.operands[0].type is not term.type
        and term.operands[0].type.name not in products
    ]
    return replace_terms([body], {term: _widened(term) for term in narrow}, rebuild)[0] if narrow else body


def _widened(term: Scalar) -> Scalar:
    a, b = (cast(operand, term.type) for operand in term.operands)
    return contract(term.attr("axes"), a, b, term.attr("order"))


def match_gemm(node: Node) -> GemmShape | None:
    """The GEMM of a node, or None for a small one. The order of the sum is the same either way.

    A product of narrow elements is always a GEMM: other kernels have no instruction for it.
    """
    contraction = node.contraction
    if contraction is None or contraction.attr("order") != BLOCKED:
        return None
    a, b = contraction.operands
    if a.type not in (float32, float64) and a.type is contraction.type:
        return None
    return _as_product(contraction, node.axes, a, b) or _of_groups(contraction, node.axes)


def _of_groups(contraction: Scalar, axes: tuple[SizeExpr, ...]) -> GemmShape | None:
    """Finds the GEMM of a contraction whose indices divide an axis into groups (grouped convolution).

    There an output channel is a group, which both operands depend on, and a channel in the group, which only the
    weights depend on. The axis is split into these two.
    """
    parted = _parted_axes(contraction, axes)
    if not parted:
        return None
    images = {axis: group * axis_size(within) + within for axis, (group, within) in parted.items()}
    a, b = (Substitution(images)(operand) for operand in contraction.operands)
    new = tuple([part for axis in axes for part in parted.get(axis, (axis,))])
    shape = _as_product(contraction, new, a, b)
    return None if shape is None else replace(shape, parted=tuple(images.items()))


def _parted_axes(contraction: Scalar, axes: Axes) -> dict[SizeExpr, tuple[SizeExpr, SizeExpr]]:
    """The group axis and the inner axis of each axis that indices divide by a group's size."""
    halves: dict[SizeExpr, tuple[SizeExpr, SizeExpr]] = {}
    for expr in index_exprs(contraction.operands):
        for _, atoms in parts(expr):
            for atom in atoms:
                if atom.op.name != "floordiv" or atom.operands[0] not in axes or atom.operands[0] in halves:
                    continue
                axis, width = atom.operands
                groups = _quotient(axis_size(axis), width)
                if groups is not None:
                    halves[axis] = axis_symbol(groups, "g"), axis_symbol(width, "w")
    return halves


def _quotient(size: Size, width: Size) -> Size | None:
    """A size divided by a width if the division is exact, else None."""
    quotient = floordiv(size, width)
    if isinstance(width, SizeExpr) and width.op.name == "floordiv" and width.operands[0] is size:
        quotient = width.operands[1]
    return quotient if statically_known(eq(quotient * width, size)) else None


def _as_product(contraction: Scalar, axes: tuple[SizeExpr, ...], a: Scalar, b: Scalar) -> GemmShape | None:
    """The GEMM of a contraction of `a` and `b` over its own axes, for given result axes."""
    inner = contraction.attr("axes")
    in_a, in_b = free_axes(a), free_axes(b)
    batch = tuple([axis for axis in axes if (axis in in_a) == (axis in in_b)])
    rows = tuple([axis for axis in axes if axis in in_a and axis not in in_b])
    columns = tuple([axis for axis in axes if axis in in_b and axis not in in_a])
    if axes and axes[-1] in rows:  # the contiguous axis of the result becomes the columns
        a, b, rows, columns = b, a, columns, rows
    m, n, k = count(rows), count(columns), count(inner)
    if _is_below(n, MIN_COLUMNS) and not _is_below(m, MIN_COLUMNS) and not _is_below(k, MIN_INNER):
        a, b, rows, columns, m, n = b, a, columns, rows, n, m
    shape = GemmShape(batch, rows, columns, inner, a, b)
    if a.type is not contraction.type:
        return shape
    if _is_below(n, MIN_COLUMNS) or _is_below(product((m, n, k)), MIN_WORK):
        return None
    is_used = is_constant(b, (*batch, *inner, *columns)) or _is_matrix(b, batch, inner, columns)
    if _is_below(m, MIN_ROWS) and not is_used and made_format(b, inner, columns) == "row":
        return None
    return shape


def _is_matrix(term: Scalar, batch: Axes, inner: Axes, columns: Axes) -> bool:
    """Whether an operand is a load of matrices in memory, with all batch axes walked as one, or none."""
    if term.op is not OPS["load"]:
        return False
    offset = as_size(linear_offset(term.operands, term.attr("buffer").type.strides))
    return offset is not None and matrices(term.attr("buffer"), offset, (batch, ()), inner, columns) is not None


def _is_below(size: Size, least: int) -> bool:
    return isinstance(size, int) and size < least
