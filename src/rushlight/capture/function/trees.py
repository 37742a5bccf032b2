"""Calls with objects of classes that a program has registered as trees: graphs take and give their parts.

Without this such an object is one that a graph knows by identity, and each object has a graph of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from rushlight.eager.pytree import NODES, Structure, flatten_tree, unflatten_tree
from rushlight.eager.symbols import SymBool, SymFloat, SymInt
from rushlight.support.errors import fail

_CONTAINERS = frozenset(NODES)  # those of Python, which graphs know by themselves
_MOST_KINDS = 16


Graphs = TypeVar("Graphs", bound=Callable[..., Any])


def _is_registered(kind: object) -> bool:
    return kind in NODES and kind not in _CONTAINERS


def is_tree(value: object) -> bool:
    """Whether an argument is an object of a registered class."""
    return _is_registered(type(value))


def has_trees(args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether an argument of a call is an object of a registered class."""
    if len(NODES) == len(_CONTAINERS):
        return False
    kinds = NODES.keys() & {*map(type, args), *map(type, kwargs.values())}  # a call asks no function of ours
    return not kinds <= _CONTAINERS


class TreeCalls(Generic[Graphs]):
    """Calls of one function with objects of registered classes.

    `make` gives what runs the graphs of a function.
    There is a graph for each way in which objects are put together, with sizes as open as those of other tensors. A
    function sees objects of the same parts, and not the same objects: C036 where it changes one. `in_parts` is whether
    calls run without a graph for all of them, since one has failed.
    """

    def __init__(self, function: Callable[..., object], make: Callable[[Callable[..., object]], Graphs]) -> None:
        self._function, self._make = function, make
        self._kinds: list[tuple[dict[object, Structure], Graphs]] = []
        self.in_parts = False

    def reset(self) -> None:
        """Forgets all graphs."""
        self._kinds.clear()
        self.in_parts = False

    def graphs(self) -> list[Graphs]:
        """What runs the graphs, the newest last."""
        return [graphs for _, graphs in self._kinds]

    def run(self, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """What a call gives."""
        structures: dict[object, Structure] = {}
        opened = [_opened(at, value, structures) for at, value in enumerate(args)]
        named = {name: _opened(name, value, structures) for name, value in kwargs.items()}
        graphs = next((graphs for kind, graphs in self._kinds if kind == structures), None)
        if graphs is None:
            graphs = self._make(_Closing(self._function, structures))
            self._kinds = [*self._kinds[1 - _MOST_KINDS :], (structures, graphs)]
        result, structure = graphs(*opened, **named)
        return result if structure is None else unflatten_tree(structure, result)


def _opened(at: object, value: object, structures: dict[object, Structure]) -> object:
    """The parts of an object in place of it; how they belong together is noted."""
    if not is_tree(value):
        return value
    leaves, structures[at] = flatten_tree(value)
    return tuple(leaves)


def _taken_apart(result: object) -> tuple[object, Structure | None]:
    """The parts of a result that has objects, and how they belong together; else the result itself."""
    leaves, structure = flatten_tree(result)
    if not _has_tree(structure):
        return result, None
    return tuple(leaves), structure


def _has_tree(structure: Structure) -> bool:
    if structure.is_leaf():
        return False
    own = _is_registered(structure.type)
    if own and _has_size(structure.context):
        fail("C036", "compile: an object that is returned depends on a size beside its tensors", kind=structure.type)
    return any([own, *map(_has_tree, structure.children())])


def _has_size(context: object) -> bool:
    if isinstance(context, tuple | list):
        return any(map(_has_size, context))
    return isinstance(context, SymInt | SymFloat | SymBool)


class _Closing:
    """The function of the parts of objects: it puts them together, and takes apart what it returns."""

    def __init__(self, function: Callable[..., object], structures: Mapping[object, Structure]) -> None:
        self._function, self._structures = function, structures
        self.__qualname__: str = getattr(function, "__qualname__", type(function).__name__)

    def __call__(self, *args: object, **kwargs: object) -> object:
        given = [self._closed(at, value) for at, value in enumerate(args)]
        named = {name: self._closed(name, value) for name, value in kwargs.items()}
        result = _taken_apart(self._function(*given, **named))
        for at, value in [*enumerate(given), *named.items()]:
            if at in self._structures:
                self._require_same(value, kwargs[at] if isinstance(at, str) else args[at])
        return result

    def _closed(self, at: object, value: Any) -> object:
        structure = self._structures.get(at)
        return value if structure is None else unflatten_tree(structure, value)

    def _require_same(self, value: object, parts: Any) -> None:
        leaves, _ = flatten_tree(value)
        if len(leaves) != len(parts) or any(one is not other for one, other in zip(leaves, parts, strict=True)):
            fail("C036", "compile: an object that is taken apart changes", kind=type(value).__name__)
