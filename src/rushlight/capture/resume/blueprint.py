"""How an object is built again from its parts: what its class made of C holds, its slots and its attributes."""

from __future__ import annotations

import contextlib
import gc
from _thread import LockType, RLock, allocate_lock
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key, partial
from io import BytesIO, StringIO
from operator import is_
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.library import CACHED, COMPARED, Callback
from rushlight.capture.interpreter.slots import HEAP_TYPE, lookup, slot_value
from rushlight.capture.resume.identities import Identity
from rushlight.capture.state.globals import module_of_class
from rushlight.capture.state.reachable import MARK, PLAIN, variables_of
from rushlight.capture.values import plain_key
from rushlight.eager.handle import Handle
from rushlight.eager.pytree import NODES
from rushlight.eager.tensor_meta import Size
from rushlight.support.frozen import frozen

Given = list[Any]
"""The parts from which an object is built, each of a class of its own."""
_PACKAGE = __name__.partition(".")[0]
# Packages of ours that are written as users write theirs.
_PROGRAMS = frozenset({"bench", "cli", "conformance", "demo", "distributions", "models"})
_OF_PARTS = f"{_PACKAGE}.distributions."  # of ours, whose objects hold parts alone
_OF_C_ALONE = (1 << 7) | (1 << 8)  # flags of classes of C: that cannot be called, and that cannot be changed
_METHODS_OF_C = frozenset({MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType})


@frozen(eq=False)
class Blueprint:
    """The parts of an object. `make` gives it from its class and the `first` parts, `fill` puts the `others` into it.

    Others may refer to the object itself, first parts cannot.
    """

    first: Sequence[object]
    make: Callable[[type, Given], Any]
    others: Sequence[object]
    fill: Callable[[Any, Given], None]


_Putting = Callable[[set[object], Iterable[object]], None]


class _Base(NamedTuple):
    """How instances are built of what derives from a class of C: `first`, `make` and `fill` of its own content."""

    first: Callable[[Any], Sequence[object]]
    make: Callable[[type, Given], Any]
    content: Callable[[Any], Sequence[object]]
    fill: Callable[[Any, Given], None]


def blueprint_of(value: Any) -> Blueprint | None:
    """The blueprint of an object. None for one that only its own class can make."""
    kind = type(value)
    base = native_base(kind)
    if not (issubclass(base, BaseException) or base in _BASES) or not (base is tuple or is_of_program(kind)):
        return None
    rule = _rule_of(base)
    if base is CACHED and not _is_shown(value):
        return None
    if rule.content in (_pairs, _members) and not _has_plain_keys(value):
        return None
    if base is set and not _keeps_order(value):
        return None
    variables = variables_of(value) or {}
    names = list(variables)
    slots = {place: held for place, slot in _slots_of(kind) if (held := slot_value(slot, value)) is not MISSING}
    attributes = [*variables.values(), *slots.values()]
    content = rule.content(value)
    count = len(content)

    filling = Filler(base, count, tuple(names), tuple(slots))
    return Blueprint(rule.first(value), Maker(base), [*content, *attributes], filling)


@frozen
class Maker:
    """Makes an object of a class that derives from `base`, which is made of C, from the first parts."""

    base: type

    def __call__(self, kind: type, first: Given) -> Any:
        """The object, which has no content yet."""
        return _rule_of(self.base).make(kind, first)


@frozen
class Filler:
    """Puts parts into an object: `count` of its base's content, then the attributes of these names, then slots."""

    base: type
    count: int
    names: tuple[str, ...]
    slots: tuple[tuple[int, str], ...]

    def __call__(self, made: Any, parts: Given) -> None:
        """Fills an object."""
        count, names = self.count, self.names
        if count:
            _rule_of(self.base).fill(made, parts[:count])
        own = variables_of(made) if names else None
        if own is not None:
            own.update(zip(names, parts[count:], strict=False))
        for (depth, name), part in zip(self.slots, parts[count + len(names) :], strict=True):
            vars(type(made).__mro__[depth])[name].__set__(made, part)


def _rule_of(base: type) -> _Base:
    return _exception(base) if issubclass(base, BaseException) else _BASES[base]


def is_of_program(kind: type) -> bool:
    """Whether a class is none of ours: no tensor, module or optimizer, and no generator of the interpreter.

    One that is a node of trees, as jagged tensors are, holds parts alone, wherever it is written.
    """
    if hasattr(kind, MARK) or issubclass(kind, (Handle, Resumable)):
        return False
    module = module_of_class(kind)
    return kind in NODES or module.partition(".")[0] != _PACKAGE or module.startswith(_OF_PARTS)


def is_ours(module: str) -> bool:
    """Whether a module is one of ours, and not one of those that are written as users write theirs."""
    return module.startswith(f"{_PACKAGE}.") and module.split(".")[1] not in _PROGRAMS


