"""The cost of many input sizes: the first call of each and later ones, in a process for each contestant."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rushlight.bench.contestants import Kind, command, variables
from rushlight.bench.records import Case
from rushlight.bench.reports.tables import Table, duration
from rushlight.bench.results import Record, store
from rushlight.bench.startup import cache_variables, first_call


def measure_lengths(
    case: Case, pythons: Mapping[Kind, str], threads: int, limit: float, say: Callable[[str], None]
) -> Table:
    """A row for each contestant, with its cache off: seconds of all first calls, of later ones, and the difference."""
    rows = [[case.name, "first calls", "later calls", "beyond them", "of ours", "first calls of ours"]]
    notes: list[str] = []
    ours: tuple[float, float] | None = None
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-") as folder:
        store(Path(folder) / "inputs.npz", case.inputs())
        for kind, python in pythons.items():
            say(f"{kind.name}\n")
            answer = run(case, kind, python, folder, threads, limit)
            if answer["status"] != "ready":
                notes.append(f"{kind.name} was not measured: {answer['reason']}")
                continue
            first, later = first_and_later([answer["call_s"], *answer["later_s"]], case.options["times"])
            beyond = first - later
            ours = ours or (first, beyond)
            # On a noisy machine first calls may take no longer than later ones.
            extra = duration(beyond) if beyond > 0 else "none seen"
            share = f"{beyond / ours[1]:.1f}" if min(beyond, ours[1]) > 0 else ""
            rows.append([kind.name, duration(first), duration(later), extra, share, f"{first / ours[0]:.2f}"])
    return Table("lengths", rows, notes)


def first_and_later(seconds: Sequence[float], times: int) -> tuple[float, float]:
    """The sums over all sizes of the first call's seconds, and of the median of the calls right after it."""
    turns = [seconds[start : start + times] for start in range(0, len(seconds), times)]
    return sum([turn[0] for turn in turns]), sum([statistics.median(turn[1:]) for turn in turns])


def run(case: Case, kind: Kind, python: str, folder: str, threads: int, limit: float) -> Record:
    """The answer of a process that has nothing compiled before."""
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-cache-") as cache:
        environment = {**variables(kind.framework, threads), **(cache_variables(kind.framework, "off", cache) or {})}
        environment.pop("TORCHINDUCTOR_COMPILE_THREADS", None)  # as many as torch likes
        line = command(python, kind.framework, kind.mode, str(threads), case.name, folder, **environment)
        return first_call(line, limit)
