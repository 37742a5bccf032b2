"""What a traced function can reach besides its arguments: modules, optimizers, and the containers they keep state in.

A class whose instances hold such state says so by an attribute `__rushlight_state__`: "static" when numbers in its
`__dict__` are part of the program (a module's sizes), "runtime" when they only feed arithmetic (an optimizer's
learning rate).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from rushlight.eager.handle import Handle

MARK = "__rushlight_state__"
MISSING = object()


@dataclass(slots=True)
class Leaf:
    """A value in a container.

    Where it stands, its path for messages, and whether a number there is known only at run time.
    """

    container: Any
    key: Any
    value: Any
    path: str
    runtime: bool


@dataclass(slots=True)
class StateWalk:
    """All containers and leaves below some roots, each once."""

    leaves: list[Leaf] = field(default_factory=list)
    containers: list[tuple[Any, str]] = field(default_factory=list)
    marked: list[Any] = field(default_factory=list)
    keys: dict[int, set[Any]] = field(default_factory=dict)

    def add(self, value: Any, path: str) -> None:
        """Walks one root."""
        self._walk(value, path, False)

    def _walk(self, root: Any, root_path: str, root_runtime: bool) -> None:
        stack = [(root, root_path, root_runtime)]
        while stack:
            value, path, runtime = stack.pop()
            mark = getattr(type(value), MARK, None)
            if mark is not None and not isinstance(value, Handle):
                self.marked.append(value)
                value, runtime = vars(value), mark == "runtime"
            if not isinstance(value, (dict, list)) or id(value) in self.keys:
                continue
            known = self.keys[id(value)] = set()
            self.containers.append((value, path))
            for key, item in _items(value):
                place = f"{path}.{key}" if mark is not None else f"{path}[{_key_text(key)}]"
                known.add(key)
                self.leaves.append(Leaf(value, key, item, place, runtime))
                stack.append((item, place, runtime))


def _items(container: Any) -> Iterable[tuple[Any, Any]]:
    return list(container.items()) if isinstance(container, dict) else list(enumerate(container))


def _key_text(key: Any) -> str:
    return f"tensor at {id(key):#x}" if isinstance(key, Handle) else repr(key)


def roots_of(function: Any) -> list[tuple[Any, str]]:
    """What a function names: itself, its bound object, its closure, its defaults, and the globals in its code."""
    roots: list[tuple[Any, str]] = [(function, "self")]
    if isinstance(function, MethodType):
        roots.append((function.__self__, "self"))
        function = function.__func__
    if not isinstance(function, FunctionType):
        call = getattr(type(function), "forward", None) or vars(type(function)).get("__call__")
        if isinstance(call, FunctionType):
            roots.extend(_named_globals(call))
        return roots
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            roots.append((cell.cell_contents, name))
        except ValueError:
            continue
    roots.extend([(value, f"default {place}") for place, value in enumerate(function.__defaults__ or ())])
    roots.extend(_named_globals(function))
    return roots


def _named_globals(function: FunctionType) -> list[tuple[Any, str]]:
    found: list[tuple[Any, str]] = []
    for name in _names(function.__code__):
        value = function.__globals__.get(name, MISSING)
        if value is not MISSING and not isinstance(value, ModuleType):
            found.append((value, name))
    return found


def _names(code: CodeType) -> list[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.extend(_names(constant))
    return list(dict.fromkeys(names))
