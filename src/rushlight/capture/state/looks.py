"""Into which lists, dicts and sets of the state, and tensors among the arguments, a trace has looked.

Of others only the identity is guarded. A container, or a tensor, comes to a trace as a value. It stays closed while the
trace moves it from variable to variable, hands it to interpreted functions, and takes methods of it, as the one that
`log.append` calls behind the graph. Whatever else is done with it, or with something that holds it, opens it.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)

from rushlight.capture.interpreter.slots import HEAP_TYPE
from rushlight.capture.state.globals import is_of_users, module_of_class, module_of_globals, names_in
from rushlight.eager.handle import Handle

CONTAINERS = (list, dict, set, deque, bytearray)
_METHODS = frozenset({BuiltinFunctionType, MethodWrapperType, MethodType})
_ATOMS = (type(None), bool, int, float, complex, str, bytes, ModuleType, CodeType, FrameType)
_OF_C = frozenset({"builtins", "collections", "functools", "itertools", "types"})  # modules of C's classes on the heap
_MOST_LOOKED_AT = 1 << 14  # objects of one call of C; behind these everything counts as looked at


class Looks:
    """What is still `closed` to a trace, by identity: containers, and what stands for tensors among the arguments.

    What the `known` objects hold, by identity, is not looked through. `hidden` are tensors that stand in containers
    alone that were closed at the beginning, or that modules and optimizers keep, with these; `kept` are the containers
    that these keep, with who does so, all by identity. `unread` are variables, by container and key, that the trace
    would have read by itself. `restless` are variables, and containers by identity, with their paths, of which a graph
    is to look at none: `stirred` is the path of one at which the trace has looked, or empty. Containers at `large`
    paths are among these, since they hold much.
    """

    __slots__ = ("_known", "closed", "hidden", "kept", "large", "restless", "stirred", "unread")

    def __init__(
        self,
        closed: Set[int],
        known: Set[int],
        hidden: Mapping[int, Set[int]],
        kept: Mapping[int, Set[int]],
        unread: Iterable[tuple[int, object]],
        restless: Mapping[object, str],
        large: Set[str],
    ) -> None:
        self.closed = set(closed)
        self.unread = set(unread)
        self.hidden = hidden
        self.kept = kept
        self._known = known
        self.restless = restless
        self.large = large
        self.stirred = ""

    def into(self, values: Iterable[object]) -> None:
        """Something is done with values, and not with what they hold."""
        for value in values:
            self._open({id(value), id(getattr(value, "__self__", None) if type(value) in _METHODS else value)})
            if type(value) is MappingProxyType:
                self._open(set(map(id, gc.get_referents(value))))

    def into_variable(self, place: tuple[int, object]) -> None:
        """A variable is read, of a container by identity."""
        self.closed.discard(place[0])
        self.unread.discard(place)
        self.stirred = self.restless.get(place, self.stirred)

    def into_variables(self, variables: Mapping[str, object], names: Iterable[str]) -> None:
        """Restless variables of an object of ours are read, and what they hold, by what is not interpreted."""
        for name in names if self.restless else ():
            self.into_variable((id(variables), name))
            self.through(self.held([variables.get(name)], objects=False))

    def through(self, found: Set[int] | None) -> None:
        """Something is done with values and with what they hold, as `held` has found it."""
        self._open(set(self.closed) if found is None else found)

    def _open(self, found: Set[int]) -> None:
        for key in (self.closed & found) if self.restless else ():
            self.stirred = self.restless.get(key, self.stirred)
        self.closed -= found

    def held(self, values: Iterable[object], *, objects: bool) -> set[int] | None:
        """Values and what they hold, by identity; None for more than can be told.

        With `objects` also what objects of the program hold, and what the functions name that are among them.
        """
        seen: set[int] = set()
        stack = [value for value in values if not issubclass(type(value), _ATOMS)]
        kept: list[object] = []  # what is made on the way lives until the end, so that identities are of one object
        while stack:
            value = stack.pop()
            if id(value) in seen or id(value) in self._known:
                continue
            seen.add(id(value))
            if len(seen) > _MOST_LOOKED_AT:
                return None
            if issubclass(type(value), Handle):
                continue
            parts = [part for part in _parts(value, objects) if not issubclass(type(part), _ATOMS)]
            kept.append(parts)
            stack += parts
        return seen


def _parts(value: object, objects: bool) -> Iterator[object]:
    """What a value holds, as far as C may look."""
    kind = type(value)
    if issubclass(kind, type) and isinstance(value, type):  # which asks no object of the program
        if objects and is_of_users(module_of_class(value)):
            yield from vars(value).values()
    elif kind is FunctionType and isinstance(value, FunctionType):
        if objects and is_of_users(module_of_globals(value.__globals__)):
            yield from _named(value)
    elif objects or any(map(_is_of_c, type.mro(kind))):
        yield from gc.get_referents(value)


def _is_of_c(base: type) -> bool:
    """Whether what a class adds to others is of C, which may look into it."""
    return base is not object and (not base.__flags__ & HEAP_TYPE or module_of_class(base) in _OF_C)


def _named(function: FunctionType) -> Iterator[object]:
    """What a function that runs as it is may read: its closure, its defaults and the globals that it names."""
    yield from gc.get_referents(function.__closure__ or (), function.__defaults__ or (), function.__kwdefaults__ or {})
    names = names_in(function.__code__)
    for name in names:
        value = function.__globals__.get(name)
        yield value
        if type(value) is ModuleType and isinstance(value, ModuleType) and is_of_users(value.__name__):
            yield from [vars(value).get(other) for other in names]
