"""What collectives take: times that were measured on a machine, and estimates for other sizes and numbers of ranks.

An estimate is Hockney's: rounds of a latency, and bytes that each rank moves, which a table of measured times turns
into seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from rushlight.data.atomic_file import write_atomically
from rushlight.distributed.engine.call import Verb
from rushlight.runtime import llvm
from rushlight.runtime.limits import available_cores
from rushlight.support import events, lazy, settings
from rushlight.support.files import regular_bytes

FILE = "collectives.json"
Table = Sequence[tuple[float, float]]
"""Bytes and seconds, by rising bytes."""
_ASSUMED: Table = ((1e3, 5e-5), (1e5, 1e-4), (1e6, 5e-4), (1e8, 5e-2))


class Link(NamedTuple):
    """The network between machines: seconds of a message without content, and bytes a second of one machine."""

    latency: float = 2e-5
    bandwidth: float = 1.25e9


def _doubling(ranks: int) -> int:
    return max(1, math.ceil(math.log2(ranks)))


class _Form(NamedTuple):
    """How a verb grows with ranks: the rounds it takes, and the share of its bytes that a rank moves."""

    rounds: Callable[[int], int]
    share: Callable[[int], float]


_PARTS = _Form(_doubling, lambda ranks: (ranks - 1) / ranks)
_WHOLE = _Form(_doubling, lambda ranks: 1.0)
_FORMS: Mapping[Verb, _Form] = MappingProxyType(
    {
        Verb.ALL_REDUCE: _Form(lambda ranks: 2 * _doubling(ranks), lambda ranks: 2 * (ranks - 1) / ranks),
        Verb.REDUCE: _WHOLE,
        Verb.BROADCAST: _WHOLE,
        Verb.ALL_GATHER: _PARTS,
        Verb.REDUCE_SCATTER: _PARTS,
        Verb.ALL_TO_ALL: _Form(lambda ranks: ranks - 1, lambda ranks: (ranks - 1) / ranks),
        Verb.GATHER: _PARTS,
        Verb.SCATTER: _PARTS,
        Verb.BARRIER: _WHOLE,
        Verb.SEND: _Form(lambda ranks: 1, lambda ranks: 1.0),
        Verb.RECEIVE: _Form(lambda ranks: 1, lambda ranks: 1.0),
    }
)
_AS: Mapping[Verb, Verb] = MappingProxyType(
    {
        Verb.REDUCE: Verb.BROADCAST,
        Verb.GATHER: Verb.ALL_GATHER,
        Verb.SCATTER: Verb.ALL_GATHER,
        Verb.BARRIER: Verb.BROADCAST,
        Verb.RECEIVE: Verb.SEND,
    }
)
MEASURED = tuple([verb for verb in _FORMS if verb not in _AS])
"""The verbs of which there are tables; others are estimated by those of their kin."""


class Costs:
    """The times of one machine, by verb and number of ranks, and the machines' shape: `machine_ranks` on each."""

    def __init__(
        self, tables: Mapping[Verb, Mapping[int, Table]], machine_ranks: int, link: Link | None = None
    ) -> None:
        self.tables = tables
        self.machine_ranks = machine_ranks
        self.link = link or Link()
        self._cores = available_cores()  # those on which the times were measured

    def taking_turns(self, verb: Verb, ranks: Sequence[int]) -> float:
        """The seconds that a call waits for processors, where its machine has fewer of them than ranks.

        They are what the smallest call took among as many ranks beyond what it took among the group's own number.
        """
        tables = self._tables_of(verb)
        crowd, here = _nearest(tables, self.machine_ranks), _nearest(tables, len(ranks))
        if len(ranks) < 2 or crowd <= max(here, self._cores) or not here:
            return 0.0
        return max(0.0, tables[crowd][0][1] - tables[here][0][1])

    def work(self, verb: Verb, nbytes: float, ranks: Sequence[int]) -> float:
        """The seconds of a processor that a call within a machine takes of each rank.

        What was measured of more ranks than there are processors was measured while these took turns.
        """
        return self.seconds(verb, nbytes, ranks) * min(1.0, self._cores / len(ranks))

    def is_local(self, ranks: Sequence[int]) -> bool:
        """Whether ranks are of one machine."""
        return len(self._machines(ranks)) == 1

    def seconds(self, verb: Verb, nbytes: float, ranks: Sequence[int]) -> float:
        """What a call takes once all have come. `nbytes` are those of the whole buffer."""
        count = len(ranks)
        if count < 2:
            return 0.0
        machines = self._machines(ranks)
        here = max(1, count // len(machines))
        local = self._local(verb, nbytes, here) if here > 1 else 0.0
        if len(machines) == 1:
            return local
        form = _FORMS[verb]
        # Ranks of a machine that are in other groups send at the same time, over the same link.
        sent = nbytes * form.share(count) * self.machine_ranks / here
        return max(local, form.rounds(len(machines)) * self.link.latency + sent / self.link.bandwidth)

    def _machines(self, ranks: Sequence[int]) -> set[int]:
        return {rank // self.machine_ranks for rank in ranks}

    def _tables_of(self, verb: Verb) -> Mapping[int, Table]:
        return self.tables.get(_AS.get(verb, verb), {})

    def _local(self, verb: Verb, nbytes: float, ranks: int) -> float:
        tables = self._tables_of(verb)
        known = _nearest(tables, ranks) or min(tables, default=2)
        table, form = tables.get(known, _ASSUMED), _FORMS[verb]
        moved = nbytes * form.share(ranks) / form.share(known)
        more = (form.rounds(ranks) - form.rounds(known)) / form.rounds(known)
        return interpolated(table, moved) + max(0.0, more) * table[0][1]


def _nearest(tables: Mapping[int, Table], ranks: int) -> int:
    """The nearest number of ranks that was measured, from below: one more than processors is another regime."""
    return max([count for count in tables if count <= ranks], default=0)


def interpolated(table: Table, nbytes: float) -> float:
    """Seconds for so many bytes: a power law between two that were measured, proportional beyond the last."""
    sizes = [size for size, _ in table]
    if nbytes <= sizes[0]:
        return table[0][1]
    if nbytes >= sizes[-1]:
        return table[-1][1] * nbytes / sizes[-1]
    at = bisect_left(sizes, nbytes)
    (low, before), (high, after) = table[at - 1], table[at]
    share = math.log(nbytes / low) / math.log(high / low)
    return before * (after / before) ** share


def machine_name() -> str:
    """The machine that times belong to: its processor, and how many of them there are."""
    return f"{llvm.host_target().cpu} x {available_cores()}"


def record_file() -> Path:
    """Where times are kept: a file in the cache folder."""
    return Path(settings.cache_dir(), FILE)


def read_tables() -> dict[Verb, dict[int, Table]]:
    """The times that were measured on this machine; none where it was not calibrated."""
    try:
        kept = lazy.json.loads(regular_bytes(record_file())[0])
        found = kept.get(machine_name(), {})
        return {Verb(verb): {int(ranks): table_of(rows) for ranks, rows in by.items()} for verb, by in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as cause:
        events.record("tuning", "unreadable", f"{record_file()}: {cause}"[:200])
        return {}


def table_of(rows: Iterable[tuple[float, float]]) -> Table:
    """A table from the rows that JSON gives."""
    return [(float(size), float(seconds)) for size, seconds in rows]


def write_tables(tables: Mapping[Verb, Mapping[int, Table]]) -> Path:
    """Keep the times of this machine, beside those of others, and return where."""
    path = record_file()
    try:
        kept = lazy.json.loads(regular_bytes(path)[0])
    except (OSError, ValueError):
        kept = {}
    kept[machine_name()] = {
        verb.value: {str(ranks): list(table) for ranks, table in by.items()} for verb, by in tables.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(str(path), [f"{lazy.json.dumps(kept, indent=1)}\n".encode()])
    return path
