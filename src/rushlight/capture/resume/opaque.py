"""Stand-ins for objects that a graph passes by: iterators, closures, whatever the traced part must not look at."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Collection, Sequence
from weakref import getweakrefcount

from rushlight.capture.resume import breaks
from rushlight.capture.resume.breaks import Break
from rushlight.capture.state.places import first_of

_SPECIAL = (
    "add and bool bytes call complex contains delattr delitem divmod enter eq exit float floordiv format ge getitem"
    " gt repr hash index int invert iter le len lshift lt matmul mod mul ne neg next or pos pow radd rand reversed"
    " rfloordiv rlshift rmatmul rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor setattr setitem sub str"
    " truediv xor"
)


_CONTAINERS = frozenset({list, tuple, dict, set, frozenset, deque})
_DEEPEST, _MOST_PARTS = 3, 64  # where it is looked for what dies with an object


class Life:
    """Dies with an object that a graph passes by; weak references to it tell when."""

    __slots__ = ("__weakref__",)


def is_mortal(value: object, depth: int = 0) -> bool:
    """Whether something happens when an object dies: its class has `__del__`, or there are weak references to it.

    With a container or an iterator dies what it holds.
    """
    kind = type(value)
    if issubclass(kind, type):
        return False  # of which its bases know
    if hasattr(kind, "__del__") or getweakrefcount(value) > 0:
        return True
    return depth < _DEEPEST and any(is_mortal(part, depth + 1) for part in _held_by(value, kind))


def _held_by(value: object, kind: type) -> Sequence[object]:
    """The first of what a container or an iterator holds."""
    if kind in _CONTAINERS and isinstance(value, Collection):
        return first_of(value, _MOST_PARTS)
    return gc.get_referents(value)[:_MOST_PARTS] if hasattr(kind, "__next__") else ()


class Opaque:
    """Stands for an object of the frame's state. Whatever asks for more than its identity breaks the graph.

    `life` is what dies with it.
    """

    __slots__ = ("life", "slot")

    def __init__(self, slot: int, life: Life | None = None) -> None:
        object.__setattr__(self, "slot", slot)
        object.__setattr__(self, "life", life)

    def __getattribute__(self, name: str) -> object:
        return _touched(self)


def _touched(self: Opaque, *args: object) -> object:
    raise Break(breaks.PASSED_BY, "an object is used that the graph passes by")


def lives(value: object) -> bool:
    """Whether a value stands for an object at whose death something happens."""
    return type(value) is Opaque and object.__getattribute__(value, "life") is not None


def slot_of(opaque: Opaque) -> int:
    """Which value of the state it stands for."""
    slot: int = object.__getattribute__(opaque, "slot")
    return slot


for _name in _SPECIAL.split():
    setattr(Opaque, f"__{_name}__", _touched)
