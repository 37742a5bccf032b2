"""How calls of control flow run: which of their graphs, and how often. Graphs are functions of lists of operands."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from rushlight.eager.handle import Handle, allocate, make_view
from rushlight.eager.memory import array_of
from rushlight.eager.tensor_meta import TensorMeta, form_of
from rushlight.ops import control
from rushlight.support.errors import fail
from rushlight.term import Op

Body = Callable[[Sequence[object]], list[Handle]]
Bind = Callable[[Sequence[object]], Body]
"""What runs a graph on operands of the same forms as those that it is given."""


def run_cond(
    predicate: Handle, operands: Sequence[object], branches: tuple[Bind, Bind], types: object, sizes: object
) -> list[Handle]:
    """The results of one branch."""
    return branches[0 if array_of(predicate) else 1](operands)(operands)


def run_while(
    carries: Sequence[Handle], others: Sequence[object], bodies: tuple[Bind, Bind], types: object, sizes: object
) -> list[Handle]:
    """What is carried once the condition is false."""
    values = list(carries)
    operands = [*values, *others]
    condition, step = bodies[0](operands), None
    while array_of(condition(operands)[0]):
        if step is None:
            step = bodies[1](operands)
        values = step(operands)
        _require_same(carries, values)
        operands = [*values, *others]
    return values


def run_scan(
    carries: Sequence[Handle],
    xs: Sequence[Handle],
    others: Sequence[object],
    body: Bind,
    types: Sequence[Callable[[], TensorMeta]],
    length: int,
    reverse: bool,
    sizes: object,
) -> list[Handle]:
    """The last carried values, then outputs, which are put in their places step by step."""
    count = len(carries)
    values: Sequence[Handle] = list(carries)
    stacked = [allocate(type_()) for type_ in types[count:]]
    destinations = [(y.address(), y.form.nbytes // max(length, 1)) for y in stacked]
    sources = [_slices(x) for x in xs]
    step: Body | None = None
    for index in reversed(range(length)) if reverse else range(length):
        operands = [*values, *[part(index) for part in sources], *others]
        if step is None:
            step = body(operands)
        outputs = step(operands)
        values = outputs[:count]
        _require_same(carries, values)
        for (address, size), output in zip(destinations, outputs[count:], strict=True):
            ctypes.memmove(address + index * size, output.address(), size)
    return [*values, *stacked]


def _require_same(carries: Sequence[Handle], values: Sequence[Handle]) -> None:
    """What is carried has the form that the body was made for."""
    for before, after in zip(carries, values, strict=True):
        if before.form is not after.form and not _alike(before.form, after.form):
            fail("X001", "a loop carries a value of another form", before=before, after=after)


def _alike(one: TensorMeta, other: TensorMeta) -> bool:
    return one.shape == other.shape and one.dtype is other.dtype and (one.is_contiguous and other.is_contiguous)


def _slices(tensor: Handle) -> Callable[[int], Handle]:
    """The slices of a tensor that lies row by row."""
    form = tensor.form
    part = form_of(tuple(form.shape[1:]), form.dtype, form.device)
    return lambda at: make_view(tensor, part, tensor.offset + at * part.numel)


DRIVERS: Mapping[Op, Callable[..., list[Handle]]] = MappingProxyType(
    {control.cond: run_cond, control.while_loop: run_while, control.scan: run_scan}
)
"""What runs a call, by its operator."""
