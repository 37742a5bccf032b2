"""What a traced function can reach besides its arguments: modules, optimizers, and the containers they keep state in.

A class whose instances hold such state says so by an attribute `__rushlight_state__`: "static" when numbers in its
`__dict__` are part of the program (a module's sizes), "runtime" when they only feed arithmetic (an optimizer's
learning rate). Of other objects the attributes count that the function's own code names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from rushlight.eager.handle import Handle
from rushlight.support.errors import fail

MARK = "__rushlight_state__"
PREPARE = "__rushlight_prepare__"  # of a class: called before its instance is walked
MISSING = object()
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_NO_STATE = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, CellType, Handle)


@dataclass(slots=True)
class Leaf:
    """A value in a container.

    Where it stands, its path for messages, and whether a number there is known only at run time. `placed` stands in
    for it while a function is traced. Of one that is `loose` a program relies on nothing but the class.
    """

    container: Any
    key: Any
    value: Any
    path: str
    runtime: bool
    placed: Any = None
    loose: bool = False

    def place(self, value: Any) -> None:
        """Puts another value in its place."""
        self.placed = self.container[self.key] = value

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return type(self.value) in (int, float)

    @property
    def is_numbers(self) -> bool:
        """Whether it is a tuple of numbers, such as Adam's betas."""
        return type(self.value) is tuple and all(type(item) in (int, float) for item in self.value)


class CellBox:
    """A closure's variable as a container of one value, under the key 0."""

    __slots__ = ("cell",)

    def __init__(self, cell: CellType) -> None:
        self.cell = cell

    def __len__(self) -> int:
        return 1

    def __getitem__(self, key: int) -> Any:
        return self.cell.cell_contents

    def __setitem__(self, key: int, value: Any) -> None:
        self.cell.cell_contents = value


@dataclass(slots=True)
class StateWalk:
    """All containers and leaves that a function reaches, each once.

    `containers` are those whose number of entries matters; in `objects` only the leaves do. `tensors` stand in tuples,
    where nothing can take their place.
    """

    leaves: list[Leaf] = field(default_factory=list)
    containers: list[tuple[Any, str]] = field(default_factory=list)
    objects: list[tuple[Any, str]] = field(default_factory=list)
    tensors: list[Handle] = field(default_factory=list)
    marked: list[Any] = field(default_factory=list)
    keys: dict[int, set[Any]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    def add(self, value: Any, path: str) -> None:
        """Walks one root."""
        self._walk(value, path, False)

    def bind(self, container: Any, key: Any, path: str) -> None:
        """Takes a variable as a leaf, and walks its value."""
        value = container[key]
        self.leaves.append(Leaf(container, key, value, path, False))
        self.add(value, path)

    def refuse_resized_lists(self) -> None:
        """C003 for a list of another length: a program that changes it would not fit its own guards next time."""
        for container, path in self._resized():
            before = len(self.keys[id(container)])
            fail(
                "C003",
                f"compile: the list {path} had {before} entries before the traced call and has {len(container)}",
                hint="return the value, and append it outside of the compiled function",
            )

    def restore_lists(self) -> None:
        """Gives lists of another length the entries that they had."""
        for container, _ in self._resized():
            container[:] = [leaf.value for leaf in self.leaves if leaf.container is container]

    def _resized(self) -> list[tuple[list[Any], str]]:
        lists = [(container, path) for container, path in self.containers if isinstance(container, list)]
        return [item for item in lists if len(item[0]) != len(self.keys[id(item[0])])]

    def _walk(self, root: Any, root_path: str, root_runtime: bool) -> None:
        stack = [(root, root_path, root_runtime)]
        while stack:
            value, path, runtime = stack.pop()
            mark = None if isinstance(value, _NO_STATE) else getattr(type(value), MARK, None)
            if mark is not None:
                self.marked.append(value)
                value, runtime = vars(value), mark == "runtime"
                items = self._opened(value, path, ".{}", self.containers)
            elif isinstance(value, (dict, list)):
                items = self._opened(value, path, "[{}]", self.containers)
            elif isinstance(value, tuple):
                items = self._of_tuple(value, path)
            elif hasattr(value, "__dict__") and not isinstance(value, _NO_STATE):
                value = vars(value)
                items = self._opened(value, path, ".{}", self.objects)
            else:
                continue
            for key, item, place in items:
                if not isinstance(value, tuple):
                    self.leaves.append(Leaf(value, key, item, place, runtime))
                if type(item) not in _PLAIN:
                    stack.append((item, place, runtime))

    def _opened(
        self, container: Any, path: str, form: str, kind: list[tuple[Any, str]]
    ) -> Iterator[tuple[Any, Any, str]]:
        if id(container) in self.keys:
            return
        items = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
        self.keys[id(container)] = {key for key, _ in items}
        kind.append((container, path))
        for key, item in items:
            if kind is not self.objects or key in self.names:
                yield key, item, path + form.format(key if form == ".{}" else _key_text(key))

    def _of_tuple(self, value: tuple[Any, ...], path: str) -> Iterator[tuple[Any, Any, str]]:
        for place, item in enumerate(value):
            if isinstance(item, Handle):
                self.tensors.append(item)
            yield place, item, f"{path}[{place}]"


def _key_text(key: Any) -> str:
    return f"tensor at {id(key):#x}" if isinstance(key, Handle) else repr(key)


def walk_function(function: Any, arguments: list[tuple[str, Any]]) -> StateWalk:
    """What a function reaches.

    Itself, its bound object, its closure, its defaults, the globals in its code, arguments.
    """
    bound = function.__self__ if isinstance(function, MethodType) else None
    code_of = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(code_of, FunctionType):
        code_of = getattr(type(function), "forward", None) or vars(type(function)).get("__call__")
        bound = function
    if not isinstance(code_of, FunctionType):
        walk = StateWalk()
    else:
        walk = StateWalk(names=frozenset(_names(code_of.__code__)))
        for name, cell in zip(code_of.__code__.co_freevars, code_of.__closure__ or (), strict=True):
            if _is_filled(cell):
                walk.bind(CellBox(cell), 0, name)
        for name in _names(code_of.__code__):
            if not isinstance(code_of.__globals__.get(name, walk), (ModuleType, StateWalk)):
                walk.bind(code_of.__globals__, name, name)
        walk.add(code_of.__defaults__ or (), "defaults")
    walk.add(bound, "self")
    for name, value in arguments:
        walk.add(value, name)
    return walk


def walk_prepared(function: Any, arguments: list[tuple[str, Any]]) -> StateWalk:
    """What a function reaches, once that is ready for it."""
    walk = walk_function(function, arguments)
    prepared = [getattr(item, PREPARE) for item in walk.marked if hasattr(type(item), PREPARE)]
    if not prepared:
        return walk
    for prepare in prepared:
        prepare()
    return walk_function(function, arguments)


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not MISSING
    except ValueError:
        return False


def _names(code: CodeType) -> list[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.extend(_names(constant))
    return list(dict.fromkeys(names))
