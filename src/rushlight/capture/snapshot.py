"""State that a trace takes as it was: what is in containers, and tensors, asked for together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter, getitem, is_
from typing import Any, NamedTuple

from rushlight.capture.guard import Guard
from rushlight.capture.state import Leaf
from rushlight.eager.form import Form
from rushlight.eager.handle import Handle
from rushlight.runtime.allocator import Storage

_PASSES = 256
_MEMORY = attrgetter("storage", "form", "offset")


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
        "_containers",
        "_keys",
        "_lasting",
        "_lasts",
        "_lengths",
        "_loose",
        "_named",
        "_objects",
        "_views",
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
        self.memory = [Memory(*_MEMORY(tensor)) for tensor in tensors]
        inside: dict[int, list[Leaf]] = {id(container): [] for container, _ in containers}
        for leaf in leaves:
            inside[id(leaf.container)].append(leaf)
        self._containers = [container for container, _ in containers]
        self._lengths = [len(entries) for entries in inside.values()]
        self._named: list[dict[str, Any]] = []
        self._keys: list[str] = []  # of those
        self._views: list[Iterable[Any]] = []
        self._objects: list[Any] = []  # in those
        for container, entries in zip(self._containers, inside.values(), strict=True):
            self._take(container, entries)
        loose = [leaf for leaf in leaves if leaf.loose]
        beside = {id(leaf.container) for leaf in loose}
        self._loose = _places(loose)
        self._classes = [type(leaf.value) for leaf in loose]
        lasting = [leaf for leaf in leaves if id(leaf.container) in beside and not leaf.loose]
        self._lasting = _places(lasting)
        self._lasts = [leaf.value for leaf in lasting]

    def _take(self, container: Any, entries: list[Leaf]) -> None:
        keys = [leaf.key for leaf in entries]
        if isinstance(container, dict):
            if all(type(key) is str for key in keys):
                self._named.append(container)
                self._keys += keys
            else:  # among them may be tensors, which are not to be compared by value
                self._views.append(container.keys())
                self._objects += keys
        if not any(leaf.loose for leaf in entries):
            self._views.append(container.values() if isinstance(container, dict) else container)
            self._objects += [leaf.value for leaf in entries]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to ask for."""
        return not self._containers and not self.tensors

    def holds(self) -> bool:
        """Whether all containers have the same objects in the same places, and all tensors are of the same memory."""
        return (
            [*map(len, self._containers)] == self._lengths
            and [*chain.from_iterable(self._named)] == self._keys
            and all(map(is_, chain.from_iterable(self._views), self._objects))
            and all(map(is_, map(getitem, *self._lasting), self._lasts))
            and [*map(type, map(getitem, *self._loose))] == self._classes
            and [*map(_MEMORY, self.tensors)] == self.memory
        )


def _places(leaves: Sequence[Leaf]) -> tuple[list[Any], list[Any]]:
    """Their containers and their keys."""
    return [leaf.container for leaf in leaves], [leaf.key for leaf in leaves]


class StateGuards:
    """The guards of a snapshot. They are written as text when somebody reads them, or after `_PASSES` calls.

    Writing and compiling a guard's text takes a few hundred times of what asking for it that way saves in a call.
    """

    __slots__ = ("_guards", "_left", "_lock", "_make", "_space", "_test", "snapshot")

    def __init__(self, snapshot: Snapshot, make: Callable[[Snapshot], list[Guard]], space: dict[str, Any]) -> None:
        self.snapshot = snapshot
        self._make = make
        self._space = space
        self._left = _PASSES
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
        if self._left > 0:  # threads may count past it
            self._left -= 1
            if self.snapshot.holds():
                return False
        test = self._test
        if test is None:
            failed = " or ".join([guard.failed for guard in self.guards])
            code = compile(f"lambda: {failed}", "<rushlight guards>", "eval")
            test = self._test = eval(code, self._space)  # noqa: S307 - our own text
        return test()
