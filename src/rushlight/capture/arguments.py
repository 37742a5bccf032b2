"""The arguments of a call: their leaves, how a generated function takes them apart, and the names in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from types import CellType, FunctionType
from typing import Any

from rushlight.capture.guard import Guard, is_same
from rushlight.capture.values import is_tuple
from rushlight.support.errors import error

_EMPTY = CellType()  # which only empty cells are equal to
_VARIABLE = re.compile(r"\w+")


def _agree(owner: object, before: dict[str, object]) -> bool:
    """Whether an object has the variables that it had, and no others."""
    held = object.__getattribute__(owner, "__dict__")
    if len(held) != len(before):
        return False
    return all(_is_like(held.get(name, _EMPTY), value) for name, value in before.items())


def _is_like(value: Any, before: Any) -> bool:
    """Whether a value is the number, text or container that it was. Tensors that came into a container are no error."""
    if type(value) is not type(before):
        return False
    if type(value) is dict:
        return value.keys() == before.keys() and all(part is None for part in value.values())
    if type(value) is tuple:
        return len(value) == len(before) and all(map(_is_like, value, before))
    return value == before if type(value) is set else is_same(value, before)


def unpacking(lines: Sequence[str]) -> dict[str, str]:
    """What each variable is given, by lines that take arguments apart."""
    return {name: value for name, _, value in [line.partition(" = ") for line in lines]}


def place_of(text: str, variables: Mapping[str, str]) -> str:
    """Where among the arguments stands what an expression gives, by what its `variables` are given."""
    while (name := _VARIABLE.match(text)) is not None and name[0] in variables:
        text = variables[name[0]] + text[name.end() :]
    return text


class Names:
    """Names in a generated function for the objects that it mentions; `space` are those that there are."""

    def __init__(self, space: dict[str, object] | None = None) -> None:
        self.space: dict[str, Any] = {} if space is None else space
        self._names = {id(value): name for name, value in self.space.items() if name[0] == "v" and name[1:].isdigit()}

    def __call__(self, value: object) -> str:
        """The object's name; the same object has one."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"v{len(self._names)}"
            self.space[name] = value
        return name


