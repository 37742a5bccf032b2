"""Values of a row that are kept: a reduction's elements, where the result needs them again, wait in the result's place.

A softmax sums exponentials and then divides each by the sum. To compute an exponential takes as long as to read ten
numbers, so the sum's loop writes them where the results will be, and the last loop reads them there.
"""

from __future__ import annotations

from rushlight.ir.dtype import float32, float64
from rushlight.ir.scalar import OPS, Scalar, bound_axes, keep, load
from rushlight.schedule.loops.kernels import Item, Nest
from rushlight.schedule.lower.rewrite import Substitution, free_axes, loads, rebuild
from rushlight.sym import SizeExpr, axis_size
from rushlight.term import interned, postorder
from rushlight.term import substitute as replace_terms

# Elements of fewer terms are computed twice.
HEAVY_TERMS = 12


def spill_row_values(nest: Nest) -> None:
    """Lets reductions keep what the stores of their rows compute again."""
    read = {term.attr("buffer") for root in nest.roots() for term in loads(root)}
    for item in nest.items:
        found = _reusable_reduction(item) if item.buffer not in read else None
        if found is None:
            continue
        reduction, axis = found
        (element,) = reduction.operands
        (inner,) = item.inner
        again = Substitution({axis: inner})(element)
        place = Substitution({inner: axis})(item.offset)
        kept = interned(Scalar, reduction.op, (keep(element, item.buffer, place),), reduction.attrs, reduction.type)
        waiting = load(item.buffer, item.offset)
        for other in nest.items:
            images = {again: waiting} if other.inner == item.inner else {}
            if not _is_guarded(reduction, other.value):
                images[reduction] = kept
            (other.value,) = replace_terms([other.value], images, rebuild)


def _reusable_reduction(item: Item) -> tuple[Scalar, SizeExpr] | None:
    """A reduction over the row of a store, with its axis, whose heavy elements the stored value needs again."""
    if len(item.inner) != 1 or item.buffer.type.dtype not in (float32, float64):
        return None
    (inner,) = item.inner
    outside = set(postorder([item.value], lambda term: () if bound_axes(term) else term.operands))
    for term in postorder([item.value]):
        axes = bound_axes(term)
        if term.op is not OPS["reduce"] or len(axes) != 1 or axis_size(axes[0]) != axis_size(inner):
            continue
        (element,) = term.operands
        kept = element.type is item.buffer.type.dtype and _is_heavy(element, axes[0])
        kept = kept and not _is_guarded(term, item.value)
        if kept and inner not in free_axes(term) and Substitution({axes[0]: inner})(element) in outside:
            return term, axes[0]
    return None


def _is_guarded(reduction: Scalar, value: Scalar) -> bool:
    """Whether a value has a reduction behind a condition, where it is computed again: after results are in place."""
    guards = [term for term in postorder([value]) if term.op is OPS["guard"]]
    return any(reduction in postorder([guard]) for guard in guards)


def _is_heavy(element: Scalar, axis: SizeExpr) -> bool:
    terms = [term for term in postorder([element]) if term.operands and term.op is not OPS["load"]]
    return len(terms) >= HEAVY_TERMS and axis in free_axes(element)
