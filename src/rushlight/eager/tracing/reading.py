"""Asking a traced tensor for its value: integers are sizes from then on, floats are values that stay in the graph."""

from __future__ import annotations

from typing import Any

from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle, fail_without_data
from rushlight.eager.symbols import SymBool, SymInt, wrap_size
from rushlight.ir.dtype import Kind
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require
from rushlight.sym import ne, optimization_hint


def traced_item(tensor: Handle) -> Any:
    """The one element: a SymInt or SymBool, or for floats a tensor that counts as a Python number. Errors: S015."""
    require(wrap_size(tensor.form.numel) == 1, "S015", "item: the tensor has several elements, or none", tensor=tensor)
    flat: Any = OPERATORS["reshape"](tensor, ())
    kind = tensor.form.dtype.kind
    if kind is Kind.INT:
        return SymInt(STATE.tracer.size(flat))
    if kind is Kind.BOOL:
        return SymBool(ne(STATE.tracer.size(flat), 0))
    return OPERATORS["as_number"](flat) if kind is Kind.FLOAT else fail_without_data(tensor)


def traced_list(tensor: Handle) -> list[Any]:
    """The elements as nested lists of what `traced_item` gives; how many there are is guarded. C002 for too many."""
    if optimization_hint(tensor.form.numel) > STATE.tracer.most_elements:
        fail("C002", "a traced program asks for the elements of a long tensor", tensor=tensor, hint="keep to operators")
    int(wrap_size(tensor.form.shape[0]))
    items = OPERATORS["unbind"](tensor, 0)
    return [traced_item(element) if not element.form.shape else traced_list(element) for element in items]


def needed_now(tensor: Any) -> Any:
    """The one element, which Python itself needs; C002 where it is known only when the program runs."""
    value = tensor.item()
    if isinstance(value, Handle):
        hint = "keep it a tensor, or what item() gives; select with rl.where, or branch with rl.cond"
        origin = STATE.tracer.origin(tensor)
        message = "the value of a tensor is known only when the program runs"
        fail("C002", message, tensor=tensor, made_by=origin, hint=hint)
    return value
