"""What an interpreter is told of before it happens. One that traces ends its graph there."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

MISSING = object()
"""In place of what is not there."""
ITERATING = frozenset({"iter", "next", "len", "length_hint", "getitem", "reversed"})
"""Methods that are asked for the values of an iterable."""
COMPARING = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "hash"}) | ITERATING
"""Methods that comparisons and searches ask for."""
LOOKING_UP = frozenset({"eq", "hash", "index"})
"""Methods that a key is asked for."""
ANY_METHOD = (
    COMPARING
    | LOOKING_UP
    | {"missing", "contains", "bool", "int", "float", "complex", "repr", "str", "format", "bytes", "add", "radd"}
    | {"fspath"}
)
"""All methods that C may ask for."""
CallParts = tuple[tuple[CellType, ...] | None, tuple[object, ...] | None, dict[str, object] | None]
"""What a call reads of a function: the closure, the defaults, and the defaults by name."""


class Hooks:
    """What operations and slots ask, as an interpreter answers that runs a program as it is."""

    __slots__ = ()

    def native(self, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """What a call gives that is not interpreted."""
        return function(*args, **kwargs)

    def calls_leaf(self, method: FunctionType, cls: type | None = None) -> None:
        """Is told of a special method that C is going to call as it is."""

    def given_to(self, function: object, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments of a call as the function gets them."""
        return args

    def callee(self, function: object) -> object:
        """What is called in place of a function."""
        return function

    def replaces(self, container: object, key: object, value: object) -> None:
        """Is told of an item of a container that is going to be set."""
        self.writes(container, value)

    def augments(self, target: object, value: object) -> None:
        """Is told of an object that an augmented assignment is going to change."""
        self.writes(target, value)

    def writes(self, target: object, *values: object) -> None:
        """Is told of an object that is going to change, and of what is put into it."""

    def reads(self, variables: dict[str, object], name: str, value: object) -> None:
        """Is told of a global, or an attribute of a module, that is read."""

    def lacks(self, variables: dict[str, object], name: str) -> None:
        """Is told of a global that is not there: a builtin is behind it, or an error."""

    def looks_into(self, cls: type) -> None:
        """Is told of a class that a statement made, and of which a method or another attribute is asked for."""

    def binds(self, variables: object, name: object, value: object) -> bool:
        """Is told of a cell (0) or a global that is going to be bound, or unbound (UNBOUND). True if it is then."""
        return False

    def own_attribute(self, owner: object, name: str) -> object:
        """What an object has in its `__dict__` under a name; MISSING if nothing."""
        try:
            variables: dict[str, object] = object.__getattribute__(owner, "__dict__")
        except AttributeError:
            return MISSING
        return variables.get(name, MISSING)

    def attribute(self, owner: object, name: str, native: Callable[[Any, str], object]) -> object:
        """An attribute that no method written in Python gives; `native` does."""
        return native(owner, name)

    def sets(self, owner: object, name: str, value: object) -> bool:
        """Is told of an object whose attribute is going to be set, or deleted (MISSING). True if that is done then."""
        return False

    def parts_of(self, function: FunctionType) -> CallParts:
        """The closure, the defaults and the defaults by name of a function that is going to be called."""
        return function.__closure__, function.__defaults__, function.__kwdefaults__

    def makes(self, value: object) -> None:
        """Is told of an object that has been made."""

    def new_class(
        self, kind: type, name: str, bases: tuple[type, ...], namespace: dict[str, object], kwargs: dict[str, object]
    ) -> type:
        """A new class, as `type.__new__` makes it: names are set, and bases told of it."""
        return type.__new__(kind, name, bases, namespace, **kwargs)

    def runs(self, *operands: object, asked: frozenset[str] = ANY_METHOD) -> None:
        """Is told of the operands of what C is going to do, and which methods it may ask them for."""

    def tells(self, value: object, asked: frozenset[str] = ANY_METHOD) -> None:
        """Is told of an object that C asks for what it is, and by which methods."""

    def hands(self, value: object) -> object:
        """Is told of a value that C gets from what it has called back."""
        return value

    def advances(self, iterator: object) -> None:
        """Is told of an iterator whose next value is going to be taken."""

    def key(self, value: object) -> object:
        """A value as the key of a dict or set."""
        return value

    def hashes(self, key: object, container: object = None) -> None:
        """Is told of what C is going to look up in a dict or set, or to put into a new one (None)."""

    def imports(self, module: object) -> None:
        """Is told of what a statement has imported."""

    def finds(self, container: object, key: object) -> None:
        """Is told of a dict whose item of some key is going to be taken."""

    def owner(self, value: object, name: str) -> object:
        """What an attribute is taken of."""
        return value

    def class_of(self, value: object) -> type:
        """The class of a value, as programs see it."""
        return type(value)

    def identity(self, value: object) -> int:
        """The number of an object."""
        return id(value)

    def thread(self) -> int:
        """The number of the thread."""
        return get_ident()

    def is_same(self, value: object, other: object) -> bool:
        """Whether two values are one object."""
        return value is other
