"""Tuples, lists and dicts of values: taken apart into leaves and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rushlight.support.frozen import frozen


@frozen
class Leaf:
    """The place of one value."""


@frozen
class Branches:
    """A container: its class, and the keys of a dict."""

    kind: type
    parts: tuple[Structure, ...]
    keys: tuple[Any, ...] | None = None

    def __str__(self) -> str:
        return f"{self.kind.__name__} of {len(self.parts)}"


Structure = Leaf | Branches
_LEAF = Leaf()


def flatten_tree(value: object) -> tuple[list[Any], Structure]:
    """The leaves of a value in order, and what says how to put them together."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: object, leaves: list[object]) -> Structure:
    if isinstance(value, dict):
        return Branches(type(value), tuple([_flatten(element, leaves) for element in value.values()]), tuple(value))
    if isinstance(value, (tuple, list)):
        return Branches(type(value), tuple([_flatten(element, leaves) for element in value]))
    leaves.append(value)
    return _LEAF


def count_of(structure: Structure) -> int:
    """The number of leaves of a structure."""
    return 1 if isinstance(structure, Leaf) else sum([count_of(part) for part in structure.parts])


def unflatten_tree(structure: Structure, leaves: Sequence[object]) -> Any:
    """The value of a structure with these leaves."""
    return _built(structure, iter(leaves))


def _built(structure: Structure, leaves: Iterator[object]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    parts = [_built(part, leaves) for part in structure.parts]
    if structure.keys is not None:
        return structure.kind(zip(structure.keys, parts, strict=True))
    return structure.kind(*parts) if hasattr(structure.kind, "_fields") else structure.kind(parts)


def leaves_like(value: Any, structure: Structure) -> list[Any] | None:
    """The leaves of a value, if it has this structure."""
    if structure is _LEAF:
        return None if isinstance(value, (tuple, list, dict)) else [value]
    assert isinstance(structure, Branches)
    if value.__class__ is not structure.kind or len(value) != len(structure.parts):
        return None
    if structure.keys is not None:
        if tuple(value) != structure.keys:
            return None
        value = value.values()
    leaves: list[Any] = []
    for element, part in zip(value, structure.parts, strict=True):
        result = (
            leaves_like(element, part) if part is not _LEAF or isinstance(element, (tuple, list, dict)) else (element,)
        )
        if result is None:
            return None
        leaves += result
    return leaves


def map_tree(function: Callable[[Any], object], value: object) -> Any:
    """The value with `function` of each leaf."""
    leaves, structure = flatten_tree(value)
    return unflatten_tree(structure, [function(leaf) for leaf in leaves])
