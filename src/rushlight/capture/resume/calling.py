"""Which methods written in Python C may call, where it is given objects."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    NoneType,
    WrapperDescriptorType,
)
from typing import Any

from rushlight.capture.interpreter.hooks import ANY_METHOD, COMPARING, ITERATING, LOOKING_UP, MISSING
from rushlight.capture.interpreter.slots import HEAP_TYPE, lookup
from rushlight.capture.resume.blueprint import is_ours
from rushlight.eager.handle import Handle

SCALARS = frozenset({int, float, bool, str, bytes, complex, type(None), range})
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_WITH_METHODS = frozenset({*_CONTAINERS, defaultdict, OrderedDict})
_OF_C = frozenset(
    {NoneType, BuiltinFunctionType, WrapperDescriptorType, MethodDescriptorType, ClassMethodDescriptorType}
)  # what methods of C are in their classes
_NOTHING = frozenset[str]()
_EXTENDING = ITERATING | LOOKING_UP | {"keys"}
_ASKED: dict[str, frozenset[str]] = {
    **dict.fromkeys(["append", "appendleft", "clear", "copy", "popleft", "popitem", "reverse"], _NOTHING),
    **dict.fromkeys(["keys", "values", "items", "__len__", "__iter__", "__reversed__"], _NOTHING),
    **dict.fromkeys(["__init_subclass__", "__subclasshook__"], _NOTHING),
    **dict.fromkeys(["extend", "extendleft"], ITERATING),
    **dict.fromkeys(["insert", "rotate", "pop", "__getitem__", "__delitem__"], LOOKING_UP | {"missing"}),
    **dict.fromkeys(["get", "setdefault", "add", "discard", "move_to_end", "__setitem__"], LOOKING_UP),
    **dict.fromkeys(["index", "count", "remove", "__contains__", "__eq__", "__ne__"], COMPARING),
    **dict.fromkeys(["update", "union", "intersection", "difference", "symmetric_difference"], _EXTENDING),
}  # by methods of containers
_MOST_CLASSES = 1 << 12  # programs that make classes without end do not keep all of them
_known: dict[type, frozenset[str]] = {}


def forget_methods() -> None:
    """Forgets which methods classes have: one may have changed."""
    _known.clear()


def definer(owner: object, name: str) -> type:
    """The class whose method of C, bound to an owner, has a name; or else the owner's own."""
    own = owner if isinstance(owner, type) else type(owner)
    for cls in [*type.mro(own), *type.mro(type(own))]:
        if name in vars(cls) and type(vars(cls)[name]) in _OF_C:
            return cls
    return own


def asked_by(function: object, owner: object) -> frozenset[str]:
    """The methods that a function of C may ask its arguments for, and its owner and what these hold."""
    if function in (list, tuple, enumerate, zip, reversed, iter, deque):
        return ITERATING
    if function in (vars, isinstance, callable, type):
        return _NOTHING
    name: str = getattr(function, "__name__", "")
    if owner is None or name not in _ASKED:
        return ANY_METHOD
    cls = definer(owner, name)
    return _ASKED[name] if cls in _WITH_METHODS or _ASKED[name] is _NOTHING else ANY_METHOD


def called_in(operand: object, asked: frozenset[str]) -> type | None:
    """The class of an operand, or of what it holds, that has one of these methods in Python, if one has."""
    seen: set[int] = set()
    waiting, of_held = [operand], asked - ITERATING
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in SCALARS or issubclass(kind, Handle):
            continue
        if python_methods(kind) & (asked if value is operand else of_held):
            return kind
        if id(value) not in seen and of_held:
            seen.add(id(value))
            waiting += _held(kind, value)
    return None


def _held(kind: type, value: Any) -> Iterable[object]:
    """What C may look at in a value of a class."""
    if kind is slice:
        return value.start, value.stop, value.step
    if issubclass(kind, dict):
        return [part for key in dict.__iter__(value) for part in (key, dict.__getitem__(value, key))]
    base: Any = next((base for base in _CONTAINERS if issubclass(kind, base)), None)
    return () if base is None else base.__iter__(value)


def python_methods(cls: type) -> frozenset[str]:
    """The methods that C may call of a class which are written in Python."""
    if not cls.__flags__ & HEAP_TYPE:
        return _NOTHING
    known = _known.get(cls)
    if known is None:
        if len(_known) >= _MOST_CLASSES:
            _known.clear()
        known = _known[cls] = frozenset([name for name in ANY_METHOD if not is_of_c(lookup(cls, f"__{name}__"))])
    return known


def is_of_c(method: object) -> bool:
    """Whether C may run a method while a function is traced: of C, ours, a named tuple, an enumeration."""
    function = getattr(method, "__func__", method) if type(method) in (staticmethod, classmethod) else method
    if type(function) is FunctionType and isinstance(function, FunctionType):
        module: str = function.__globals__.get("__name__", "")
        return module in ("collections", "enum") or is_ours(module)
    return function is MISSING or type(function) in _OF_C
