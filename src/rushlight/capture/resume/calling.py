"""Which methods written in Python C may call, where it is given objects."""

from __future__ import annotations

import abc
import gc
import itertools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    NoneType,
    WrapperDescriptorType,
)
from typing import Any

from rushlight.capture.interpreter.hooks import ANY_METHOD, COMPARING, ITERATING, LOOKING_UP, MISSING
from rushlight.capture.interpreter.slots import HEAP_TYPE, lookup
from rushlight.capture.resume.blueprint import is_ours
from rushlight.capture.resume.identities import Identity
from rushlight.capture.resume.stubs import is_stub
from rushlight.eager.handle import Handle

SCALARS = frozenset({int, float, bool, str, bytes, complex, type(None), range})
_NATIVE: Any = abc  # its functions of C are of no stub
OF_ABSTRACT = frozenset(map(id, [_NATIVE._abc_instancecheck, _NATIVE._abc_subclasscheck]))
"""Functions of C, by identity, that tell of abstract classes what is of them: they look at the class of a value."""
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_WITH_METHODS = frozenset({*_CONTAINERS, defaultdict, OrderedDict})
_OF_C = frozenset(
    {NoneType, BuiltinFunctionType, WrapperDescriptorType, MethodDescriptorType, ClassMethodDescriptorType}
)  # what methods of C are in their classes
_NOTHING = frozenset[str]()
_OPERATORS = "add sub mul truediv floordiv mod divmod pow and or xor lshift rshift"
_KEYS = LOOKING_UP | {"missing"}  # what the keys of a dict are asked for, and its values are not
_VALUE = frozenset({"value"})  # what C takes of numbers, of which no class has a method
PAIRS = "pairs"  # with what is asked of an iterable: its values are pairs, of which the first part is
PAIR = "pair"  # the same of one of its values
_EXTENDING = ITERATING | LOOKING_UP | {"keys"}
_ASKED: dict[str, frozenset[str]] = {
    **dict.fromkeys(["append", "appendleft", "clear", "copy", "popleft", "popitem", "reverse"], _NOTHING),
    **dict.fromkeys(["keys", "values", "items", "__len__", "__iter__", "__reversed__"], _NOTHING),
    **dict.fromkeys(["__init_subclass__", "__subclasshook__"], _NOTHING),
    **dict.fromkeys(["extend", "extendleft"], ITERATING),
    **dict.fromkeys(["insert", "rotate", "pop", "__getitem__", "__delitem__"], LOOKING_UP | {"missing"}),
    **dict.fromkeys(["get", "setdefault", "add", "discard", "move_to_end", "__setitem__"], LOOKING_UP),
    **dict.fromkeys(["index", "count", "remove", "__contains__", "__eq__", "__ne__"], COMPARING),
    **dict.fromkeys(["union", "intersection", "difference", "symmetric_difference"], _EXTENDING),
    "update": _EXTENDING | {PAIRS},
}  # by methods of containers
COPYING = frozenset({"__reduce_ex__", "__reduce__", "__getstate__"})  # methods of `object` that ask for others of these
_ANY = ANY_METHOD | {"reduce", "getstate", "getnewargs", "getnewargs_ex"}
_BY_PLACE = frozenset({"insert", "rotate", "pop", "__getitem__", "__setitem__", "__delitem__"})
_SEQUENCES = (list, tuple, deque)
_MAKING = ("__new__", "__init__", "__setitem__")
_OF_CLASSES = frozenset({"__init_subclass__", "__subclasshook__", "__class_getitem__"})  # of C, that make no object


