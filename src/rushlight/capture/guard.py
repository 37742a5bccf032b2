"""Guards: what a compiled trace takes for granted, as data. `check` lines are generated from it, `explain` reads it."""

from __future__ import annotations

import struct
from typing import Any

from rushlight.support.frozen import frozen


@frozen
class Guard:
    """One assumption. `failed` is a Python expression that is true if it does not hold; it binds no looser than `or`.

    `path` and `expected` are for people.
    """

    kind: str
    path: str
    expected: str
    failed: str

    def __str__(self) -> str:
        return f"{self.path} is not {self.expected}"


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are one object, or plain values, or tuples of such, that nothing tells apart."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is tuple:
        return len(one) == len(other) and all(map(is_same, one, other))
    if type(one) is float:
        return struct.pack("<d", one) == struct.pack("<d", other)
    if type(one) is frozenset:
        return one == other and all(type(part) is str for part in one)
    return type(one) in (int, str, bytes) and one == other
