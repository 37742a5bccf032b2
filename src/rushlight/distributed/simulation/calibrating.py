"""Measuring what collectives take on this machine: a job of each number of ranks, as `rushlight launch` starts them."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from rushlight.distributed.engine.call import Verb
from rushlight.distributed.engine.engine import Verbs
from rushlight.distributed.engine.work import Work
from rushlight.distributed.group import init_process_group, member
from rushlight.distributed.launch import launch, prepare
from rushlight.distributed.simulation.costs import MEASURED, Table, table_of
from rushlight.support import lazy
from rushlight.support.errors import require

SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24)
_SECONDS = 0.15  # of calls of one size
_SHORTEST = 1e-7  # seconds of a call
_SCHEDULED = Path("/proc/self/schedstat")  # nanoseconds on a processor, and ready for one


def measure_tables(ranks: Sequence[int], say: Callable[[str], None]) -> dict[Verb, dict[int, Table]]:
    """The times of each verb on so many ranks of this machine. Errors: W008 where a job fails."""
    tables: dict[Verb, dict[int, Table]] = {verb: {} for verb in MEASURED}
    for count in ranks:
        say(f"{count} ranks\n")
        with tempfile.TemporaryDirectory(prefix="rushlight-calibrate-") as folder:
            status = launch([sys.executable, "-m", __name__, folder], count)
            require(status == 0, "W008", f"calibrating: a job of {count} ranks has ended with status {status}")
            found = lazy.json.loads(Path(folder, "times.json").read_text(encoding="utf-8"))
        for verb, table in found.items():
            tables[Verb(verb)][count] = table_of(table)
    return tables


def _issue(group: Verbs, verb: Verb, nbytes: int) -> Callable[[], Work]:
    """A call whose whole buffer is of so many bytes."""
    part = np.zeros(max(1, nbytes // 4 // group.size), np.float32)
    whole = np.zeros(part.size * group.size, np.float32)
    other, counts = whole.copy(), [part.size] * group.size
    calls: Mapping[Verb, Callable[[], Work]] = {
        Verb.ALL_REDUCE: lambda: group.all_reduce(whole, "sum"),
        Verb.BROADCAST: lambda: group.broadcast(whole, 0),
        Verb.ALL_GATHER: lambda: group.all_gather(whole, part, counts),
        Verb.REDUCE_SCATTER: lambda: group.reduce_scatter(part, whole, counts, "sum"),
        Verb.ALL_TO_ALL: lambda: group.all_to_all(other, counts, whole, counts),
        Verb.SEND: lambda: _message(group, whole),
    }
    return calls[verb]


def _message(group: Verbs, buffer: np.ndarray) -> Work:
    """Pairs of ranks: the even one sends, the odd one receives."""
    if group.rank % 2:
        return group.receive(buffer, group.rank - 1)
    return group.send(buffer, group.rank + 1) if group.rank + 1 < group.size else group.barrier()


def waited_seconds() -> float:
    """The seconds that this process's first thread was ready and did not run; 0 where nothing tells."""
    try:
        return int(_SCHEDULED.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def median_seconds(group: Verbs, issue: Callable[[], Work], budget: float = _SECONDS) -> float:
    """The median over calls of what the slowest rank took, without the longest wait for a processor."""
    times: list[tuple[float, float]] = []
    issue().wait()
    calls = np.array([0], np.int64)
    begun = time.perf_counter()
    issue().wait()
    calls[0] = max(5, min(200, int(budget / (time.perf_counter() - begun + 1e-9))))
    group.broadcast(calls, 0).wait()
    for _ in range(int(calls[0])):
        group.barrier().wait()
        before = waited_seconds()
        begun = time.perf_counter()
        issue().wait()
        times.append((time.perf_counter() - begun, waited_seconds() - before))
    slowest = np.array(times).reshape(-1)
    group.all_reduce(slowest, "max").wait()
    return statistics.median([max(wall - wait, _SHORTEST) for wall, wait in slowest.reshape(-1, 2).tolist()])


def main(folder: Path) -> None:
    """One rank of a job that measures."""
    prepare()
    init_process_group("mpi")
    group = member(None)
    found = {
        verb.value: [(size, median_seconds(group, _issue(group, verb, size))) for size in SIZES] for verb in MEASURED
    }
    if group.rank == 0:
        (folder / "times.json").write_text(lazy.json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