_NUMBERS = (int, bool, float, complex)
_OF_NUMBERS = frozenset(
    [f"__{side}{name}__" for name in _OPERATORS.split() for side in ("", "r")]
    + [f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")]
)  # methods that take the values of numbers of C, and ask objects of other classes nothing
_ASKED_BY: dict[int, frozenset[str]] = {
    **dict.fromkeys(map(id, [list, tuple, enumerate, zip, reversed, iter, deque]), ITERATING),
    **dict.fromkeys(map(id, [dict, OrderedDict]), _EXTENDING | {PAIRS}),
    **dict.fromkeys(map(id, [set, frozenset]), _EXTENDING),
    **dict.fromkeys(map(id, [vars, isinstance, callable, type, MappingProxyType]), _NOTHING),
    # These leave their arguments to `__init__`.
    **dict.fromkeys([id(kind.__new__) for kind in (dict, OrderedDict, defaultdict, list, set, deque)], _NOTHING),
    **dict.fromkeys(OF_ABSTRACT, _NOTHING),
}  # by functions and classes of C, which are told by identity: a program's function may compare as it likes


class _Indexed:
    def __getitem__(self, index: int) -> int:
        raise IndexError


_GROUP = type(next(itertools.groupby("a"))[1])
OVER_ITERATORS = frozenset(
    {zip, map, filter, enumerate, reversed, type(iter(_Indexed())), type(iter(int, 0))}
    | {kind for kind in [*vars(itertools).values(), _GROUP] if isinstance(kind, type)}
)  # of C, that ask others for each value
_LOOKING_AT = frozenset(
    {filter, itertools.filterfalse, itertools.takewhile, itertools.dropwhile, itertools.compress}
    | {itertools.accumulate, itertools.groupby, _GROUP}
)
_OVER_CONTAINERS = frozenset(
    {type(iter(held)) for held in ([], (), set[int](), {}, {}.values(), {}.items(), deque[int]())}
    | {type(reversed(held)) for held in ([], {}, {}.values(), {}.items())}
)
_MOST_CLASSES = 1 << 12  # programs that make classes without end do not keep all of them
_known: dict[type, frozenset[str]] = {}
# What C does not ask them for, but looks at the number.
_OF_IDENTITIES = (ANY_METHOD | _VALUE) - COMPARING - LOOKING_UP - {"bool", "contains", "missing"}


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


def asked_by(function: Any, owner: object) -> frozenset[str]:
    """The methods that a function of C may ask its arguments for, and its owner and what these hold."""
    asked = _ASKED_BY.get(id(function))
    if asked is not None:
        return asked
    name: str = getattr(function, "__name__", "")
    asked = _ASKED.get(name)
    if name in COPYING:
        return _ANY
    if owner is None or (asked is None and name not in _OF_NUMBERS):
        return ANY_METHOD
    cls = definer(owner, name)
    if cls in _NUMBERS:
        return _VALUE if name in _OF_NUMBERS else ANY_METHOD
    return ANY_METHOD if asked is None or not (cls in _WITH_METHODS or asked is _NOTHING) else asked


def asked_of_owner(function: Any, owner: object, asked: frozenset[str]) -> frozenset[str]:
    """What a function asks of what its owner holds: nothing of a sequence whose item is told by its place."""
    name: str = getattr(function, "__name__", "")
    return _NOTHING if name in _BY_PLACE and definer(owner, name) in _SEQUENCES else asked


def asked_itself(asked: frozenset[str]) -> frozenset[str]:
    """What a function asks its owner itself: one that looks up a key asks the keys."""
    return asked & {"missing"} if asked <= _KEYS else asked


def called_in(operand: object, asked: frozenset[str], itself: frozenset[str]) -> list[type]:
    """The classes of an operand, and of what it holds, that have one of these methods in Python.

    The operand is asked for others `itself`.
    """
    seen: set[int] = set()
    found: list[type] = []
    of_held = asked - ITERATING if asked is ANY_METHOD else asked - ITERATING - {"contains"}
    waiting: list[tuple[Any, frozenset[str]]] = [(operand, asked)]
    while waiting:
        value, wanted = waiting.pop()
        kind = type(value)
        if kind in SCALARS or issubclass(kind, Handle):
            continue
        if python_methods(kind) & (itself if value is operand else wanted) and kind not in found:
            found.append(kind)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if PAIR in wanted and kind in (tuple, list):
            waiting += [(part, wanted - ITERATING - {PAIR, PAIRS}) for part in value[:1]]
            continue
        if PAIRS in wanted and kind in (tuple, list):
            waiting += [(part, wanted - {PAIRS} | {PAIR}) for part in value]
            continue
        if kind in OVER_ITERATORS:
            waiting += [(part, asked) for part in gc.get_referents(value)]
        elif kind in _OVER_CONTAINERS and of_held:
            waiting += [(part, of_held) for part in gc.get_referents(value)]
        elif of_held:
            looked_up = issubclass(kind, dict) and of_held <= _KEYS | {PAIRS, "keys"}
            held = dict.keys(value) if looked_up else _held(kind, value)
            waiting += [(part, of_held) for part in held if type(part) not in SCALARS]  # large ones hold mostly these
    return found


def asked_on_the_way(iterator: object) -> frozenset[str]:
    """The methods that iterators of C ask the values for that others give them."""
    waiting, seen = [iterator], set[int]()
    while waiting:
        value = waiting.pop()
        if type(value) in _LOOKING_AT:
            return ANY_METHOD
        if type(value) in OVER_ITERATORS and id(value) not in seen:
            seen.add(id(value))
            waiting += gc.get_referents(value)
    return _NOTHING


def _held(kind: type, value: Any) -> Iterable[object]:
    """What C may look at in a value of a class."""
    if kind is slice:
        return value.start, value.stop, value.step
    if issubclass(kind, dict):
        return [part for pair in dict.items(value) for part in pair]  # no key is looked up, which might call methods
    base: Any = next((base for base in _CONTAINERS if issubclass(kind, base)), None)
    return () if base is None else base.__iter__(value)


def python_methods(cls: type) -> frozenset[str]:
    """The methods that C may call of a class which are written in Python."""
    if not cls.__flags__ & HEAP_TYPE:
        return _NOTHING
    if cls is Identity:
        return _OF_IDENTITIES
    known = _known.get(cls)
    if known is None:
        if len(_known) >= _MOST_CLASSES:
            _known.clear()
        known = _known[cls] = frozenset([name for name in _ANY if not is_of_c(lookup(cls, f"__{name}__"))])
    return known


def is_of_c(method: object) -> bool:
    """Whether C may run a method while a function is traced: of C, ours, a named tuple, an enumeration."""
    function = getattr(method, "__func__", method) if type(method) in (staticmethod, classmethod) else method
    if type(function) is FunctionType and isinstance(function, FunctionType):
        module: str = function.__globals__.get("__name__", "")
        return module in ("collections", "enum") or (is_ours(module) and not is_stub(function))
    return function is MISSING or type(function) in _OF_C


def is_interpretable(method: object) -> bool:
    """Whether a method can be interpreted where C calls it, or need not be."""
    return type(method) in (FunctionType, classmethod, staticmethod) or is_of_c(method)


def is_filled_in_python(cls: Any, function: Any) -> bool:
    """Whether a class method of C, as `fromkeys`, fills an object by methods written in Python."""
    method = next((vars(base)[function.__name__] for base in cls.__mro__ if function.__name__ in vars(base)), None)
    if type(method) is not ClassMethodDescriptorType or function.__name__ in _OF_CLASSES:
        return False
    return not all(map(is_of_c, [lookup(type(cls), "__call__"), *[lookup(cls, name) for name in _MAKING]]))
