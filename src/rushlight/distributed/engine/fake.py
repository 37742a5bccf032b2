"""The engine of any number of ranks without their data: one rank runs, and its calls are written down.

What a rank gets is what it gave itself: a reduction leaves its own contribution, a gather repeats its own part, and
what only another rank could give is zero. So a program runs as it would, with other values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from rushlight.distributed.engine.call import Call, Verb
from rushlight.distributed.engine.engine import Engine
from rushlight.distributed.engine.movement import parts_of
from rushlight.distributed.engine.work import Done, Work
from rushlight.support.errors import error
from rushlight.support.provenance import Frame


class Entry(NamedTuple):
    """One call of the rank: the verb, the bytes sent, among which ranks (numbers of all), in words, and its line."""

    verb: Verb
    sent: int
    ranks: tuple[int, ...]
    text: str
    frame: Frame | None


class Watcher(Protocol):
    """Hears of the calls of a rank that runs alone for many."""

    def issued(self, call: Call, engine: Fake) -> int:
        """A call begins; returns the number by which its end is told."""
        ...

    def resumed(self) -> None:
        """The call has begun, and the rank goes on."""
        ...

    def waited(self, number: int) -> None:
        """The rank waits for a call."""
        ...

    def went_on(self, number: int) -> None:
        """A call goes on while the rank computes."""
        ...

    def marked(self, name: str) -> None:
        """The program passes a point that it has named."""
        ...


class Ledger:
    """What the rank has called, in order, and whom else to tell."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.entries: list[Entry] = []
        self.watcher = watcher

    def counts(self) -> dict[str, int]:
        """How often each verb was called."""
        return dict(Counter([entry.verb.value for entry in self.entries]))

    @property
    def bytes_sent(self) -> int:
        """The bytes that the rank has sent."""
        return sum([entry.sent for entry in self.entries])

    def by_line(self) -> dict[str, int]:
        """The bytes sent for each line of the program, the most first."""
        totals = Counter[str]()
        for entry in self.entries:
            totals[str(entry.frame or "")] += entry.sent
        return dict(totals.most_common())


class Fake(Engine):
    """One rank of a group, whose other ranks do not run."""

    kind = "fake"

    def __init__(self, rank: int, ranks: tuple[int, ...], ledger: Ledger) -> None:
        super().__init__(rank, ranks)
        self.ledger = ledger

    def issue(self, call: Call) -> Work:
        """Writes a call down, which is complete at once."""
        self._number(call)
        sent = bytes_sent(call, self.rank, self.size)
        self.ledger.entries.append(Entry(call.verb, sent, self._ranks, call.text(), call.frame))
        watcher = self.ledger.watcher
        number = -1 if watcher is None else watcher.issued(call, self)
        if call.taken is not None:
            _fill(call, call.taken, self)
        if watcher is None:
            return Done()
        watcher.resumed()
        return Watched(watcher, number)

    def split(self, ranks: Sequence[int]) -> Engine:
        """The engine of some of the ranks."""
        return Fake(tuple(ranks).index(self._rank), tuple([self._ranks[rank] for rank in ranks]), self.ledger)

    def abort(self, code: int, message: str) -> None:
        """Ends the program."""
        raise error("W005", message)


class Watched(Work):
    """A call whose end is told: its data are there at once, and the rank may wait for it later."""

    def __init__(self, watcher: Watcher, number: int) -> None:
        super().__init__()
        self._watcher = watcher
        self._number = number

    def go_on(self) -> None:
        """Tells that the call goes on while the rank computes."""
        self._watcher.went_on(self._number)

    def poll(self) -> bool:
        """True."""
        return True

    def block(self, timeout: float | None) -> None:
        """Tells that the rank waits here, once."""
        if self._number >= 0:
            self._watcher.waited(self._number)
            self._number = -1


def _fill(call: Call, taken: np.ndarray, engine: Fake) -> None:
    given = call.given
    if call.verb is Verb.REDUCE_SCATTER and given is not None:
        given = parts_of(given, call.counts)[engine.rank]
    if given is None or given.size == 0:
        taken[:] = 0
    elif given is not taken:
        np.copyto(taken, np.resize(given, taken.size))


def _all_reduce(call: Call, rank: int, size: int) -> int:
    return 2 * _whole(call, rank, size) * (size - 1) // size


def _whole(call: Call, rank: int, size: int) -> int:
    return 0 if call.given is None else call.given.nbytes


def _but_own(call: Call, rank: int, size: int) -> int:
    assert call.given is not None
    return call.given.nbytes - call.counts[rank] * call.given.itemsize


def _own_to_all(call: Call, rank: int, size: int) -> int:
    return _whole(call, rank, size) * (size - 1)


def _to_root(call: Call, rank: int, size: int) -> int:
    return 0 if rank == call.root else _whole(call, rank, size)


def _from_root(call: Call, rank: int, size: int) -> int:
    if rank != call.root or call.given is None:
        return 0
    return _but_own(call, rank, size) if call.counts else _own_to_all(call, rank, size)


def _nothing(call: Call, rank: int, size: int) -> int:
    return 0


_SENT: Mapping[Verb, Callable[[Call, int, int], int]] = MappingProxyType(
    {
        Verb.ALL_REDUCE: _all_reduce,
        Verb.REDUCE: _to_root,
        Verb.BROADCAST: _from_root,
        Verb.ALL_GATHER: _own_to_all,
        Verb.REDUCE_SCATTER: _but_own,
        Verb.ALL_TO_ALL: _but_own,
        Verb.GATHER: _to_root,
        Verb.SCATTER: _from_root,
        Verb.BARRIER: _nothing,
        Verb.SEND: _whole,
        Verb.RECEIVE: _nothing,
    }
)


def bytes_sent(call: Call, rank: int, size: int) -> int:
    """The bytes that one rank of `size` sends: each part once to each rank that needs it, a ring's of all-reduces."""
    return _SENT[call.verb](call, rank, size) if size > 1 else 0
