"""The Term: an operator applied to operands, immutable and typed at birth."""

from __future__ import annotations

import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar

from rushlight.support import lazy

Attrs = tuple[tuple[str, Any], ...]


class Op:
    """The operator of a Term. Languages subclass it with their rules; here it is only a name.

    Ops are compared by identity; a language holds one object per name. Of one with an `effect` each term is an event
    beyond its value: kept, once, and in order. One that is `inlined` has no terms: the calls that it consists of are.
    """

    __slots__ = ("effect", "inlined", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.effect = False
        self.inlined = False

    @property
    def unbacked_outputs(self) -> tuple[str, ...]:
        """The attributes that name symbols known only after the operator has run."""
        return ()

    def __repr__(self) -> str:
        return self.name


class Term:
    """An operator applied to operands, with attributes and a type.

    Equality and hash are identity: where equal terms must be one object (sizes, scalars) they are made by `interned`;
    a tensor call is an event and is never merged at birth. There are no pointers to users, so a term that nothing
    refers to is freed at once.
    """

    __slots__ = ("__weakref__", "attrs", "op", "operands", "type")

    op: Op
    operands: tuple[Any, ...]
    attrs: Attrs
    type: Any

    def __init__(self, op: Op, operands: tuple[object, ...], attrs: Attrs, type: object) -> None:
        _set_op(self, op)
        _set_operands(self, operands)
        _set_attrs(self, attrs)
        _set_type(self, type)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name!r}")

    def attr(self, name: str) -> Any:
        """The value of one attribute; KeyError when the term has none of that name."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(name)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def slot_setter(cls: type, name: str) -> Callable[[object, object], None]:
    """Return the setter of a slot, for immutable classes: three times as fast as object.__setattr__."""
    return cls.__dict__[name].__set__


_set_op, _set_operands = slot_setter(Term, "op"), slot_setter(Term, "operands")
_set_attrs, _set_type = slot_setter(Term, "attrs"), slot_setter(Term, "type")

T = TypeVar("T", bound=Term)


def attr_key(value: Any) -> object:
    """A dict key under which 1, True and 1.0 differ, and 0.0 and -0.0.

    NaNs are equal when their bits are.
    """
    kind = value.__class__
    if kind is str:
        return value
    if kind is tuple:
        return tuple([attr_key(element) for element in value])
    if kind is float:
        return (float, struct.pack("<d", value))
    if kind is complex:
        return (complex, struct.pack("<dd", value.real, value.imag))
    return (kind, value)


class _InternedRef(weakref.ref[Term]):
    """A weak reference that knows its key, so that the table's entry can be dropped."""

    __slots__ = ("key",)

    key: tuple[object, ...]


_table: dict[tuple[object, ...], _InternedRef] = {}
_table_lock = threading.RLock()  # a finaliser of the garbage collector may make terms inside
# References to terms that died. A callback in Python would run anywhere, and lose an interrupt that arrives in it; this
# one is a method of C, and the next new term drops the entries.
_dead: deque[_InternedRef] = deque()
_bury = _dead.append


def forget_dead() -> None:
    """Drops the entries of dead terms, and with them the objects in their keys."""
    while _dead:
        refs: list[_InternedRef] = []
        try:
            while _dead:
                refs.append(_dead.pop())
        except IndexError:  # another thread took the last one
            pass
        _forget(refs)
        del refs  # with their keys, whose operands may die of it: outside the lock


def _forget(refs: Iterable[_InternedRef]) -> None:
    # A new term may already sit under the key of a dead one; only the dead reference itself is dropped.
    with _table_lock:
        for ref in refs:
            key = ref.key
            if _table.get(key) is ref:
                del _table[key]


def interned(cls: type[T], op: Op, operands: tuple[object, ...], attrs: Attrs, type: object) -> T:
    """The one term of class `cls` with these parts. Operands are compared by identity, attributes by `attr_key`."""
    key = (cls, op, operands, attr_key(attrs), type) if attrs else (cls, op, operands, type)
    return interned_at(key, cls, op, operands, attrs, type)


def interned_at(
    key: tuple[object, ...], cls: type[T], op: Op, operands: tuple[object, ...], attrs: Attrs, type: object
) -> T:
    """`interned` for a language that has a shorter key, which must be unique among all languages' terms.

    `dict.setdefault` is the single atomic step: two threads that race get the same object.
    """
    while True:
        ref = _table.get(key)
        result = ref() if ref is not None else None
        if result is not None:
            return result  # pyright: ignore[reportReturnType] - the key holds the class
        if _dead:
            forget_dead()
        term = cls(op, operands, attrs, type)
        mine = _InternedRef(term, _bury)
        mine.key = key
        winner = _table.setdefault(key, mine)
        if winner is mine:
            return term
        result = winner()
        if result is not None:
            return result  # pyright: ignore[reportReturnType] - the key holds the class
        _forget((winner,))


def structural_digest(items: Iterable[str]) -> str:
    """A digest of canonical text lines, for cache keys: stable over processes, without identity or provenance."""
    state = lazy.hashlib.blake2b(digest_size=20)
    for part in items:
        state.update(part.encode())
        state.update(b"\n")
    return state.hexdigest()
