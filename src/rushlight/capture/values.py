"""Python values around a graph: results and side effects, with tensors replaced by where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rushlight.capture.source import Source
from rushlight.eager.handle import PYTHON, SPARSE, Handle
from rushlight.eager.symbols import SymBool, SymFloat, SymInt
from rushlight.eager.tracing import TracedNumber
from rushlight.ir.type import META
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import SizeExpr

_OF_TUPLES = ("__getitem__", "__iter__", "__len__", "__getattribute__")


def is_tuple(value: object) -> bool:
    """Whether a value is a tuple, or a named one that has its class and its items and nothing else."""
    kind = type(value)
    if kind is tuple:
        return True
    return (
        issubclass(kind, tuple)  # `isinstance` would ask the object for its class
        and type(kind) is type
        and hasattr(kind, "_fields")
        and not kind.__dictoffset__
        and not hasattr(kind, "__del__")
        and all(getattr(kind, name) is getattr(tuple, name) for name in _OF_TUPLES)
    )


def like_tuple(value: tuple[object, ...], items: Iterable[object]) -> tuple[object, ...]:
    """A tuple of the class of another one, whatever this class makes of its arguments."""
    return tuple(items) if type(value) is tuple else tuple.__new__(type(value), items)


@frozen
class Output:
    """Output number `place` of the graph."""

    place: int


@frozen
class InputRef:
    """An input, as it is."""

    source: Source


@frozen
class Number:
    """A number that Python computes."""

    text: str


@frozen
class SizeOf:
    """A size that is a function of the inputs' sizes; with a relation, whether it stands so to 0."""

    expr: SizeExpr
    relation: str = ""


@frozen
class Constant:
    """Another value: the object itself."""

    value: object


@frozen
class Reached:
    """A container that the function was given or reaches, as an expression."""

    text: str


@frozen
class Container:
    """A container of templates; `keys` for dicts. `kind` is its class; a subclass may have attributes, by name."""

    kind: type
    items: tuple[Template, ...]
    keys: tuple[object, ...] = ()
    attributes: tuple[tuple[str, Template], ...] = ()


@frozen
class Made:
    """What a function makes of values: a sparse tensor of its places and elements, or an object by its recipe."""

    make: Callable[..., object]
    items: tuple[Template, ...]


@frozen(eq=False)
class Assembled:
    """In place of a value while tracing: what makes it of values that a graph gives, and these."""

    make: Callable[..., object]
    parts: tuple[object, ...]


@frozen
class Deleted:
    """No value: the entry is taken away."""


V = TypeVar("V")
_PLAIN: dict[type, Callable[[Any], object]] = {SymInt: int, SymBool: bool, SymFloat: float}


def no_placeholder(value: V) -> V:
    """The value itself. Errors: C010 for a tensor or number of another trace, which has no value."""
    is_one = type(value) in _PLAIN
    if type(value) is TracedNumber:
        is_one = value.numbers.made.get(value.text) is not value
    elif issubclass(type(value), Handle) and isinstance(value, Handle):
        has_none = value.backing is None and value.form.device != META and not value.keys & (SPARSE | PYTHON)
        is_one = value.form.symbolic or has_none
    if is_one:
        fail("C010", "what stood for a value of another traced program is no value of this one", value=value)
    return value


Template = Output | InputRef | Number | SizeOf | Constant | Reached | Container | Made | Deleted


TAIL = object()
"""The key of what is appended to a list, however long it is."""


@frozen(eq=False)
class Effect:
    """`container[key] = value`, together with the run. `container` is an object, or a Reached one.

    The key of a list may be a slice, or TAIL: the value is a list whose items are appended.
    """

    container: object
    key: object
    value: Template
    path: str


def flatten_value(
    value: object,
    classify: Callable[[Handle], Source | int],
    reached: Callable[[object], str | None] = lambda value: None,
) -> Template:
    """A value as a template. `reached` names what was there before and may be another object at each call."""
    if isinstance(value, TracedNumber):
        return Number(value.text)
    if isinstance(value, Handle):
        apart = traced_parts(value)
        if apart is not None:
            make, parts = apart
            return Made(make, tuple([flatten_value(part, classify, reached) for part in parts]))
        origin = classify(value)
        return Output(origin) if isinstance(origin, int) else InputRef(origin)
    if isinstance(value, SymInt):
        return SizeOf(value.expr)
    if isinstance(value, SymBool):
        condition = value.condition
        return Constant(condition) if isinstance(condition, bool) else SizeOf(condition.expr, condition.relation)
    text = reached(value)
    if text is not None:
        return Reached(text)
    if isinstance(value, Assembled):
        return Made(value.make, tuple([flatten_value(part, classify, reached) for part in value.parts]))
    if isinstance(value, (dict, tuple, list)):
        made = flatten_items(value, classify, reached)
        return Constant(value) if type(value) is tuple and _is_constant(made, value) else made
    if _holds_tensor(value):
        fail("C014", "export: the function returned an object that holds tensors", value=type(value).__name__)
    return Constant(value)


def _is_constant(made: Container, value: tuple[object, ...]) -> bool:
    """Whether a tuple's template makes nothing but what stands in the tuple."""
    return all(isinstance(part, Constant) and part.value is held for part, held in zip(made.items, value, strict=True))


def traced_parts(value: Any) -> tuple[Callable[..., object], tuple[Handle, ...]] | None:
    """What makes a sparse tensor that was computed in a trace, and of which tensors. None of any other."""
    if not value.keys & SPARSE:
        return None
    make, parts = value.taken_apart()
    return (make, parts) if any(part.node is not None for part in parts) else None


def flatten_items(
    value: Iterable[object], classify: Callable[[Handle], Source | int], reached: Callable[[object], str | None]
) -> Container:
    """A dict, tuple or list as a new container."""
    keys = tuple([plain_key(key) for key in value]) if isinstance(value, dict) else ()
    parts = value.values() if isinstance(value, dict) else value
    items = tuple([flatten_value(part, classify, reached) for part in parts])
    attributes = getattr(value, "__dict__", {}).items()
    named = tuple([(name, flatten_value(element, classify, reached)) for name, element in attributes])
    return Container(type(value), items, keys, named)


def plain_key(key: Any) -> Any:
    """A key, whose numbers are fixed: its hash was asked."""
    kind = type(key)
    if kind is TracedNumber:
        return key.value
    if kind is SymInt or kind is SymBool or kind is SymFloat:
        return _PLAIN[kind](key)
    if not issubclass(kind, (tuple, frozenset)):
        return key
    of_c: Any = tuple if issubclass(kind, tuple) else frozenset
    parts = [plain_key(part) for part in of_c.__iter__(key)]
    same = all(part is own for part, own in zip(parts, of_c.__iter__(key), strict=True))
    return key if same else of_c.__new__(kind, parts)


def _holds_tensor(value: object) -> bool:
    names = getattr(value, "__dict__", None)
    return isinstance(names, dict) and any(
        isinstance(name, Handle) and name.node is not None for name in names.values()
    )
