"""State that a trace takes as it was: modules' entries and their tensors, asked for together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter, is_
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
    """Dicts whose keys are strings, with their paths and their `leaves` in order, and tensors, as they are now.

    `holds` is enough for the guards of both, not necessary: another object of the same value makes it false too.
    """

    __slots__ = ("_dicts", "_keys", "_lengths", "_values", "containers", "leaves", "memory", "tensors")

    def __init__(
        self, containers: Sequence[tuple[dict[str, Any], str]], leaves: Sequence[Leaf], tensors: Sequence[Handle]
    ) -> None:
        self.containers = containers
        self.leaves = leaves
        self.tensors = tensors
        self.memory = [Memory(*_MEMORY(tensor)) for tensor in tensors]
        self._dicts = [container for container, _ in containers]
        lengths = Counter([id(leaf.container) for leaf in leaves])
        self._lengths = [lengths[id(container)] for container in self._dicts]
        self._keys = [leaf.key for leaf in leaves]
        self._values = [leaf.value for leaf in leaves]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to ask for."""
        return not self._dicts and not self.tensors

    def holds(self) -> bool:
        """Whether all dicts have the same objects under the same keys, and all tensors are of the same memory."""
        return (
            [*map(len, self._dicts)] == self._lengths
            and [*chain.from_iterable(self._dicts)] == self._keys
            and all(map(is_, chain.from_iterable(map(dict.values, self._dicts)), self._values))
            and [*map(_MEMORY, self.tensors)] == self.memory
        )


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
