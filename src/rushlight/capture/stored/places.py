"""Where the objects stand that an entry names: a way to each from the function, its arguments, or a module.

A way is taken again in another process. What it leads to there counts as the same object; that it is alike in all that
the trace has read is checked besides.
"""

from __future__ import annotations

import enum
import functools
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

from rushlight.capture.interpreter.slots import HEAP_TYPE
from rushlight.capture.state.assumed import variables_of_class
from rushlight.capture.state.globals import is_of_users, module_of_class
from rushlight.capture.state.reachable import MARK, PLAIN, variables_of
from rushlight.eager.handle import Handle

Step = tuple[object, str, object]
"""From which object, how, and by which name or key."""
_Found = TypeVar("_Found")

_MOST = 1 << 15  # objects that are looked at: a fifth of a second
_MOST_ENTRIES = 1 << 14  # of a container that is looked into
ATTRIBUTES = frozenset(
    {"__globals__", "__closure__", "__defaults__", "__kwdefaults__", "__self__", "__func__", "__wrapped__"}
    | {"func", "args", "keywords", "cell_contents", "fget", "fset", "fdel", "__mro__", "__class__"}
)  # what `step` may ask for by name
_OF_FUNCTIONS = ("__defaults__", "__kwdefaults__", "__closure__", "__globals__")
_OF_PROPERTIES = ("fget", "fset", "fdel")


class Places:
    """The ways to what is reached from some roots, each with a name. They are looked for as far as somebody asks."""

    def __init__(self, roots: Iterable[tuple[str, object]]) -> None:
        self._steps: dict[int, Step] = {}
        self._functions: dict[int, FunctionType] = {}  # by the identity of their code; of several the first
        self._kept: list[object] = []  # so that identities stay those of one object
        self._queue: deque[Any] = deque()
        for name, root in roots:
            self._reach(root, None, "root", name)

    def step(self, value: object) -> Step | None:
        """The last step to an object; None where no way leads to it."""
        return self._found(self._steps, id(value))

    def function_of(self, code: CodeType) -> FunctionType | None:
        """A function of this code to which a way leads."""
        return self._found(self._functions, id(code))

    def _found(self, known: dict[int, _Found], key: int) -> _Found | None:
        while key not in known and self._queue and len(self._steps) < _MOST:
            owner = self._queue.popleft()
            for how, name, part in parts(owner):
                self._reach(part, owner, how, name)
        return known.get(key)

    def _reach(self, value: Any, owner: object, how: str, key: object) -> None:
        if type(value) in PLAIN or id(value) in self._steps or (type(value) is tuple and not value):
            return
        self._steps[id(value)] = owner, how, key
        if type(value) is FunctionType:
            self._functions.setdefault(id(value.__code__), value)
        self._kept.append(value)
        self._queue.append(value)


def parts(value: Any) -> Iterator[tuple[str, object, object]]:
    """What one step leads to from an object: how, by which name or key, and the part."""
    kind = type(value)
    if issubclass(kind, Handle):
        return
    if issubclass(kind, (dict, list, tuple)) and _length(value) <= _MOST_ENTRIES:
        items = dict.items(value) if issubclass(kind, dict) else enumerate(_iterated(value))
        yield from [("item", key, part) for key, part in list(items)]
    if kind is FunctionType:
        yield from [("attribute", name, getattr(value, name)) for name in _OF_FUNCTIONS if _has(value, name)]
        yield "variables", None, vars(value)
    elif kind is MethodType:
        yield from [("attribute", name, getattr(value, name)) for name in ("__self__", "__func__")]
    elif kind is functools.partial:
        yield from [("attribute", name, getattr(value, name)) for name in ("func", "args", "keywords")]
    elif kind in (staticmethod, classmethod):
        yield "attribute", "__func__", value.__func__
    elif kind is property:
        yield from [("attribute", name, getattr(value, name)) for name in _OF_PROPERTIES if _has(value, name)]
    elif kind is CellType:
        yield from [("attribute", "cell_contents", value.cell_contents)] if value != CellType() else []
    elif issubclass(kind, type):
        if _is_opened(value):
            yield "attribute", "__mro__", value.__mro__
            yield "class", None, variables_of_class(value)
    elif issubclass(kind, ModuleType):
        if is_of_users(value.__name__):
            yield "variables", None, vars(value)
    else:
        if kind is enum.property:
            yield from [("attribute", name, getattr(value, name)) for name in _OF_PROPERTIES if _has(value, name)]
        variables = _variables_if_told(value)
        if variables is not None:
            yield "variables", None, variables
        if _is_opened(kind):
            yield "attribute", "__class__", kind


def _variables_if_told(value: Any) -> dict[str, object] | None:
    try:
        return variables_of(value)
    except Exception:  # noqa: BLE001 - a class of the program's has a property of that name, which may raise anything
        return None


def _is_opened(cls: type) -> bool:
    """Whether functions are looked for in a class: of the program, of Python's library, of modules and optimizers."""
    module = module_of_class(cls)
    of_library = module.partition(".")[0] in sys.stdlib_module_names and bool(cls.__flags__ & HEAP_TYPE)
    return is_of_users(module) or of_library or hasattr(cls, MARK)


def _has(value: object, name: str) -> bool:
    return getattr(value, name) is not None


def _length(value: Any) -> int:
    """How many entries a container has, unasked where its class says something else."""
    return next(base for base in (dict, list, tuple) if issubclass(type(value), base)).__len__(value)


def _iterated(value: Any) -> Iterator[object]:
    return list.__iter__(value) if issubclass(type(value), list) else tuple.__iter__(value)


def follow(owner: Any, how: str, key: Any) -> Any:
    """What a step leads to. Errors: LookupError, AttributeError or ValueError where it leads nowhere."""
    if how == "item":
        base = next((base for base in (dict, list, tuple) if issubclass(type(owner), base)), None)
        if base is None:
            raise LookupError(key)
        return base.__getitem__(owner, key)
    if how == "variables":
        found = variables_of(owner)
        if found is None:
            raise LookupError(key)
        return found
    if how == "class":
        return variables_of_class(owner)
    if how == "attribute" and key in ATTRIBUTES:
        return getattr(owner, key)
    raise LookupError(how)


def named(module: str, path: str) -> Any:
    """What stands in a module that is loaded, under a qualified name. Errors: LookupError or AttributeError."""
    value: Any = sys.modules[module]
    for name in path.split(".") if path else ():
        value = getattr(value, name)
    return value


def name_of(value: Any) -> tuple[str, str] | None:
    """The module and the name under which a class, function or module stands, if it does."""
    if issubclass(type(value), ModuleType):
        return (value.__name__, "") if sys.modules.get(value.__name__) is value else None
    if type(value) not in (FunctionType, BuiltinFunctionType) and not issubclass(type(value), type):
        return None  # an object of the program's is asked for nothing
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(path) is not str or not path or "<" in path:
        return None
    try:
        return (module, path) if named(module, path) is value else None
    except (LookupError, AttributeError):
        return None


def names_of_ours() -> dict[int, tuple[str, str]]:
    """What stands in Rushlight's modules and in `builtins`, by identity: module and name."""
    found: dict[int, tuple[str, str]] = {}
    for module, space in list(sys.modules.items()):
        if module.partition(".")[0] == "rushlight" or module == "builtins":
            for name, value in list(vars(space).items()):
                if type(value) not in PLAIN:
                    found.setdefault(id(value), (module, name))
    return found