def native_base(kind: type) -> type:
    """The first class that is made of C among a class and its bases."""
    return next(cls for cls in kind.__mro__ if is_native(cls))


def is_native(cls: type) -> bool:
    """Whether a class is made of C: a static type, or one on the heap that no statement has made."""
    flags = cls.__flags__
    if not flags & HEAP_TYPE or flags & _OF_C_ALONE or type(vars(cls).get("__new__")) is BuiltinFunctionType:
        return True
    return any(type(value) in _METHODS_OF_C and value.__objclass__ is cls for value in vars(cls).values())


def _slots_of(kind: type) -> Iterator[tuple[tuple[int, str], MemberDescriptorType]]:
    """The members that `__slots__` gives instances, each with the place of its class and its name."""
    written = kind.__mro__[: kind.__mro__.index(native_base(kind))]
    for depth, cls in enumerate(written):
        for name, member in vars(cls).items():
            if type(member) is MemberDescriptorType:
                yield (depth, name), member


def _has_plain_keys(value: Any) -> bool:
    """Whether keys of a dict, or members of a set, are hashed and compared without a look into them."""
    keys = dict.__iter__(value) if isinstance(value, dict) else set.__iter__(value)
    return all(map(is_plain_key, keys))


def _keeps_order(value: Any) -> bool:
    """Whether members, put into a new set, are in the order in which they are in a set: it tells how that was made.

    Where objects are hashed by their identity each call has an order of its own.
    """
    members = list(set.__iter__(value))
    return any(type(plain_key(member)) not in PLAIN for member in members) or _order_kept(members) is not None


def _order_kept(members: list[object]) -> _Putting | None:
    """The order of insertion that makes a new set iterate in this one's order; None if there is none."""
    for put in (set.update, _merge):
        made = set[object]()
        put(made, members)
        if all(map(is_, made, members)):
            return put
    return None


def _merge(made: set[object], members: Iterable[object]) -> None:
    made.update(frozenset(members))  # for which the table grows at once, as for the members of a statement's constant


def _put_members(made: set[object], members: list[object]) -> None:
    (_order_kept(members) or set.update)(made, members)


def is_plain_key(value: object) -> bool:
    """Whether a key is plain, told by its identity alone, or a tuple of such keys."""
    key = plain_key(value)
    kind = type(key)
    if isinstance(key, (tuple, frozenset)) and kind in (tuple, frozenset, Size):
        return all(map(is_plain_key, key))
    return kind in PLAIN or kind is Identity or (is_by_identity(kind) and not issubclass(kind, Handle))


def is_by_identity(cls: type) -> bool:
    """Whether each object of a class is equal to itself alone."""
    return lookup(cls, "__hash__") is object.__hash__ and lookup(cls, "__eq__") is object.__eq__


def _nothing(value: object) -> Sequence[object]:
    return ()


def _pairs(value: Any) -> list[object]:
    """Keys and values in turns."""
    return [part for key in dict.__iter__(value) for part in (plain_key(key), dict.__getitem__(value, key))]


def _members(value: Any) -> list[object]:
    """The members of a set."""
    return [plain_key(member) for member in set.__iter__(value)]


def _put(made: dict[object, object], parts: Given) -> None:
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        dict.__setitem__(made, key, value)


def _put_in_order(made: OrderedDict[object, object], parts: Given) -> None:
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        OrderedDict.__setitem__(made, key, value)


def _deque(kind: Any, first: Given) -> Any:
    made: deque[object] = deque.__new__(kind)
    deque[object].__init__(made, (), *first)
    return made


def _defaultdict(kind: Any, first: Given) -> Any:
    made = defaultdict.__new__(kind)
    defaultdict.__init__(made, *first)
    return made


def _property(made: property, parts: Given) -> None:
    property.__init__(made, *parts[:3])
    if made.__doc__ is not parts[3]:
        property.__init__(made, *parts)


def _empty(base: Any) -> Callable[[type, Given], Any]:
    return lambda kind, first: base.__new__(kind)


def _of_function(base: Any) -> _Base:
    """Of objects that keep a function, and what it is called."""

    def fill(made: Any, parts: Given) -> None:
        base.__init__(made, *parts)
        vars(made).clear()  # of what the function is called the object may have kept nothing

    return _Base(_nothing, _empty(base), lambda value: [value.__func__], fill)


def _lock(held: Any) -> object:
    made = allocate_lock()
    if held:
        made.acquire()
    return made


def _of_buffer(buffer: Any) -> list[object]:
    """What a file in memory says of itself; nothing if it is closed."""
    return [] if buffer.closed else [buffer.__getstate__()]


def _buffer(kind: Any, state: Sequence[object]) -> object:
    made = kind()
    if state:
        made.__setstate__(*state)
    else:
        made.close()
    return made


def _turns(lock: Any) -> int:
    """How often this thread has taken a lock that it may take again: nobody else knows one of the trace."""
    if not lock._is_owned():
        return 0
    state: tuple[int, int] = lock._release_save()
    lock._acquire_restore(state)
    return state[0]


