"""How calls of control flow run: which of their graphs, and how often. Graphs are functions of lists of operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rushlight.eager.dispatch import dispatch
from rushlight.eager.form import Form, form_of
from rushlight.eager.handle import allocate, make_view
from rushlight.eager.memory import array_of
from rushlight.eager.mutation import COPY
from rushlight.ops import Operator, control

Body = Callable[[Sequence[Any]], list[Any]]


def run_cond(predicate: Any, operands: Sequence[Any], branches: tuple[Body, Body], types: Any, sizes: Any) -> list[Any]:
    """The results of one branch."""
    return branches[0 if array_of(predicate) else 1](operands)


def run_while(
    carries: Sequence[Any], others: Sequence[Any], bodies: tuple[Body, Body], types: Any, sizes: Any
) -> list[Any]:
    """What is carried once the condition is false."""
    goes_on, step = bodies
    values = list(carries)
    while array_of(goes_on([*values, *others])[0]):
        values = step([*values, *others])
    return values


def run_scan(
    carries: Sequence[Any],
    xs: Sequence[Any],
    others: Sequence[Any],
    body: Body,
    types: Sequence[Callable[[], Form]],
    length: int,
    reverse: bool,
    sizes: Any,
) -> list[Any]:
    """The last carried values, then outputs; each step writes its own into their memory."""
    count = len(carries)
    values = list(carries)
    stacked = [allocate(type_()) for type_ in types[count:]]
    sources, targets = [_slices(x) for x in xs], [_slices(y) for y in stacked]
    for at in reversed(range(length)) if reverse else range(length):
        made = body([*values, *[part(at) for part in sources], *others])
        values = made[:count]
        for part, output in zip(targets, made[count:], strict=True):
            dispatch(COPY, (part(at), output), {})
    return [*values, *stacked]


def _slices(tensor: Any) -> Callable[[int], Any]:
    """The slices of a tensor that lies row by row."""
    form: Form = tensor.form
    part = form_of(tuple(form.shape[1:]), form.dtype, form.device)
    return lambda at: make_view(tensor, part, tensor.offset + at * part.numel)


DRIVERS: Mapping[Operator, Callable[..., list[Any]]] = MappingProxyType(
    {control.cond: run_cond, control.while_loop: run_while, control.scan: run_scan}
)
"""What runs a call, by its operator."""
