"""Views: results that share their operand's storage. No kernel runs; the result remembers how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.eager.dispatch import STATE, Memo
from rushlight.eager.execution.operands import attribute_key
from rushlight.eager.handle import AUTOGRAD, Handle, Step, View, make_view
from rushlight.eager.tensor_meta import TensorMeta, form_of
from rushlight.ir.type import Layout, in_elements_of
from rushlight.ir.value import map_operands
from rushlight.ops.record import OPERATORS, Fact, Operator, calls_host
from rushlight.support.errors import require
from rushlight.term import attr_key

_MOST = 4096


class Shown(NamedTuple):
    """The form of a view, and how far its first element is from its base's.

    `distance` is in elements of the view, which are as wide as its base's if `same_width`. `checked`: it may reach
    outside of its base, and so perhaps of the storage.
    """

    form: TensorMeta
    distance: Any
    checked: bool
    same_width: bool


class DirectView(NamedTuple):
    """A view by its form and how far it begins past its base, in elements.

    Without `steps` it is cut off from the base's history. Of a view that is `strided`, steps lead from the base.
    """

    form: TensorMeta
    distance: int
    steps: tuple[Step, ...]
    strided: bool


# Of traces alone: who calls the plans of eager calls again keeps them whole.
_shown: Memo[Shown] = Memo(_MOST)


class ViewPlan:
    """What a view of one kind of tensor shows, and the step that makes it."""

    __slots__ = ("_differentiable", "_shown", "_step", "_strided")

    def __init__(self, step: Step, shown: Shown) -> None:
        self._step = step
        self._shown = shown
        self._differentiable = Fact.NONDIFFERENTIABLE not in step[0].facts
        self._strided = Fact.STRIDED in step[0].facts

    def call(self, operands: tuple[Any, ...]) -> Any:
        """The view of the first operand."""
        base = operands[0]
        form, distance, checked, same_width = self._shown
        start = base.offset if same_width else in_elements_of(form.dtype, base.offset, base.form.dtype)
        offset = start + distance
        if checked and form.numel and base.backing is not None:
            end = (offset + form.extent) * form.dtype.itemsize
            require(offset >= 0 and end <= base.backing.nbytes, "S012", "a view reaches outside its storage", base=base)
        result = make_view(base, form, offset)
        self.relate(base, result)
        return result

    @property
    def direct(self) -> DirectView | None:
        """The view, where nothing has to be asked about an operand that has data; None for others."""
        form, distance, checked, same_width = self._shown
        if checked or not same_width or form.symbolic or not isinstance(distance, int):
            return None
        return DirectView(form, distance, (self._step,) if self._differentiable else (), self._strided)

    def relate(self, base: Handle, result: Handle) -> None:
        """Writes down how the view was made, so that histories follow writes to it and to its base."""
        if not self._differentiable:
            return
        before: View | None = base.view_of
        if before is None:  # of most views: not by `viewed`, to save a call
            result.view_of = View(
                base, (self._step,), STATE.grad, 0 if base.gradient is None else base.gradient.rebases
            )
        elif self._strided and before.base.form.dtype.itemsize == result.form.dtype.itemsize:
            result.view_of = _viewed_by_strides(before, result)
        else:  # where widths differ, offsets in the base are no offsets in the view
            result.view_of = viewed(base, self._step)
        result.keys |= AUTOGRAD  # its base may get a history at any time


def viewed(base: Handle, step: Any) -> View:
    """The view record of `base` after one more step.

    If `base` is a view itself, the record refers to the tensor that `base` is a view of.
    """
    before = base.view_of
    if before is None:
        return View(base, (step,), STATE.grad, 0 if base.gradient is None else base.gradient.rebases)
    return View(before.base, (*before.steps, step), STATE.grad and before.recorded, before.rebases)


def _viewed_by_strides(before: View, result: Handle) -> View:
    """How a view by strides of a view shows its base: directly, since it may leave the elements that the view shows."""
    base, form = before.base, result.form
    attrs = {"size": form.shape, "stride": form.strides, "storage_offset": result.offset - base.offset}
    strided: Step = (OPERATORS["as_strided"], (), attrs)
    same = form.dtype is base.form.dtype
    steps = (strided,) if same else ((OPERATORS["view_dtype"], (), {"dtype": form.dtype}), strided)
    return View(base, steps, STATE.grad and before.recorded, before.rebases)


def view_plan(op: Operator, operands: tuple[Handle, ...], attrs: Mapping[str, object]) -> ViewPlan | None:
    """The plan of a call whose result shares the first operand's storage; None where it does not."""
    if op.view_rule is None:
        return None
    form: TensorMeta = operands[0].form
    types = map_operands(operands[1:], lambda operand: operand.form.type if isinstance(operand, Handle) else operand)
    key = (op, form, attr_key(types), attribute_key(attrs))
    shown = _shown.get(key)
    if shown is None:
        shown = _what_is_shown(op, form, types, attrs)
        if shown is None:
            return None
        _shown.put(key, shown, symbolic=True)
    return ViewPlan((op, operands[1:], dict(attrs)), shown)


def _what_is_shown(
    op: Operator, form: TensorMeta, types: tuple[object, ...], attrs: Mapping[str, object]
) -> Shown | None:
    assert op.view_rule is not None
    layout: Any = op.view_rule(**op.named((Layout(form.type.shape, form.strides, 0, form.dtype), *types), attrs))
    if layout is None:
        return None
    shown = form_of(layout.shape, layout.dtype or form.dtype, form.device, layout.strides, form.type.weak)
    distance: Any = layout.offset
    decided = not form.symbolic and not shown.symbolic and isinstance(distance, int)
    end = (distance + shown.extent) * shown.dtype.itemsize if decided else 0
    checked = decided and (distance < 0 or end > form.extent * form.dtype.itemsize)
    return Shown(shown, distance, checked, shown.dtype.itemsize == form.dtype.itemsize)


def runs_in_parts(op: Operator, operands: Sequence[object], attrs: Mapping[str, object]) -> bool:
    """Whether a call of a composite runs call by call.

    Its result may share storage, and only the decomposition says how, or the host runs some of its calls.
    """
    if op.view_rule is not None or op.decompose_rule is None:
        return False
    return calls_host(op, operands, attrs) or op.schema.results[0].alias is not None