class Arguments:
    """Unpacks nested arguments: lines of code that give each leaf a name, and the leaves' values.

    `objects` are leaves of which `is_object` is true, by identity, with their names: their class is guarded here, and
    whoever reads an attribute of one opens it. `containers` are expressions for the lists and dicts. The arguments at
    the positions `fresh` are containers that nobody else has.
    """

    def __init__(
        self,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        names: Names,
        is_object: Callable[[object], bool] | None = None,
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.names = names
        self.lines: list[str] = []
        self.unpack: list[str] = []
        self.guards: list[Guard] = []
        self.leaves: list[tuple[str, Any]] = []
        self.objects: dict[int, str] = {}
        self.containers: dict[int, str] = {}  # expressions for the lists and dicts, by identity
        self.fixed: Collection[int] = ()
        self.is_object = is_object
        self.fresh: Sequence[int] = ()
        try:
            self.open(args, "args")
            self.open(kwargs, "kwargs")
        except RecursionError as cause:
            raise error("A005", "an argument is nested too deeply, or contains itself") from cause

    def open(self, value: Any, text: str) -> None:
        """Takes apart a value that the expression `text` gives."""
        is_open = is_tuple(value)
        if is_open or type(value) is list:
            self._guard("arguments", text, f"{type(value).__name__} of {len(value)}", self._shape_test(value, text))
            parts = [(f"{text}[{index}]", element) for index, element in enumerate(value)]
        elif type(value) is dict:
            test = self._shape_test(value, text)
            keys = [repr(key) if type(key) in (int, str) else self.names(key) for key in value]
            failed = f"{test} or list({text}) != [{', '.join(keys)}]" if value else test
            if any(type(key) is not str for key in value):  # 1, True and 1.0 are equal
                kinds = ", ".join([self.names(type(key)) for key in value])
                failed += f" or [*map({self.names(type)}, {text})] != [{kinds}]"
            self._guard("arguments", text, f"dict with {list(value)}", failed)
            parts = [(f"{text}[{key}]", element) for key, element in zip(keys, value.values(), strict=True)]
        else:
            name = f"a{len(self.leaves)}"
            self._say(f"{name} = {text}")
            self.leaves.append((name, value))
            if self.is_object is not None and id(value) not in self.fixed and self.is_object(value):
                self._guard_object(name, value)
            return
        if not is_open and value is not self.kwargs:
            first = self.containers.setdefault(id(value), text)
            if first != text:
                self.guard_same(text, first)
        for part, entry in parts:
            self.open(entry, part)

    def apart(self) -> list[str]:
        """Expressions for what one could tell from each other by identity: tuples only where leaves may be objects."""
        if self.is_object is None:
            return [*self.containers.values()]
        fresh = {f"args[{at}]" for at in self.fresh}
        tuples = [f"args[{at}]" for at, value in enumerate(self.args) if is_tuple(value) and value]
        return [*self.objects.values(), *[text for text in (*self.containers.values(), *tuples) if text not in fresh]]

    def attribute(self, owner: object, name: str, is_slot: bool) -> str:
        """The variable of an attribute that one of the objects, or a tensor, has itself, maybe in a slot."""
        held_by = self._variable(owner)
        variable = f"{held_by}_{len(self.unpack)}"
        self._say(f"{variable} = {_attribute(held_by, name, is_slot)}")
        return variable

    def place(self, owner: object, name: str, is_slot: bool) -> str:
        """Where an attribute stands that one of the objects, or a tensor, has itself."""
        return place_of(_attribute(self._variable(owner), name, is_slot), unpacking(self.unpack))

    def _variable(self, owner: object) -> str:
        return self.objects.get(id(owner)) or next(leaf for leaf, value in self.leaves if value is owner)

    def guard_absent(self, owner: object, name: str, is_slot: bool) -> None:
        """Guards that one of the objects has no attribute of a name itself."""
        variable = self.objects[id(owner)]
        held = f"hasattr({variable}, {name!r})" if is_slot else f"{name!r} in getattr({variable}, '__dict__', ())"
        self._guard("attribute", f"{variable}.{name}", "absent", held)

    def guard_variables(self, owner: object) -> None:
        """Guards that one of the objects holds numbers, texts and empty containers equal to those it held."""
        variable, held = self.objects[id(owner)], object.__getattribute__(owner, "__dict__")
        before = {name: value.copy() if isinstance(value, (dict, set)) else value for name, value in held.items()}
        self._guard("attribute", variable, "as it was", f"not {self.names(_agree)}({variable}, {self.names(before)})")

    def guard_empty(self, cell: object) -> None:
        """Guards that one of the objects, a cell, is empty."""
        variable = self.objects[id(cell)]
        self._guard("attribute", variable, "an empty cell", f"{variable} != {self.names(_EMPTY)}")

    def guard_same(self, text: str, other: str) -> None:
        """Guards that two expressions give the same object."""
        self._guard("object", text, f"the same as {other}", f"{text} is not {other}")

    def guard_apart(self, value: object, other: object) -> None:
        """Guards that one of the objects is not an object that is always the same."""
        name = self.objects[id(value)]
        self._guard("object", name, f"another {type(other).__name__}", f"{name} is {self.names(other)}")

    def _say(self, line: str) -> None:
        self.lines.append(line)
        self.unpack.append(line)

    def pin(self, fixed: Collection[int]) -> None:
        """Leaves out of the objects those that are always the same, by identity."""
        self.fixed = fixed
        for key in [key for key in self.objects if key in fixed]:
            del self.objects[key]

    def _guard_object(self, name: str, value: object) -> None:
        """Guards an object's class, and that it is the same as another leaf if it was."""
        kind = type(value)
        # Whatever it says of its own class: of a mock that is its specification.
        self._guard("class", name, f"a {kind.__qualname__}", f"{self.names(type)}({name}) is not {self.names(kind)}")
        # Of a function, one of the same code: its cells and defaults are read like attributes.
        if kind is FunctionType and isinstance(value, FunctionType):
            code, space = self.names(value.__code__), self.names(value.__globals__)
            failed = f"{name}.__code__ is not {code} or {name}.__globals__ is not {space}"
            self._guard("class", name, f"the function {value.__qualname__}", failed)
        first = self.objects.setdefault(id(value), name)
        if first != name:
            self.guard_same(name, first)

    def _shape_test(self, value: Sized, text: str) -> str:
        return f"{text}.__class__ is not {self.names(type(value))} or len({text}) != {len(value)}"

    def _guard(self, kind: str, path: str, expected: str, failed: str) -> None:
        self.lines.append(f"if {failed}: return MISS")
        self.guards.append(Guard(kind, path, expected, failed))


def _attribute(owner: str, name: str, is_slot: bool) -> str:
    """An expression for an attribute that an object has itself."""
    return f"{owner}.{name}" if is_slot else f"{owner}.__dict__[{name!r}]"
