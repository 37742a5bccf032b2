"""The state that a trace assumes: containers' entries and tensors' memory, checked by one native call."""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import is_
from types import CodeType
from typing import Any, NamedTuple

from rushlight.capture.arguments import Names
from rushlight.capture.guard import Guard
from rushlight.capture.state.assumed import Part
from rushlight.capture.state.places import MISSING, Entries, Leaf, kind_of
from rushlight.eager.handle import Handle, moves
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.runtime.allocator import Storage
from rushlight.runtime.native import functions
from rushlight.runtime.object_words import word_address

# The classes that keep their entries as a dict, 0, or as a list, 1, does.
_KINDS: dict[type, int] = {dict: 0, defaultdict: 0, list: 1}
_WORDS = 2  # parts of objects, each a word of memory


class Memory(NamedTuple):
    """Which memory a tensor shows, and whether it is to have a gradient.

    Memory is a storage, its address, a form and an offset.
    """

    storage: Storage | None
    address: int
    form: TensorMeta
    offset: int
    required: bool

    @staticmethod
    def of(tensor: Handle) -> Memory:
        """That of a tensor as it is now."""
        required = tensor.gradient is not None and tensor.gradient.required
        address = 0 if tensor.backing is None else tensor.backing.address
        return Memory(tensor.backing, address, tensor.form, tensor.offset, required)


class Snapshot:
    """Dicts and lists with their `leaves` in order, tensors, and `parts` of objects, as they are now.

    `holds` is enough for the guards of all, not necessary: another object of the same value makes it false too.
    """

    __slots__ = (
        *("_moves", "_others", "_table", "_table_at"),
        *("containers", "leaves", "memory", "parts", "same", "tensors"),
    )

    def __init__(
        self,
        containers: Sequence[tuple[Entries, str]],
        leaves: Sequence[Leaf],
        tensors: Sequence[Handle],
        parts: Sequence[Part] = (),
    ) -> None:
        self.containers = containers
        order = {(id(container), id(key)): at for container, _ in containers for at, key in enumerate(_keys(container))}
        self.leaves = sorted(leaves, key=lambda leaf: order.get((id(leaf.container), id(leaf.key)), 0))
        self.tensors = tensors
        self.parts = parts
        self._moves = moves()
        self.memory = [*map(Memory.of, tensors)]
        inside: dict[int, list[Leaf]] = {id(container): [] for container, _ in containers}
        for leaf in self.leaves:
            inside[id(leaf.container)].append(leaf)
        groups = [
            (id(container), _KINDS[type(container)], [*map(_wanted, inside[id(container)])])
            for container, _ in containers
            if type(container) in _KINDS
        ]
        if parts:
            places = [(word_address(part.owner, part.name), _address(part.value), 0) for part in parts]
            groups.append((places[0][0], _WORDS, places))
        words = [len(groups)]
        for address, kind, entries in groups:
            words += [address, kind, len(entries)]
        words += [word for _, _, entries in groups for entry in entries for word in entry]
        self._table = array("q", words)
        self._table_at = self._table.buffer_info()[0]
        self.same = functions().same_objects
        others = [element for element, _ in containers if type(element) not in _KINDS]
        self._others = [(element, inside[id(element)], _iterate(element), tuple(_keys(element))) for element in others]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to ask for."""
        return not (self.containers or self.tensors or self.parts)

    @property
    def test(self) -> Callable[[], object]:
        """What answers as `holds` does: native code alone where no tensor or other container is asked for."""
        return self.holds if self._others or self.tensors else partial(self.same, self._table_at)

    def holds(self) -> bool:
        """Whether all containers hold the same objects at the same keys, and all tensors the same memory."""
        if not self.same(self._table_at):
            return False
        for container, entries, iterate, keys in self._others:
            if len(container) != len(entries) or not all(map(_is_same, entries)):
                return False
            if keys and not all(map(is_, iterate(container), keys)):
                return False
        return moves() == self._moves or self._stay()

    def _stay(self) -> bool:
        """Whether all tensors are of the same memory, though some tensor moved since that was asked."""
        now = moves()
        stay = [*map(Memory.of, self.tensors)] == self.memory
        if stay:
            self._moves = now
        return stay


def _iterate(container: Entries) -> Callable[[Any], Iterable[object]]:
    """What gives the keys of a dict in their order, and of other containers nothing."""
    return kind_of(container).__iter__ if isinstance(container, dict) else _nothing


def _nothing(container: Entries) -> Iterable[object]:
    return ()


def _keys(container: Entries) -> Iterable[object]:
    return _iterate(container)(container)


def _address(value: object) -> int:
    """What a word has that points to a value: of None nothing, where a function has no defaults."""
    return 0 if value is None else id(value)


def _wanted(leaf: Leaf) -> tuple[int, int, int]:
    """The addresses of a leaf's key, its value and its class, 0 where any will do."""
    key = id(leaf.key) if isinstance(leaf.container, dict) else 0
    if leaf.unread:
        return key, 0, 0
    return (key, 0, id(type(leaf.value))) if leaf.type_only else (key, id(leaf.value), 0)


def _is_same(leaf: Leaf) -> bool:
    """Whether the container still holds the leaf's value, or one of its type if it is `type_only`."""
    if leaf.unread:
        return True
    container = leaf.container
    value = dict.get(container, leaf.key, MISSING) if isinstance(container, dict) else leaf.now()
    return type(value) is type(leaf.value) if leaf.type_only else value is leaf.value


class StateGuards:
    """The guards of a snapshot. They are written as text when somebody reads them, or when it does not hold.

    The text is evaluated in the names of the function that asks. These have this object too, so they are handed in and
    not kept: that would be a cycle.
    """

    __slots__ = ("_guards", "_lock", "_make", "_test", "snapshot")

    def __init__(self, snapshot: Snapshot, make: Callable[[Names, Snapshot], list[Guard]]) -> None:
        self.snapshot = snapshot
        self._make = make
        self._guards: tuple[Guard, ...] | None = None
        self._test: CodeType | None = None
        self._lock = threading.Lock()

    def guards(self, space: dict[str, object]) -> tuple[Guard, ...]:
        """The guards, in the order in which they are asked; `space` has the names of the function that asks."""
        with self._lock:
            if self._guards is None:
                self._guards = tuple(self._make(Names(space), self.snapshot))
        return self._guards

    def fail(self, space: dict[str, object]) -> bool:
        """Whether one of them does not hold; for when the snapshot does not."""
        test = self._test
        if test is None:
            failed = " or ".join([guard.failed for guard in self.guards(space)])
            test = self._test = compile(failed, "<rushlight guards>", "eval")
        return bool(eval(test, space))  # noqa: S307 - our own text
