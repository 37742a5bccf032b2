"""Tables of what is worked out once per combination of forms and attributes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from rushlight.eager.dispatch.state import STATE

V = TypeVar("V")


class Memo(Generic[V]):
    """A bounded table. Entries about symbolic sizes live in the tracer, and go with the trace that the sizes are of.

    What was asked about the sizes when an entry was made is guarded already, so finding it again asks nothing.
    """

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int) -> None:
        self._kept: dict[Hashable, V] = {}
        self._most = most

    def get(self, key: Hashable) -> V | None:
        """The entry under a key, or None."""
        value = self._kept.get(key)
        if value is None and STATE.tracer is not None:
            value = STATE.tracer.memos.get((self, key))
        return value

    def put(self, key: Hashable, value: V, symbolic: bool) -> V:
        """Keeps an entry, and returns it; a symbolic one that belongs to no trace is not kept."""
        if symbolic:
            if STATE.tracer is not None:
                STATE.tracer.memos[self, key] = value
            return value
        if len(self._kept) >= self._most:
            self._kept.clear()
        return self._kept.setdefault(key, value)
