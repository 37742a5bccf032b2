"""The META key: tensors without data, whose sizes may be symbols. Only types are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.eager.dispatch import STATE, Key, call_below, register_fallback
from rushlight.eager.execution.decompose import run_decomposition
from rushlight.eager.execution.operands import form_of_operand
from rushlight.eager.execution.views import runs_in_parts, view_plan
from rushlight.eager.handle import Handle, allocate, fail_without_data, fit_empty, make
from rushlight.eager.mutation import Mutation
from rushlight.eager.tensor_meta import form_of, form_of_type
from rushlight.ir.type import META as META_DEVICE
from rushlight.ir.value import map_operands
from rushlight.ops.record import Operator


def run_on_meta(op: Any, active: int, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
    """The boxed kernel that answers every operator at the META key."""
    if op.__class__ is Mutation:
        target: Handle = op.target_of(operands)
        types = types_of(op.base_operands(operands))
        value = types[0] if op.base is None else op.base.infer(types, attrs)
        if op.out:
            fit_empty(target, value.shape)
        op.check(target.form.type, value)
        target.version.value += 1
        return target
    plan = view_plan(op, operands, attrs)
    if plan is not None:
        return plan.call(operands)
    if runs_in_parts(op, operands, attrs):
        return run_decomposition(op, Key.META, operands, attrs)
    if attrs.get("device") not in (None, META_DEVICE) and STATE.tracer is None and op.schema.parameters[0].is_operand:
        like: Handle = operands[0]
        if like.form.device == META_DEVICE:
            return _made_elsewhere(op, like, operands[1:], attrs)
    return typed_result(op, operands, attrs)


def _made_elsewhere(op: Operator, like: Handle, others: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """A tensor with data in the shape of one without, as `zeros_like(x, device="cpu")` makes it.

    Errors: V003 where elements are asked for as well.
    """
    without = [one for one in others if isinstance(one, Handle) and one.backing is None]
    if without:
        fail_without_data(without[0])
    form = form_of(like.form.shape, like.dtype, attrs["device"], like.form.strides, like.form.type.weak)
    shaped: Handle = allocate(form)
    return call_below(Key.META, op, shaped.keys, (shaped, *others), attrs)


def typed_result(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The result without data."""
    result = op.infer(types_of(operands), attrs)
    if isinstance(result, tuple):
        return tuple([make(None, form_of_type(type_)) for type_ in result])
    return make(None, form_of_type(result))


def types_of(operands: tuple[object, ...]) -> tuple[Any, ...]:
    """The operands' types."""
    return map_operands(operands, lambda operand: form_of_operand(operand).type)


register_fallback(Key.META, run_on_meta, leaf=True)
