"""What the ranks that save or load together tell each other: lists of what each has, and whether one has failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from rushlight.distributed.group import Group, ProcessGroup, current, member
from rushlight.distributed.objects import all_gather_object
from rushlight.support.errors import RushlightError, error

T = TypeVar("T")
_NOTHING: tuple[str, ...] = ()


class Ranks(Protocol):
    """The ranks of a group."""

    @property
    def rank(self) -> int:
        """The place of this rank."""
        ...

    @property
    def size(self) -> int:
        """Their number."""
        ...

    @property
    def timeout(self) -> float | None:
        """How many seconds a rank waits for others; None for ever."""
        ...

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in their order, on each."""
        ...

    def give_way(self) -> None:
        """Let other ranks run, where ranks take turns."""
        ...


class Alone:
    """One process without a group."""

    rank, size = 0, 1
    timeout: float | None = None

    def gather(self, value: T) -> list[T]:
        """Return a list of the value."""
        return [value]

    def give_way(self) -> None:
        """Nothing: there is no other rank."""


class _Members:
    """The ranks of a process group."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self.rank = group.rank
        self.size = group.size
        self.timeout = group.engine.timeout

    def give_way(self) -> None:
        """Let other ranks run, where ranks take turns."""
        self._group.engine.give_way()

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in their order, on each."""
        values: list[T] = [value] * self.size
        all_gather_object(values, value, self._group)
        return values


def ranks_of(group: Group, no_dist: bool) -> Ranks:
    """Return the ranks of a group: for None those of the default group, or this one alone."""
    alone = no_dist or (group is None and current() is None)
    return Alone() if alone else _Members(member(group))


def together(ranks: Ranks, action: Callable[[], T]) -> T:
    """Return what an action gives, once it has succeeded on all ranks. On each the error of the first that failed."""
    try:
        value = action()
    except RushlightError as raised:
        ranks.gather((raised.code, raised.message))
        raise
    for rank, failure in enumerate(ranks.gather(_NOTHING)):
        if failure:
            raise error(failure[0], f"{failure[1]} (on rank {rank})")
    return value
