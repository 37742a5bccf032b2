"""Collectives, redistributions and checkpoints of ranks of this machine beside torch's on gloo.

There is a job of each, and they take turns call by call of a case.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from rushlight.bench.contestants import with_variables
from rushlight.bench.reports.tables import Table, duration
from rushlight.distributed.launch.launcher import MALLOC
from rushlight.support.errors import fail

SIZES = (1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 24, 1 << 26)
VERBS = ("all_reduce", "all_gather", "reduce_scatter")
MOVES = ("S0-S1", "S0-R", "P-S0", "P-R")
MOVED = 1 << 26
"""Bytes of the divided tensor that is redistributed."""
SAVED = 1 << 29
"""Bytes of the state that checkpoints hold."""
OURS, PEER = "rushlight", "torch"
_JOB = str(Path(__file__).with_name("job.py"))
_POLL = 0.005


class Measured(NamedTuple):
    """The medians of the turns of a case, in seconds, by job."""

    case: str
    turns: dict[str, list[float]]

    @property
    def ratio(self) -> float:
        """Our time by the peer's, the median over turns."""
        pairs = zip(self.turns[OURS], self.turns[PEER], strict=True)
        return statistics.median([ours / peer for ours, peer in pairs])


def cases() -> list[str]:
    """What is timed: collectives of all sizes, redistributions of one, and a checkpoint saved and loaded."""
    collectives = [f"{verb}/{size}" for verb in VERBS for size in SIZES]
    return [*collectives, *[f"{move}/{MOVED}" for move in MOVES], *[f"{verb}/{SAVED}" for verb in ("save", "load")]]


def measure_collectives(
    python: str | None, ranks: int, rounds: int, limit: float, say: Callable[[str], None], only: Sequence[str] = ()
) -> list[Measured]:
    """Times every case, or those of the verbs that are named. Without an interpreter that has torch, ours alone.

    Errors: A002 where a job ends early.
    """
    names = [OURS, *([PEER] if python else [])]
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        jobs = [*stack.enter_context(_ours(folder, ranks))]
        jobs += stack.enter_context(_peer(python, folder, ranks)) if python else []
        ready = [folder / f"{one}-{rank}.ready" for one in names for rank in range(ranks)]
        _wait_for(ready, jobs, limit)
        results: list[Measured] = []
        turn = 0
        for case in [one for one in cases() if not only or one.partition("/")[0] in only]:
            say(f"{case}\n")
            turns: dict[str, list[float]] = {one: [] for one in names}
            for _ in range(rounds):
                for one in names:
                    draft = folder / "told"
                    draft.write_text(f"{one} {case}", encoding="utf-8")
                    draft.rename(folder / f"turn-{turn}")
                    done = folder / f"turn-{turn}.done"
                    _wait_for([done], jobs, limit)
                    turns[one].append(statistics.median(map(float, done.read_text(encoding="utf-8").split())))
                    turn += 1
            results.append(Measured(case, turns))
        (folder / "end").touch()
        for job in jobs:
            job.wait(limit)
    return results


def as_table(results: Sequence[Measured]) -> Table:
    """A row for each case: medians of turns, and the least turn, which other work on the machine disturbs less."""
    rows = [["case", OURS, "gloo", "ratio", "least", "least of gloo", "ratio"]]
    for one in results:
        medians = [duration(statistics.median(turns)) for turns in one.turns.values()]
        least = [min(turns) for turns in one.turns.values()]
        if PEER in one.turns:
            ratios = f"{one.ratio:.2f}", f"{least[0] / least[1]:.2f}"
            rows.append([one.case, *medians, ratios[0], *map(duration, least), ratios[1]])
        else:
            rows.append([one.case, *medians, "", "", duration(least[0]), "", ""])
    return Table("collectives", rows, [])


@contextlib.contextmanager
def _ours(folder: Path, ranks: int) -> Generator[list[subprocess.Popen[bytes]]]:
    line = [sys.executable, "-m", "rushlight", "launch", "-n", str(ranks), _JOB, OURS, str(folder)]
    with _running([line], [{}]) as jobs:
        yield jobs


@contextlib.contextmanager
def _peer(python: str, folder: Path, ranks: int) -> Generator[list[subprocess.Popen[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    # Freed memory is kept, as `rushlight launch` has it for ours.
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks), "GLIBC_TUNABLES": MALLOC}
    lines = [[python, _JOB, PEER, str(folder)]] * ranks
    with _running(lines, [{**told, "RANK": str(rank)} for rank in range(ranks)]) as jobs:
        yield jobs


@contextlib.contextmanager
def _running(
    lines: Sequence[Sequence[str]], variables: Sequence[dict[str, str]]
) -> Generator[list[subprocess.Popen[bytes]]]:
    jobs: list[subprocess.Popen[bytes]] = []
    for line, told in zip(lines, variables, strict=True):
        jobs.append(subprocess.Popen(with_variables(line, told), stdout=subprocess.DEVNULL))
    try:
        yield jobs
    finally:
        for job in jobs:
            if job.poll() is None:
                job.terminate()
                job.wait()


def _wait_for(paths: Sequence[Path], jobs: Sequence[subprocess.Popen[bytes]], limit: float) -> None:
    until = time.monotonic() + limit
    while not all(map(os.path.exists, paths)):
        ended = [job.returncode for job in jobs if job.poll() is not None]
        if ended or time.monotonic() > until:
            reason = f"a job has ended with status {ended[0]}" if ended else f"no answer within {limit:.0f} s"
            fail("A002", f"bench: collectives: {reason}")
        time.sleep(_POLL)
