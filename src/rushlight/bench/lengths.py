"""What many sizes of an input cost: the first pass over them all, and later ones, in a process for each contestant."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rushlight.bench.contestants import Kind, command, variables
from rushlight.bench.records import Case
from rushlight.bench.reports.tables import Table, duration
from rushlight.bench.results import Record, store
from rushlight.bench.startup import cache_variables, first_call


def measure_lengths(
    case: Case, pythons: Mapping[Kind, str], threads: int, limit: float, say: Callable[[str], None]
) -> Table:
    """A row for each contestant, with its cache off: seconds of the first pass, of a later one, and the difference."""
    rows = [[case.name, "first pass", "later pass", "beyond it", "of ours", "first pass of ours"]]
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
            first, later = answer["call_s"], min(answer["later_s"])
            beyond = first - later
            ours = ours or (first, beyond)
            # On a noisy machine a first pass may be no longer than a later one.
            extra = duration(beyond) if beyond > 0 else "none seen"
            share = f"{beyond / ours[1]:.1f}" if min(beyond, ours[1]) > 0 else ""
            rows.append([kind.name, duration(first), duration(later), extra, share, f"{first / ours[0]:.2f}"])
    return Table("lengths", rows, notes)


def run(case: Case, kind: Kind, python: str, folder: str, threads: int, limit: float) -> Record:
    """The answer of a process that has nothing compiled before."""
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-cache-") as cache:
        environment = {**variables(kind.framework, threads), **(cache_variables(kind.framework, "off", cache) or {})}
        environment.pop("TORCHINDUCTOR_COMPILE_THREADS", None)  # as many as torch likes
        line = command(python, kind.framework, kind.mode, str(threads), case.name, folder, **environment)
        return first_call(line, limit)
