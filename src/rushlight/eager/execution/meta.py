"""The META key: tensors without data, whose sizes may be symbols. Only types are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.eager.dispatch import Key, register_fallback
from rushlight.eager.execution.decompose import run_decomposition
from rushlight.eager.execution.operands import form_of_operand
from rushlight.eager.execution.views import runs_in_parts, view_plan
from rushlight.eager.handle import Handle, fit_empty, make
from rushlight.eager.mutation import Mutation
from rushlight.eager.tensor_meta import form_of_type
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
    return typed_result(op, operands, attrs)


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
