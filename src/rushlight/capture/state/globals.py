"""Finds, from names in code, the functions that a traced function may call. It may read their globals.

This finds what is called by a name: functions, classes, attributes of modules, methods of the objects that are reached.
It is more than what runs, and misses what is found by computed names; the standard library is left out.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType

_OURS = frozenset({"rushlight", "torch", "numpy", "ml_dtypes", "llvmlite"}) | sys.stdlib_module_names


def names_in(code: CodeType) -> list[str]:
    """The names of globals and attributes in a function's code, functions within it included."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.extend(names_in(constant))
    return list(dict.fromkeys(names))


class ReachableGlobals:
    """The functions that may run, each once, in the order in which they are found."""

    def __init__(self, roots: Iterable[object]) -> None:
        self.functions: list[FunctionType] = []
        self.names: set[str] = set()
        self._seen: set[int] = set()
        self._stack: list[object] = list(roots)
        while self._stack:
            self._visit(self._stack.pop())

    def variables(self) -> Iterator[tuple[dict[str, object], str, str]]:
        """The globals that the functions name: where they are, their names, and what to call them in messages.

        Those of modules that they name too, as in `settings.RATE`.
        """
        seen: set[tuple[int, str]] = set()
        for function in self.functions:
            names = names_in(function.__code__)
            spaces = [(function.__globals__, "")]
            for name in names:
                value = function.__globals__.get(name)
                if isinstance(value, ModuleType) and is_of_users(value.__name__):
                    spaces.append((vars(value), f"{name}."))
            for space, prefix in spaces:
                for name in names:
                    if name in space and (id(space), name) not in seen:
                        seen.add((id(space), name))
                        yield space, name, prefix + name

    def _visit(self, value: object) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
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
        names = names_in(function.__code__)
        self.names.update(names)
        for name in names:
            value = function.__globals__.get(name)
            self._stack.append(value)
            if isinstance(value, ModuleType) and is_of_users(value.__name__):
                self._stack += [vars(value).get(other) for other in names]
        self._stack += contents(function)


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
