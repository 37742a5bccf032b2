"""Unrolls short chains: sums of few products, as in depthwise convolutions, and extremes over windows.

What does not depend on the vector axis is then computed once for all lanes: kernel elements and conditions on rows stay
in registers, and conditions that are constant for a step disappear.
"""

from __future__ import annotations

from itertools import product as every

from rushlight.ir.dtype import Kind, bool_
from rushlight.ir.scalar import OPS, Scalar, apply, bound_axes, constant, fma
from rushlight.schedule.lower.rewrite import Substitution, as_size, rebuild
from rushlight.sym import axis_size, eq, le, lt, product, statically_known
from rushlight.term import postorder
from rushlight.term import substitute as replace_terms

# Steps of a chain, and terms of all its steps, up to which it is written out.
MOST_STEPS = 64
MOST_TERMS = 1024
_EXTREMES = {"max": "maximum", "min": "minimum"}
_TRUE, _FALSE = constant(True, bool_), constant(False, bool_)
_COMPARISONS = {"lt": lt, "le": le, "eq": eq}


def unroll_chains(roots: list[Scalar]) -> list[Scalar]:
    """The scalars with short contractions, and with extremes of few guarded elements, unrolled."""
    images = {term: _unrolled(term) for term in postorder(roots) if _is_short(term)}
    return list(replace_terms(roots, images, rebuild)) if images else roots


def _is_short(term: Scalar) -> bool:
    """Whether a term is a short reduction, which is worth unrolling.

    It is a contraction of few steps in one chain of one block, or a minimum or maximum of few guarded elements.
    """
    is_extreme = term.op is OPS["reduce"] and term.attr("kind") in _EXTREMES
    if not (is_extreme or term.op is OPS["contract"]):
        return False
    if term.type.kind is not Kind.FLOAT or term.operands[0].type is not term.type:
        return False
    steps = product([axis_size(axis) for axis in bound_axes(term)])
    order = term.attr("order")
    if not isinstance(steps, int) or not 0 < steps <= min(MOST_STEPS, order.block):
        return False
    if term.operands[0].op is not OPS["guard"] if is_extreme else order.lanes > 1:
        return False
    terms = list(postorder(term.operands))
    return steps * len(terms) <= MOST_TERMS and not any(bound_axes(operand) for operand in terms)


def _unrolled(term: Scalar) -> Scalar:
    axes = bound_axes(term)
    sizes = [axis_size(axis) for axis in axes]
    places = every(*[range(size) for size in sizes if isinstance(size, int)])
    steps = [Substitution(dict(zip(axes, index, strict=True))) for index in places]
    elements = [tuple([settled(step(operand)) for operand in term.operands]) for step in steps]
    if term.op is OPS["reduce"]:
        return _in_pairs(_EXTREMES[term.attr("kind")], [element for (element,) in elements])
    zero = total = constant(0, term.type)
    for a, b in elements:
        total = fma(a, b, total)
    return zero + total  # blocks are added to +0.0


def _in_pairs(extreme: str, items: list[Scalar]) -> Scalar:
    """The extreme by a balanced tree, so that dependence chains are short."""
    while len(items) > 1:
        pairs = [apply(extreme, a, b) for a, b in zip(items[::2], items[1::2], strict=False)]
        items = [*pairs, *items[2 * len(pairs) :]]
    return items[0]


def settled(root: Scalar) -> Scalar:
    """A scalar without the conditions on indices whose outcome is known."""
    images: dict[Scalar, Scalar] = {}
    for term in postorder([root]):
        operands = tuple([images[operand] for operand in term.operands])
        constant = _constant_comparison(term)
        if constant is not None:
            images[term] = constant
        elif term.op is OPS["and"] and (_TRUE in operands or _FALSE in operands):
            images[term] = _FALSE if _FALSE in operands else operands[operands[0] is _TRUE]
        elif term.op is OPS["guard"] and operands[0] in (_TRUE, _FALSE):
            images[term] = operands[1 if operands[0] is _TRUE else 2]
        else:
            images[term] = term if operands == term.operands else rebuild(term, operands)
    return images[root]


def _constant_comparison(term: Scalar) -> Scalar | None:
    """The value of a comparison of indices that is constant, else None."""
    compare = _COMPARISONS.get(term.op.name)
    if compare is None:
        return None
    a, b = (as_size(operand) for operand in term.operands)
    if a is None or b is None:
        return None
    order = compare(a, b)
    return _TRUE if statically_known(order) else _FALSE if order is False else None
