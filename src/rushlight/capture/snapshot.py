"""State that a trace takes as it was: what is in containers, and tensors, asked for together."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter, getitem, is_
from typing import Any, NamedTuple

from rushlight.capture.guard import Guard
from rushlight.capture.state import Leaf
from rushlight.eager.form import Form
from rushlight.eager.handle import Handle, moves
from rushlight.runtime.allocator import Storage
from rushlight.runtime.native import functions

_MEMORY = attrgetter("storage", "form", "offset")
_KINDS = {dict: 0, list: 1}


class Memory(NamedTuple):
    """What a tensor is of."""

    storage: Storage | None
    form: Form
    offset: Any


class Snapshot:
    """Dicts and lists, with their paths and their `leaves` in order, and tensors, as they are now.

    `holds` is enough for the guards of all, not necessary: another object of the same value makes it false too.
    """

    __slots__ = (
        "_classes",
        "_lasting",
        "_lasts",
        "_lengths",
        "_loose",
        "_moves",
        "_others",
        "_same",
        "_table",
        "_table_at",
        "containers",
        "leaves",
        "memory",
        "tensors",
    )

    def __init__(
        self, containers: Sequence[tuple[Any, str]], leaves: Sequence[Leaf], tensors: Sequence[Handle]
    ) -> None:
        self.containers = containers
        self.leaves = leaves
        self.tensors = tensors
        self._moves = moves()
        self.memory = [Memory(*_MEMORY(tensor)) for tensor in tensors]
        inside: dict[int, list[Leaf]] = {id(container): [] for container, _ in containers}
        for leaf in leaves:
            inside[id(leaf.container)].append(leaf)
        native = [container for container, _ in containers if type(container) in _KINDS]
        words = [len(native)]
        for container in native:
            words += [id(container), _KINDS[type(container)], len(inside[id(container)])]
        for container in native:
            for leaf in inside[id(container)]:
                words += _wanted(leaf)
        self._table = array("q", words)
        self._table_at = self._table.buffer_info()[0]
        self._same = functions().same_objects
        self._others = [item for item, _ in containers if type(item) not in _KINDS]
        others = [inside[id(item)] for item in self._others]
        self._lengths = [len(entries) for entries in others]
        lasting = [leaf for entries in others for leaf in entries if not leaf.loose]
        loose = [leaf for entries in others for leaf in entries if leaf.loose]
        self._lasting, self._lasts = _places(lasting), [leaf.value for leaf in lasting]
        self._loose, self._classes = _places(loose), [type(leaf.value) for leaf in loose]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to ask for."""
        return not self.containers and not self.tensors

    def holds(self) -> bool:
        """Whether all containers have the same objects in the same places, and all tensors are of the same memory."""
        if not self._same(self._table_at):
            return False
        if [*map(len, self._others)] != self._lengths or not all(map(is_, map(getitem, *self._lasting), self._lasts)):
            return False
        if [*map(type, map(getitem, *self._loose))] != self._classes:
            return False
        return moves() == self._moves or self._stay()

    def _stay(self) -> bool:
        """Whether all tensors are of the same memory, though some tensor moved since that was asked."""
        now = moves()
        stay = [*map(_MEMORY, self.tensors)] == self.memory
        if stay:
            self._moves = now
        return stay


def _wanted(leaf: Leaf) -> tuple[int, int, int]:
    """The addresses of a leaf's key, its value and its class, 0 where any will do."""
    key = id(leaf.key) if isinstance(leaf.container, dict) else 0
    return (key, 0, id(type(leaf.value))) if leaf.loose else (key, id(leaf.value), 0)


def _places(leaves: Sequence[Leaf]) -> tuple[list[Any], list[Any]]:
    """Their containers and their keys."""
    return [leaf.container for leaf in leaves], [leaf.key for leaf in leaves]


class StateGuards:
    """The guards of a snapshot. They are written as text when somebody reads them, or when it does not hold."""

    __slots__ = ("_guards", "_lock", "_make", "_space", "_test", "snapshot")

    def __init__(self, snapshot: Snapshot, make: Callable[[Snapshot], list[Guard]], space: dict[str, Any]) -> None:
        self.snapshot = snapshot
        self._make = make
        self._space = space
        self._guards: tuple[Guard, ...] | None = None
        self._test: Callable[[], bool] | None = None
        self._lock = threading.Lock()

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards, in the order in which they are asked."""
        with self._lock:
            if self._guards is None:
                self._guards = tuple(self._make(self.snapshot))
        return self._guards

    def fail(self) -> bool:
        """Whether one of them does not hold."""
        if self.snapshot.holds():
            return False
        test = self._test
        if test is None:
            failed = " or ".join([guard.failed for guard in self.guards])
            code = compile(f"lambda: {failed}", "<rushlight guards>", "eval")
            test = self._test = eval(code, self._space)  # noqa: S307 - our own text
        return test()
