"""Calls that were made before and need no communication: local call and result, before anything is inferred or chosen.

A prepared call is found by the operator, the operands' forms and specs, and the attributes: by the identity of objects.
It holds for all ranks. While a function is traced nothing is read from the table and nothing is put there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.distributed.tensor.spec import DTensorSpec
from rushlight.eager.dispatch import Key, bit, dispatch
from rushlight.eager.handle import PYTHON, make
from rushlight.eager.tensor_meta import TensorMeta, form_of_type
from rushlight.ir.type import TensorType
from rushlight.ops.record import GENERATION
from rushlight.term import Op, attr_key

_MOST_CALLS = 1 << 14
_CPU = bit(Key.CPU)
_NUMBERS = frozenset((float, int, bool, complex, type(None)))


class Divided:
    """The class of divided tensors and how one is made; set by the module that has the class."""

    kind: Any
    make: Callable[[Any, DTensorSpec, TensorType], Any]


class PreparedCall(NamedTuple):
    """The forms and specs of the results of a call; `several` says whether they are a tuple."""

    results: tuple[tuple[TensorMeta, DTensorSpec], ...]
    several: bool


_calls: dict[tuple[object, ...], PreparedCall] = {}
_generation = [0]
misses = [0]
"""How many calls were looked for and not found."""


def count() -> int:
    """How many calls are prepared."""
    return len(_calls)


def contents() -> str:
    """All prepared calls as text."""
    return repr(_calls)


def forget() -> None:
    """Drops all prepared calls."""
    _calls.clear()


def answer(op: Op, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """Answers a call that is prepared; NotImplemented for others."""
    words: list[object] = [op]
    parts: list[object] = []
    divided = Divided.kind
    for operand in operands:
        cls = operand.__class__
        if cls is divided:
            local = operand._local_tensor
            if local.keys != _CPU:
                return NotImplemented
            words += (operand.form, operand._spec)
            parts.append(local)
        elif cls in _NUMBERS:
            words.append(cls)
            parts.append(operand)
        else:
            return NotImplemented
    if attrs:
        words.append(_attributes_key(attrs))
    found = _calls.get(tuple(words))
    if found is None or _generation[0] != GENERATION[0]:
        misses[0] += 1
        return NotImplemented
    made = dispatch(op, tuple(parts), attrs)
    if not found.several:
        ((form, spec),) = found.results
        return _wrapped(made, form, spec)
    return tuple([_wrapped(local, *result) for local, result in zip(made, found.results, strict=True)])


def _wrapped(local: Any, form: TensorMeta, spec: DTensorSpec) -> Any:
    made = make(None, form, 0, Divided.kind)
    made.keys |= PYTHON
    made._local_tensor = local
    made._spec = spec
    return made


def _attributes_key(attrs: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple([(name, attr_key(value)) for name, value in attrs.items()])


def prepare(
    op: Op,
    operands: tuple[Any, ...],
    attrs: Mapping[str, Any],
    spec: DTensorSpec,
    types: Sequence[TensorType],
    several: bool,
) -> None:
    """Prepares calls like this one, whose results lie as `spec` says: all operands are used as they lie."""
    words: list[object] = [op]
    for operand in operands:
        if operand.__class__ is Divided.kind:
            words += (operand.form, operand._spec)
        elif operand.__class__ in _NUMBERS:
            words.append(operand.__class__)
        else:
            return
    if attrs:
        words.append(_attributes_key(attrs))
    if _generation[0] != GENERATION[0] or len(_calls) >= _MOST_CALLS:
        _calls.clear()
        _generation[0] = GENERATION[0]
    _calls[tuple(words)] = PreparedCall(tuple([(form_of_type(type_), spec) for type_ in types]), several)
