"""Numbers that tell objects apart, as `id` gives them: each call has its own, and a trace knows only which are one."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Iterable
from typing import Any, Protocol

from rushlight.capture.resume.breaks import IDENTITY, Break

THREAD = object()
"""In place of an object: the number is that of the thread."""
_ADDRESSES = 1 << 12  # no object lies below
_OF_NUMBERS = (
    "abs add and divmod float floor floordiv format ge gt index int invert le lshift lt mod mul neg or pos pow radd"
    " rand rdivmod repr rfloordiv rlshift rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor str sub truediv"
    " trunc ceil xor"
)


class _Told(Protocol):
    """Says of two values whether they are one object, or breaks the graph."""

    def __call__(self, value: object, other: object, /) -> bool: ...


class Identity(int):
    """The number of an object, of which a program can ask whether it is another one's. Other questions are breaks."""

    owner: object
    is_same: _Told

    @staticmethod
    def of(owner: object, is_same: _Told, known: Iterable[Identity]) -> Identity:
        """The number of an object. Errors: Break where it may or may not be one of those that are known."""
        for other in known:
            if other.owner is owner or is_same(owner, other.owner):
                return other
        made = Identity(number_of(owner))
        made.owner, made.is_same = owner, is_same
        return made

    def __eq__(self, other: object) -> bool:
        if type(other) is Identity:
            return self.owner is other.owner
        if type(other) in (int, bool) and not is_address(other):
            return False
        if not isinstance(other, int):
            return False
        raise Break(IDENTITY, "the number of an object is compared with another number")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)


def number_of(owner: object) -> int:
    """What each call has in place of an Identity."""
    return get_ident() if owner is THREAD else id(owner)


def is_address(value: Any) -> bool:
    """Whether a number may be that of an object."""
    return int(value) >= _ADDRESSES


def mixes(values: Iterable[object]) -> bool:
    """Whether values, or what they hold, are Identities and numbers of objects of which nothing is known."""
    waiting, seen = list(values), set[int]()
    has_identity = has_address = False
    while waiting:
        value: Any = waiting.pop()
        kind = type(value)
        if kind is Identity:
            has_identity = True
        elif kind is int:
            has_address |= is_address(value)
        elif kind in (list, tuple, set, frozenset, dict) and id(value) not in seen:
            seen.add(id(value))
            waiting += value.keys() if kind is dict else value
    return has_identity and has_address


def _asked(self: Identity, *args: object) -> object:
    raise Break(IDENTITY, "more is asked of the number of an object than whether it is another one's")


for _name in _OF_NUMBERS.split():
    setattr(Identity, f"__{_name}__", _asked)