def _taken(turns: int) -> object:
    made = RLock()
    for _ in range(turns):
        made.acquire()
    return made


def _of_key(key: object) -> list[object]:
    """The function that compares a key, and, if it has one, its value."""
    return [part for part in gc.get_referents(key) if part is not type(key)]


def _key(compare: Callable[[object, object], int], *value: object) -> object:
    make = cmp_to_key(compare)
    return make(*value) if value else make


def _is_shown(cache: Any) -> bool:
    """Whether a cache of results is empty, so that C shows all of it, and is as `functools` has made it."""
    return cache.cache_info()[:2] == (0, 0) and "cache_parameters" in vars(cache) and len(_kept_by(cache)) == 1


def _kept_by(cache: object) -> list[object]:
    """The function whose results a cache keeps."""
    return [part for part in gc.get_referents(cache) if isinstance(part, Callback)]


def _cached(cache: Any) -> Sequence[object]:
    return [*_kept_by(cache), *cache.cache_parameters().values(), type(cache.cache_info())]


_OF_EXCEPTIONS = ("args", "__cause__", "__context__", "__suppress_context__", "__traceback__")


def _exception(base: Any) -> _Base:
    """Of exceptions: the arguments, what is around them, and what C keeps beside, as the name of an attribute."""
    members = [name for cls in base.__mro__ for name, member in vars(cls).items() if _is_member(member)]
    names = [*_OF_EXCEPTIONS, *dict.fromkeys(members)]

    def first(value: Any) -> list[object]:
        return [(value.message, value.exceptions) if issubclass(base, BaseExceptionGroup) else value.args]

    def fill(made: Any, parts: Given) -> None:
        for name, part in zip(names, parts, strict=True):
            with contextlib.suppress(AttributeError):  # what is only read has been given to the class
                setattr(made, name, part)

    return _Base(
        first,
        lambda kind, parts: base.__new__(kind, *parts[0]),
        lambda value: [getattr(value, name) for name in names],
        fill,
    )


def _is_member(value: object) -> bool:
    return type(value) is MemberDescriptorType and value.__name__ != "__suppress_context__"


def _scalar(base: type, plain: Callable[[Any], object]) -> _Base:
    return _Base(lambda value: [plain(value)], lambda kind, first: base.__new__(kind, *first), _nothing, _refuse)


def _refuse(made: object, parts: Given) -> None:
    raise TypeError(type(made).__name__)


_BASES: dict[type, _Base] = {
    object: _Base(_nothing, lambda kind, first: object.__new__(kind), _nothing, _refuse),
    tuple: _Base(lambda value: list(tuple.__iter__(value)), tuple.__new__, _nothing, _refuse),
    list: _Base(_nothing, lambda kind, first: list.__new__(kind), list.copy, list.extend),
    dict: _Base(_nothing, lambda kind, first: dict.__new__(kind), _pairs, _put),
    OrderedDict: _Base(_nothing, lambda kind, first: OrderedDict.__new__(kind), _pairs, _put_in_order),
    set: _Base(_nothing, lambda kind, first: set.__new__(kind), _members, _put_members),
    deque: _Base(lambda value: [value.maxlen], _deque, lambda value: list(deque.__iter__(value)), deque.extend),
    defaultdict: _Base(lambda value: [value.default_factory], _defaultdict, _pairs, _put),
    bytearray: _Base(
        _nothing, _empty(bytearray), lambda value: [bytes(value)], lambda made, parts: bytearray.__init__(made, *parts)
    ),
    partial: _Base(
        lambda value: [value.func, value.args],
        lambda kind, first: partial.__new__(kind, first[0], *first[1]),
        lambda value: _pairs(value.keywords),
        lambda made, parts: _put(made.keywords, parts),
    ),
    property: _Base(
        _nothing,
        _empty(property),
        lambda value: [getattr(value, name) for name in ("fget", "fset", "fdel", "__doc__")],
        _property,
    ),
    CACHED: _Base(_cached, lambda kind, first: kind(*first), _nothing, _refuse),
    LockType: _Base(lambda lock: [lock.locked()], lambda kind, first: _lock(*first), _nothing, _refuse),
    RLock: _Base(lambda lock: [_turns(lock)], lambda kind, first: _taken(*first), _nothing, _refuse),
    StringIO: _Base(_of_buffer, _buffer, _nothing, _refuse),
    BytesIO: _Base(_of_buffer, _buffer, _nothing, _refuse),
    COMPARED: _Base(_of_key, lambda kind, first: _key(*first), _nothing, _refuse),
    staticmethod: _of_function(staticmethod),
    classmethod: _of_function(classmethod),
    int: _scalar(int, int.__int__),
    float: _scalar(float, float.__float__),
    str: _scalar(str, str.__str__),
}
