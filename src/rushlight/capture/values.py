"""Python values around a graph: results and side effects, with tensors replaced by where they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.capture.source import Source
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import SymInt
from rushlight.eager.tracing import TracedNumber
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import SizeExpr


@frozen
class Output:
    """Output number `place` of the graph."""

    place: int


@frozen
class Taken:
    """An input, as it is."""

    source: Source


@frozen
class Number:
    """A number that Python computes."""

    text: str


@frozen
class SizeOf:
    """A size that is a function of the inputs' sizes."""

    expr: SizeExpr


@frozen
class Constant:
    """Any other value: the object itself."""

    value: Any


@frozen
class Container:
    """A container of templates; `keys` for dicts. `kind` is its class."""

    kind: type
    items: tuple[Template, ...]
    keys: tuple[Any, ...] = ()


Template = Output | Taken | Number | SizeOf | Constant | Container


@frozen
class Effect:
    """`container[key] = value` after the run."""

    container: Any
    key: Any
    value: Template
    path: str


def flatten_value(value: Any, classify: Callable[[Handle], Source | int]) -> Template:
    """A value as a template."""
    if isinstance(value, TracedNumber):
        return Number(value.text)
    if isinstance(value, Handle):
        found = classify(value)
        return Output(found) if isinstance(found, int) else Taken(found)
    if isinstance(value, SymInt):
        return SizeOf(value.expr)
    if isinstance(value, dict):
        items = tuple([flatten_value(item, classify) for item in value.values()])
        return Container(type(value), items, tuple(value))
    if isinstance(value, (tuple, list)):
        return Container(type(value), tuple([flatten_value(item, classify) for item in value]))
    if _holds_tensor(value):
        fail("C014", "a compiled function returned an object that holds traced tensors", value=type(value).__name__)
    return Constant(value)


def _holds_tensor(value: Any) -> bool:
    names = getattr(value, "__dict__", None)
    return isinstance(names, dict) and any(
        isinstance(item, Handle) and item.node is not None for item in names.values()
    )
