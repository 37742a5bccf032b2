"""Objects of C that were there before a trace, and that may change with nothing that tells: no dict, list or slot.

Of an attribute each call compares the value. Whatever else is asked of such an object ends the graph.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import operator
import re
import struct
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from types import (
    CellType,
    ClassMethodDescriptorType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from rushlight.capture.interpreter.frame import UNBOUND
from rushlight.capture.interpreter.hooks import ANY_METHOD, COMPARING, MISSING
from rushlight.capture.interpreter.library import CACHED, COMPARED
from rushlight.capture.interpreter.slots import HEAP_TYPE, is_data_descriptor, lookup
from rushlight.capture.resume import breaks
from rushlight.capture.resume.blueprint import is_native, native_base
from rushlight.capture.resume.breaks import Break
from rushlight.capture.resume.interpreters.identifying import IdentifyingInterpreter
from rushlight.capture.resume.opaque import Opaque
from rushlight.capture.resume.reached import ReachedObjects, Reroot, is_namespace
from rushlight.capture.state.globals import is_of_users, module_of_class, module_of_globals
from rushlight.capture.state.places import ClassBox
from rushlight.capture.state.reachable import PLAIN, is_walked
from rushlight.eager.handle import Handle

_MOST_DICTS = 4  # of variables that one trace takes as state: those of new objects are others in each trace
_MOST_CLASSES = 1 << 12  # programs that make classes without end do not keep all of them
# Classes of C whose objects stay as they are, though each is equal to itself alone, and those of which the rest of the
# interpreter knows what may change.
_STEADY = (
    *(object, type(...), type(NotImplemented), property, staticmethod, classmethod, super, slice, functools.partial),
    *(GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType, np.ufunc, ZoneInfo),
    *(ClassMethodDescriptorType, operator.itemgetter, operator.attrgetter, operator.methodcaller, CACHED, COMPARED),
    *(re.Match, struct.Struct),
)
_KNOWN = (
    *(list, dict, set, deque, bytearray, type, BaseException),
    *(FunctionType, CellType, ModuleType, FrameType, TracebackType, MappingProxyType),
)
_CHANGING = (memoryview, np.void, ctypes.Structure.__mro__[1])  # though they say that they can be hashed
_OF_ALL = frozenset({"__dict__", "__weakref__", "__class__", "__doc__"})
_NAMES = frozenset({"__name__", "__qualname__"})
_OF_FUNCTIONS = frozenset({"__doc__", "__module__"})
_CALLED = frozenset({"__code__", "__defaults__", "__kwdefaults__"})  # which are guarded where a function is called
_known: dict[type, bool] = {}


def changes(kind: type) -> bool:
    """Whether objects of a class hold what C changes: not those that are told from others by their value."""
    known = _known.get(kind)
    if known is None:
        if len(_known) >= _MOST_CLASSES:
            _known.clear()
        known = _known[kind] = _changes(native_base(kind))
    return known


def _changes(base: type) -> bool:
    if issubclass(base, _CHANGING):
        return True
    if base in _STEADY or issubclass(base, _KNOWN) or module_of_class(base) == "typing":
        return False
    return lookup(base, "__hash__") in (None, object.__hash__)


class ShowingInterpreter(IdentifyingInterpreter):
    """An interpreter that lets no object of C be asked for what may be another thing at the next call."""

    __slots__ = ("tensors",)

    def __init__(self, is_leaf: Callable[[FunctionType], bool], reached: ReachedObjects) -> None:
        super().__init__(is_leaf, reached)
        self.tensors = reached.walk.reached_tensors()

    def tells(self, value: object, asked: frozenset[str] = ANY_METHOD) -> None:
        """Breaks before anything but its class is asked of an object of C that was there before: it may change."""
        kind = type(value)
        if kind in PLAIN:
            return
        if issubclass(kind, Handle):
            self._asks(value)
            return
        if issubclass(kind, Decimal) and "add" in asked:
            self.reached.walk.assumed.rounds()
        if id(value) in self.made:
            return
        if issubclass(kind, BaseException):
            if "str" in asked:
                self.shows(value)
        elif kind is ModuleType and isinstance(value, ModuleType):
            if "str" in asked and is_of_users(value.__name__):
                raise Break(breaks.PASSED_BY, "the names in a module are asked for")
        elif kind is dict and isinstance(value, dict):
            if "missing" not in asked and self._is_namespace(value):
                raise Break(breaks.PASSED_BY, "the globals of a module are used as a dict")
        elif self._is_of_class(value) if kind is MappingProxyType else changes(kind) and not _by_identity(kind, asked):
            self.shows(value)

    def owner(self, value: object, name: str) -> object:
        """What an attribute is taken of. Errors: Reroot for its variables as a dict, which is state from then on."""
        if name == "__dict__" and type(value) is not ModuleType and not self.reached.knows(value):
            variables = self._variables_of(value)
            if variables is not None and not self.reached.walk.holds_all_of(variables):
                if sum([type(root) is dict for root in self.reached.roots]) >= _MOST_DICTS:
                    raise Break(breaks.VARIABLES, "an object that each trace makes anew is taken as a dict")
                raise Reroot(variables)
        if name == "__dict__" and _is_named(value) and issubclass(type(value), type) and id(value) not in self.made:
            self._reads_containers(value)
        return super().owner(value, name)

    def imports(self, module: object) -> None:
        """Has a module guarded that a statement imports."""
        if type(module) is ModuleType and isinstance(module, ModuleType) and is_of_users(module.__name__):
            self.reached.walk.assumed.imports(module)

    def _reads_containers(self, cls: Any) -> None:
        """Has what stands in a class as state that may change in itself: its attributes are seen as a dict."""
        for name, value in vars(cls).items():
            if type(value) in (list, dict, set):
                self.reached.read(ClassBox(cls), name, value, f"{cls.__name__}.{name}")

    def finds(self, container: object, key: object) -> None:
        """Has a global guarded that is looked up by its name, or that it is not there."""
        if type(key) is str and type(container) is dict and self._is_namespace(container):
            if key in container:
                self.reads(container, key, container[key])
            else:
                self.lacks(container, key)

    def _is_namespace(self, variables: dict[Any, Any]) -> bool:
        """Whether a dict has the globals of a module of the program's, and is no state."""
        if id(variables) in self.made or self.reached.walk.holds_all_of(variables):
            return False
        return is_namespace(variables) and is_of_users(module_of_globals(variables))

    def shows(self, value: object) -> None:
        """Breaks before an object of C is looked into that was there before: it may change."""
        raise Break(breaks.PASSED_BY, f"a {type(value).__name__} is used that was there before")

    def _is_of_class(self, proxy: object) -> bool:
        """Whether a view shows the attributes of a class at which the trace has not looked."""
        (shown,) = gc.get_referents(proxy)
        return type(shown) is dict and "__module__" in shown and not self.reached.walk.assumed.is_shown(shown)

    def attribute(self, owner: object, name: str, native: Callable[[Any, str], object]) -> object:
        """An attribute: what C gives of an object that was there before is compared at each call."""
        kind = type(owner)
        if issubclass(kind, Handle):
            self._asks(owner)
        if kind is Opaque or id(owner) in self.made or self.reached.knows(owner) or issubclass(kind, Handle):
            return super().attribute(owner, name, native)
        if issubclass(kind, BaseException):
            if name != "__class__":
                self.shows(owner)
        elif kind is CellType and name == "cell_contents":
            value = self.contents(owner)
            if value is UNBOUND:
                raise Break(breaks.PASSED_BY, "the value of an empty variable is asked for")
            return value
        elif name in _CALLED and kind is FunctionType and isinstance(owner, FunctionType):
            self.parts_of(owner)
        elif name in _NAMES and _is_named(owner):
            self.reached.walk.assumed.names(owner, name)
        elif name in _OF_FUNCTIONS and kind is FunctionType and _is_named(owner):
            return self._compared(owner, name, native)
        elif name == "__annotations__" and _is_named(owner):
            value = super().attribute(owner, name, native)
            self.reached.walk.assumed.annotates(owner)
            return value
        elif changes(kind) and _is_state(kind, name):
            return self._compared(owner, name, native)
        return super().attribute(owner, name, native)

    def _asks(self, tensor: Any) -> None:
        """Has the form of a tensor of the state guarded, which the graph need not be given."""
        if id(tensor) in self.tensors:
            self.reached.walk.assumed.asked[id(tensor)] = tensor

    def _compared(self, owner: object, name: str, native: Callable[[Any, str], object]) -> object:
        """An attribute that each call compares. Breaks where it is missing, or a new object each time, or changes."""
        try:
            value, again = native(owner, name), native(owner, name)
        except Exception:
            self.shows(owner)
            raise
        if not _is_plain(value) and (value is not again or type(value) is FrameType or is_walked(value)):
            raise Break(breaks.PASSED_BY, f"the {name} of a {type(owner).__name__} that was there before")
        self.reached.walk.assumed.stays(owner, name, value)
        return value


def _by_identity(kind: type, asked: frozenset[str]) -> bool:
    """Whether C compares objects with others, and does so by their identity."""
    return not asked or ("eq" in asked and asked <= COMPARING and lookup(kind, "__eq__") is object.__eq__)


def _is_state(kind: type, name: str) -> bool:
    """Whether an attribute is what C holds: of no method, no class, and no variable of the object."""
    held = lookup(kind, name)
    if held is MISSING:
        return lookup(kind, "__getattribute__") is not object.__getattribute__
    descriptor = type(held)
    if name in _OF_ALL or descriptor is property or (descriptor.__flags__ & HEAP_TYPE and not is_native(descriptor)):
        return False
    if descriptor is MemberDescriptorType and isinstance(held, MemberDescriptorType):
        return is_native(held.__objclass__)
    return is_data_descriptor(descriptor)


def _is_named(owner: Any) -> bool:
    """Whether an object is a class or a function of the program's, which may be given another name."""
    if issubclass(type(owner), type):
        return bool(owner.__flags__ & HEAP_TYPE) and is_of_users(module_of_class(owner))
    return type(owner) is FunctionType and is_of_users(module_of_globals(owner.__globals__))


def _is_plain(value: object) -> bool:
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in PLAIN
