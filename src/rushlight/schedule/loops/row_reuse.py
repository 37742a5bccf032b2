"""Reuses expensive values of a row: a reduction writes its elements where the results will be.

A softmax sums exponentials and then divides each by the sum. Computing an exponential takes as long as reading ten
numbers, so the loop of the sum stores them in the result, and the last loop reads them there.
"""

from __future__ import annotations

from rushlight.ir.dtype import float32, float64
from rushlight.ir.scalar import OPS, Scalar, bound_axes, keep, load
from rushlight.schedule.loops.nest import LoopNest, NestStore
from rushlight.schedule.lower.rewrite import Substitution, free_axes, loads, rebuild
from rushlight.sym import SizeExpr, axis_size
from rushlight.term import interned, postorder
from rushlight.term import substitute as replace_terms

# Elements of fewer terms are recomputed instead.
HEAVY_TERMS = 12


def spill_row_values(nest: LoopNest) -> None:
    """Lets reductions store the elements that the stores of their rows would recompute."""
    read = {term.attr("buffer") for root in nest.roots() for term in loads(root)}
    for store in nest.stores:
        result = _reusable_reduction(store) if store.where is None and store.buffer not in read else None
        if result is None:
            continue
        reduction, axis = result
        (element,) = reduction.operands
        (inner,) = store.inner
        again = Substitution({axis: inner})(element)
        offset = Substitution({inner: axis})(store.offset)
        kept = interned(Scalar, reduction.op, (keep(element, store.buffer, offset),), reduction.attrs, reduction.type)
        waiting = load(store.buffer, store.offset)
        for other in nest.stores:
            images = {again: waiting} if other.inner == store.inner else {}
            if not _is_guarded(reduction, other.value):
                images[reduction] = kept
            (other.value,) = replace_terms([other.value], images, rebuild)


def _reusable_reduction(store: NestStore) -> tuple[Scalar, SizeExpr] | None:
    """A reduction over a store's row, and its axis, whose expensive elements the stored value reuses."""
    if len(store.inner) != 1 or store.buffer.type.dtype not in (float32, float64):
        return None
    (inner,) = store.inner
    outside = set(postorder([store.value], lambda term: () if bound_axes(term) else term.operands))
    for term in postorder([store.value]):
        axes = bound_axes(term)
        if term.op is not OPS["reduce"] or len(axes) != 1 or axis_size(axes[0]) != axis_size(inner):
            continue
        (element,) = term.operands
        kept = element.type is store.buffer.type.dtype and _is_heavy(element, axes[0])
        kept = kept and not _is_guarded(term, store.value)
        if kept and inner not in free_axes(term) and Substitution({axes[0]: inner})(element) in outside:
            return term, axes[0]
    return None


def _is_guarded(reduction: Scalar, value: Scalar) -> bool:
    """Whether a value has a reduction behind a condition, where it runs after results have been stored."""
    guards = [term for term in postorder([value]) if term.op is OPS["guard"]]
    return any(reduction in postorder([guard]) for guard in guards)


def _is_heavy(element: Scalar, axis: SizeExpr) -> bool:
    terms = [term for term in postorder([element]) if term.operands and term.op is not OPS["load"]]
    return len(terms) >= HEAVY_TERMS and axis in free_axes(element)
