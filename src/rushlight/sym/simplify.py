"""Sizes with what a scope knows put in: equalities, and operands of minima and maxima that do not count."""

from __future__ import annotations

from functools import reduce

from rushlight.sym.arithmetic import maximum, minimum
from rushlight.sym.condition import ge, le
from rushlight.sym.equalities import rebuilt
from rushlight.sym.expr import MAXIMUM, MINIMUM, SYMBOL, Size, SizeExpr, atoms_of, terms
from rushlight.sym.query import bottom_up
from rushlight.sym.scope import scope_of


def simplify(e: Size) -> Size:
    """A size that is equal for all values that its scope allows, in the simplest form that is known."""
    scope = scope_of(e)
    e = e if scope is None else scope.resolve(e)
    if isinstance(e, int) or all(atom.op is SYMBOL for product, _ in terms(e) for atom in atoms_of(product)):
        return e
    simplified: dict[SizeExpr, Size] = {}
    for node in bottom_up(e):
        image: Size = node if node.op is SYMBOL else rebuilt(node, simplified.__getitem__)
        while isinstance(image, SizeExpr) and image.op in (MINIMUM, MAXIMUM):
            kept = _without_redundant(image)
            if kept is image:
                break
            image = kept
        simplified[node] = image
    return simplified[e]


def _without_redundant(e: SizeExpr) -> Size:
    """A minimum or maximum without one operand that another makes redundant; itself if there is none."""
    scope, least = scope_of(e), e.op is MINIMUM
    if scope is None:
        return e
    for operand in e.operands:
        others = [other for other in e.operands if other is not operand]
        if any(scope.known(ge(operand, other) if least else le(operand, other)) for other in others):
            return reduce(minimum if least else maximum, others)
    return e
