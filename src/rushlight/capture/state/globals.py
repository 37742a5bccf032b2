"""Finds, from names in code, the functions that a traced function may call. It may read their globals.

This finds what is called by a name: functions, classes, attributes of modules, methods of the objects that are reached.
It is more than what runs, and misses what is found by computed names; the standard library is left out.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import NamedTuple

from rushlight.capture.code.instructions import globals_in

_LOOKED_INTO = (MethodType, staticmethod, classmethod, functools.partial, property, FunctionType, type)
_CODES = 4096  # functions whose names are kept
_OURS = frozenset({"rushlight", "torch", "numpy", "ml_dtypes", "llvmlite"}) | sys.stdlib_module_names


@functools.lru_cache(maxsize=_CODES)
def names_in(code: CodeType) -> tuple[str, ...]:
    """The names of globals and attributes in a function's code, functions within it included."""
    return _with_inner(code, names_in, code.co_names)


@functools.lru_cache(maxsize=_CODES)
def variables_in(code: CodeType) -> tuple[str, ...]:
    """The names of globals in a function's code, functions within it included."""
    return _with_inner(code, variables_in, globals_in(code))


def _with_inner(
    code: CodeType, names_of: Callable[[CodeType], tuple[str, ...]], own: tuple[str, ...]
) -> tuple[str, ...]:
    """A function's own names and those of the functions within it, each once."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in names_of(constant)]
    return tuple(dict.fromkeys((*own, *inner)))


@functools.lru_cache(maxsize=_CODES)
def _set_of(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)


class _Named(NamedTuple):
    """Which variables of a module code names: where these are, and what stands before their names in messages."""

    space: dict[str, object]
    prefix: str
    names: list[str]


class ReachableGlobals:
    """The functions that may run, each once, in the order in which they are found."""

    def __init__(self, roots: Iterable[object]) -> None:
        self.functions: list[FunctionType] = []
        self.names: set[str] = set()
        self._named: list[_Named] = []
        self._seen: set[int] = set()
        self._stack: list[object] = list(roots)
        while self._stack:
            self._visit(self._stack.pop())

    def variables(self) -> Iterator[tuple[dict[str, object], str, str]]:
        """The globals that the functions name: where they are, their names, and what to call them in messages.

        Those of modules that they name too, as in `settings.RATE`.
        """
        seen: set[tuple[int, str]] = set()
        for space, prefix, names in self._named:
            for name in names:
                if (id(space), name) not in seen:
                    seen.add((id(space), name))
                    yield space, name, prefix + name

    def _visit(self, value: object) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if not issubclass(type(value), _LOOKED_INTO):  # `isinstance` would ask the object for its class
            return
        if isinstance(value, (MethodType, staticmethod, classmethod)):
            self._stack.append(value.__func__)
        elif isinstance(value, functools.partial):
            self._stack += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, property):
            self._stack += [value.fget, value.fset]
        elif isinstance(value, FunctionType):
            self._visit_function(value)
        elif isinstance(value, type):
            for cls in value.__mro__:
                if is_of_users(module_of_class(cls)):
                    self._stack += vars(cls).values()

    def _visit_function(self, function: FunctionType) -> None:
        if not is_of_users(module_of_globals(function.__globals__)):
            return
        self.functions.append(function)
        self.names.update(names_in(function.__code__))
        for named in _named_by(function):
            self._named.append(named)
            self._stack += [named.space[name] for name in named.names]
        self._stack += contents(function)


def _named_by(function: FunctionType) -> Iterator[_Named]:
    """Which globals a function names, and which of the modules of users among them."""
    names = names_in(function.__code__)
    own = _common(function.__globals__, variables_in(function.__code__))
    yield _Named(function.__globals__, "", own)
    for name in own:
        value = function.__globals__[name]
        if issubclass(type(value), ModuleType) and isinstance(value, ModuleType) and is_of_users(value.__name__):
            yield _Named(vars(value), f"{name}.", _common(vars(value), names))


def _common(space: dict[str, object], names: tuple[str, ...]) -> list[str]:
    """Which of some names a module has, in their order."""
    known = space.keys() & _set_of(names)
    return [name for name in names if name in known] if known else []


def contents(function: FunctionType) -> list[object]:
    """The values of a function's closure and defaults."""
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # nothing was assigned yet
            continue
    return values


def module_of_class(cls: type) -> str:
    """The name of the module that a class says it is of; "" where that is no text."""
    module: object = getattr(cls, "__module__", None)
    return module if isinstance(module, str) else ""


def module_of_globals(variables: Mapping[str, object]) -> str:
    """The name of the module that globals say they are of; "" where they say nothing."""
    return str(variables.get("__name__", ""))


def is_of_users(module: str) -> bool:
    """Whether a module is neither ours nor of the libraries, by its name."""
    return module.partition(".")[0] not in _OURS
