"""Reductions that end where their guard does: the loops of ragged data.

`reduce over k < n: guard(k < end, element, identity)`, where memory holds the `end`, has the bits of a reduction of
the first `end` elements: the others add the identity. So a loop may stop there. The same holds of a `select`, as
a program's own mask is.
"""

from __future__ import annotations

from rushlight.ir.scalar import OPS, Scalar, bound_axes, constant, identity
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size, coefficient, depends_on
from rushlight.term import postorder

REDUCE, GUARD, SELECT, LESS, INDEX = (OPS[name] for name in ("reduce", "guard", "select", "lt", "index"))


@frozen
class RaggedEnd:
    """Elements are `element` at those values of `axis` where `axis + before` is below `limit`."""

    axis: SizeExpr
    before: Size
    limit: Scalar
    element: Scalar


def ragged_end(term: Scalar) -> RaggedEnd | None:
    """Where a reduction ends by its own guard, or None if it runs over its whole axes."""
    axes = [axis for axis in bound_axes(term) if axis_size(axis) != 1]
    if term.op is not REDUCE or len(axes) != 1 or term.operands[0].op not in (GUARD, SELECT):
        return None
    condition, element, otherwise = term.operands[0].operands
    neutral = constant(identity(term.attr("kind"), otherwise.type), otherwise.type)
    if otherwise is not neutral or condition.op is not LESS:
        return None
    position, limit = condition.operands
    (axis,) = axes
    if position.op is not INDEX or limit.op is INDEX or mentions(limit, axis):
        return None
    expr: SizeExpr = position.attr("expr")
    if coefficient(expr, axis) != 1 or depends_on(before := expr - axis, axis):
        return None
    return RaggedEnd(axis, before, limit, element)


def mentions(scalar: Scalar, axis: SizeExpr) -> bool:
    """Whether a scalar has another value for another value of an axis."""
    return any(depends_on(term.attr("expr"), axis) for term in postorder([scalar]) if term.op is INDEX)
