"""Attributes of a recorded call that were given as numbers of the traced program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.eager.mutation import Mutation
from rushlight.eager.symbols import SymInt
from rushlight.eager.tracing.number import TracedNumber
from rushlight.ops.record import Operator

_PLAIN = frozenset((int, float, bool, str, type(None)))


def settled(op: Any, attrs: Mapping[str, object]) -> Mapping[str, Any]:
    """The attributes as a graph takes them: a number that is traced is a size where there can be one, else fixed."""
    if _PLAIN.issuperset(map(type, attrs.values())):
        return attrs
    base = op.base if op.__class__ is Mutation else op
    if not isinstance(base, Operator):
        return attrs
    types = {attribute.name: attribute.type for attribute in base.schema.attributes}
    return {name: _settled(value, types[name].startswith(("Size", "Offset"))) for name, value in attrs.items()}


def _settled(value: object, sized: bool) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple([_settled(element, sized) for element in value])
    if isinstance(value, TracedNumber):
        return value.size() if sized and value.is_integer else value.item()
    if isinstance(value, SymInt):
        return value.expr if sized else int(value)
    return value
