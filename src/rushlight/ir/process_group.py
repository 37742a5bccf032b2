"""Groups of ranks that exchange buffers, as the floors below `distributed` see them, by name.

A graph names a group; its collectives look the group up when they run. The threads of one process may be ranks of
their own: each of these has a registry of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from numpy.typing import NDArray

from rushlight.support.errors import fail

Buffer = NDArray[Any]
"""A contiguous array of one dim; bfloat16 as ml_dtypes'."""
Counts = Sequence[int]
DEFAULT = "default"
"""The name of the group of all ranks."""


class Work(Protocol):
    """A collective that has been issued. Its buffers are the engine's until it is complete."""

    def go_on(self) -> None:
        """Lets it go on while this rank does something else, where the engine can."""
        ...

    def is_completed(self) -> bool:
        """Whether it is complete, without waiting."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is complete; `timeout` in seconds. Raises what made it fail."""
        ...

    def exception(self) -> BaseException | None:
        """What made it fail; None as long as nothing has."""
        ...

    def add_done_callback(self, function: Callable[[], object]) -> None:
        """Calls a function once it is complete, in the thread that sees that."""
        ...


class ProcessGroup(Protocol):
    """Ranks, and what moves between them. Counts are numbers of elements, one for each rank of the group.

    Each rank of the group makes the same calls in the same order. `op` is a `ReduceOp`, or its name.
    """

    @property
    def name(self) -> str:
        """What graphs call it: the same on all of its ranks."""
        ...

    @property
    def rank(self) -> int:
        """The place of this rank in the group."""
        ...

    @property
    def size(self) -> int:
        """The number of ranks."""
        ...

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the group as numbers of the group of all."""
        ...

    def all_reduce(self, buffer: Buffer, op: object) -> Work:
        """Puts the reduction over all ranks into the buffer of each."""
        ...

    def reduce(self, buffer: Buffer, op: object, root: int) -> Work:
        """Puts the reduction over all ranks into the buffer of one."""
        ...

    def broadcast(self, buffer: Buffer, root: int) -> Work:
        """Puts the buffer of one rank into that of each."""
        ...

    def all_gather(self, out: Buffer, part: Buffer, counts: Counts) -> Work:
        """Puts the parts of all ranks, in their order, into the buffer of each."""
        ...

    def reduce_scatter(self, out: Buffer, whole: Buffer, counts: Counts, op: object) -> Work:
        """Puts the reduction over all ranks into their buffers, to each its part."""
        ...

    def all_to_all(self, out: Buffer, out_counts: Counts, whole: Buffer, in_counts: Counts) -> Work:
        """Puts part `j` of rank `i` into part `i` of rank `j`."""
        ...

    def gather(self, out: Buffer | None, part: Buffer, counts: Counts, root: int) -> Work:
        """Puts the parts of all ranks into the buffer of one; the others give no `out`."""
        ...

    def scatter(self, out: Buffer, whole: Buffer | None, counts: Counts, root: int) -> Work:
        """Puts the parts of the buffer of one rank into those of all; the others give no `whole`."""
        ...

    def send(self, buffer: Buffer, peer: int, tag: int = 0) -> Work:
        """Gives a buffer to one rank."""
        ...

    def receive(self, buffer: Buffer, peer: int | None, tag: int = 0) -> Work:
        """Takes the next buffer that one rank, or any, sends."""
        ...

    def barrier(self) -> Work:
        """Is complete once each rank has come to it."""
        ...


class Registry:
    """The groups of one rank by name."""

    def __init__(self) -> None:
        self.groups: dict[str, ProcessGroup] = {}


class _Rank(threading.local):
    """The registry of a thread that is a rank of its own."""

    registry: Registry | None = None


_rank = _Rank()
_process = Registry()


def registry() -> Registry:
    """The registry of the rank that asks: the thread's own, or the process's."""
    return _rank.registry or _process


def has_own_registry() -> bool:
    """Whether this thread is a rank of its own."""
    return _rank.registry is not None


@contextmanager
def own_registry() -> Generator[Registry]:
    """A scope in which this thread is a rank of its own."""
    before, _rank.registry = _rank.registry, Registry()
    try:
        yield _rank.registry
    finally:
        _rank.registry = before


def register(group: ProcessGroup) -> None:
    """Makes a group known by its name."""
    registry().groups[group.name] = group


def unregister(group: ProcessGroup) -> None:
    """Forgets a group."""
    registry().groups.pop(group.name, None)


def named(name: str) -> ProcessGroup:
    """The group of a name; W001 where there is none."""
    group = registry().groups.get(name)
    if group is None:
        fail("W001", f"distributed: there is no process group named {name!r}", groups=sorted(registry().groups))
    return group


def find_default() -> ProcessGroup | None:
    """The group of all ranks; None before `init_process_group`."""
    return registry().groups.get(DEFAULT)


def default() -> ProcessGroup:
    """The group of all ranks; W001 before `init_process_group`."""
    group = find_default()
    if group is None:
        fail("W001", "distributed: there is no default process group")
    return group
