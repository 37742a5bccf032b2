"""Operands as flat lists: tensors and numbers in order, tensor lists opened, absent ones left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rushlight.eager.handle import Handle
from rushlight.eager.tensor_meta import TensorMeta, form_of
from rushlight.ir.dtype import bool_, complex128, float64, int64
from rushlight.ir.type import CPU, TensorType
from rushlight.support.errors import error
from rushlight.term import attr_key

# The forms of Python numbers as operands.
NUMBER_FORMS: dict[type, TensorMeta] = {
    kind: form_of((), dtype, weak=True)
    for kind, dtype in ((bool, bool_), (int, int64), (float, float64), (complex, complex128))
}
PLAIN: frozenset[type] = frozenset([type(None), *NUMBER_FORMS])
"""Classes of operands of which plans depend on nothing else."""

_INT = frozenset([int])
Structure = tuple[Any, ...]


def flatten(operands: Sequence[Any]) -> list[Any]:
    """Tensors and numbers in order; None is left out."""
    flat: list[Any] = []
    for operand in operands:
        if operand.__class__ is tuple:
            flat.extend([element for element in operand if element is not None])
        elif operand is not None:
            flat.append(operand)
    return flat


def structure_of(operands: Sequence[object]) -> Structure:
    """What `flatten` forgets: for each operand whether it is there, and how long a list is."""
    return tuple(
        [
            tuple([element is not None for element in operand]) if isinstance(operand, tuple) else operand is not None
            for operand in operands
        ]
    )


def unflatten(structure: Structure, flat: Sequence[object]) -> tuple[Any, ...]:
    """The operands that `flatten` and `structure_of` took apart, rebuilt from other items."""
    items: Iterator[Any] = iter(flat)
    return tuple(
        [
            tuple([next(items) if there else None for there in part])
            if isinstance(part, tuple)
            else next(items)
            if part
            else None
            for part in structure
        ]
    )


def form_key(operand: Any) -> Any:
    """What a plan depends on in one operand: a form, the class of a number, None, or a tuple of these.

    A Form stands for itself in a tuple, since nothing is read of it but sizes.
    """
    if isinstance(operand, Handle):
        return operand.form
    if operand.__class__ is tuple:
        return tuple([form_key(element) for element in operand])
    if operand.__class__ is TensorMeta:
        return (operand,)
    return None if operand is None else number_class(operand)


def number_class(value: object) -> type:
    """bool, int, float or complex, also for subclasses; A001 for anything else."""
    kind = value.__class__
    if kind in NUMBER_FORMS:
        return kind
    for class_ in (bool, int, float, complex):
        if isinstance(value, class_):
            return class_
    raise error("A001", "an operand must be a tensor or a number", value=value)


def form_of_operand(operand: Any) -> TensorMeta:
    """A tensor's form, or that of a number; forms pass."""
    if isinstance(operand, Handle):
        return operand.form
    return operand if operand.__class__ is TensorMeta else NUMBER_FORMS[number_class(operand)]


def types_together(forms: Iterable[TensorMeta], tensors: bool) -> list[TensorType]:
    """The types of operands: numbers, and `tensors` of the CPU's without dims, are where the others are.

    They go along with these; what a rule makes of them alone, as an expanded one, goes nowhere else. See `replay`.
    """
    types = [form.type for form in forms]
    device = next((type_.device for type_ in types if type_.device != CPU), CPU)
    if device == CPU:
        return types
    return [
        TensorType((), type_.dtype, device, weak=type_.weak)
        if type_.device == CPU and not type_.shape and (tensors or type_.weak)
        else type_
        for type_ in types
    ]


def attribute_key(attrs: Mapping[str, Any]) -> Any:
    """A hashable key of attributes, under which 1, True and 1.0 differ."""
    if not attrs:
        return ()
    parts: list[Any] = []
    for name, value in attrs.items():
        kind = value.__class__
        parts.append(name)
        parts.append(kind)
        if kind is float or (kind is tuple and not _INT.issuperset(map(type, value))):
            parts.append(attr_key(value))
        else:
            parts.append(value)
    return tuple(parts)
