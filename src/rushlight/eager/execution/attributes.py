"""Splits a call's attributes into constants of an artifact and sizes that it takes at run time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rushlight.ops.record import Operator
from rushlight.term import attr_key

RUN_TIME = object()
"""Stands for a size that the artifact takes at run time."""


def split_sizes(op: Operator, attrs: Mapping[str, object]) -> tuple[Any, list[int]]:
    """A hashable key of the static attributes, and the sizes that travel: 0 and from 2 on."""
    if not attrs:
        return (), []
    sizes: list[int] = []
    parts: list[Any] = []
    of_sizes = _size_attributes(op)
    for name, value in attrs.items():
        if name in of_sizes:
            value = _split(value, sizes)
            parts.append((name, value))
        else:
            parts.append((name, attr_key(value)))
    return tuple(parts), sizes


def with_sizes(op: Operator, attrs: Mapping[str, object], sizes: Any) -> Mapping[str, Any]:
    """The attributes with the travelling sizes replaced, in the order of `split_sizes`."""
    if not sizes:
        return attrs
    items = iter(sizes)
    of_sizes = _size_attributes(op)
    return {name: _join(value, items) if name in of_sizes else value for name, value in attrs.items()}


def _size_attributes(op: Operator) -> frozenset[str]:
    attributes = _of_sizes.get(op)
    if attributes is None:
        names = [
            attribute.name
            for attribute in op.schema.attributes
            if attribute.type.startswith("Size") or attribute.type == "any"
        ]
        attributes = _of_sizes[op] = frozenset(names)
    return attributes


_of_sizes: dict[Operator, frozenset[str]] = {}


def _travels(value: Any) -> bool:
    return value.__class__ is int and (value > 1 or value == 0)


def _split(value: Any, sizes: list[int]) -> Any:
    if isinstance(value, tuple):
        return tuple([_split(element, sizes) for element in value])
    if not _travels(value):
        return attr_key(value)
    sizes.append(value)
    return RUN_TIME


def _join(value: object, sizes: Iterator[object]) -> Any:
    if isinstance(value, tuple):
        return tuple([_join(element, sizes) for element in value])
    return next(sizes) if _travels(value) else value
