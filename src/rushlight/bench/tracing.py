"""How long it takes to trace a program with many unbacked sizes, here and in torch.export.

Each run is a process of its own, through the worker of first calls. Tracing is measured on the way to a graph that
numpy runs, so that no native code is made; the whole first call is measured with the cache off.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rushlight.bench.cases_tracing import unbind_split_flip_cat
from rushlight.bench.contestants import Kind, command, frameworks_of, variables
from rushlight.bench.reports.tables import Table, duration
from rushlight.bench.results import Record, store
from rushlight.bench.startup import cache_variables, first_call

OURS = Kind("rushlight, traced", "rushlight", "traced")
WHOLE = Kind("rushlight, first call", "rushlight", "compiled")
TORCH = Kind("torch.export", "torch", "traced")
BATCHES = (8, 16, 32, 64)
FEW_MS = 1.0  # stages below that are not listed


class Runs(NamedTuple):
    """The answers of several processes about one program of `symbols` sizes. `problem` says why there are none."""

    kind: Kind
    symbols: int
    answers: list[Record]
    problem: str = ""

    def median(self, key: str) -> float:
        """Of something that each answer has."""
        return statistics.median([answer[key] for answer in self.answers])

    def stages(self) -> dict[str, float]:
        """The medians of milliseconds of the processor's time by stage."""
        names = dict.fromkeys([name for answer in self.answers for name in answer["stages_ms"]])
        return {name: statistics.median([a["stages_ms"].get(name, 0.0) for a in self.answers]) for name in names}


def interpreter(framework: str, others: Sequence[Path]) -> str | None:
    """This interpreter for Rushlight; for a peer the first that has it."""
    if framework == "rushlight":
        return sys.executable
    return next((python for python in (sys.executable, *map(str, others)) if framework in frameworks_of(python)), None)


def run(kind: Kind, python: str | None, size: tuple[int, int], rounds: int, limit: float) -> Runs:
    """First calls of the program with `size` = (rounds of it, parts in each), each in a new process."""
    if python is None:
        return Runs(kind, math.prod(size), [], f"no interpreter here has {kind.framework}")
    case = unbind_split_flip_cat(*size)
    answers: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-") as folder:
        store(Path(folder) / "inputs.npz", case.inputs())
        environment = {**variables(kind.framework, 1), **(cache_variables(kind.framework, "off", folder) or {})}
        line = command(python, kind.framework, kind.mode, "1", case.name, folder, **environment)
        for _ in range(rounds):
            answer = first_call(line, limit)
            if answer["status"] != "ready":
                return Runs(kind, math.prod(size), [], answer["reason"])
            answers.append(answer)
    return Runs(kind, math.prod(size), answers)


def exponent(counts: Sequence[int], seconds: Sequence[float]) -> float:
    """The power of the count that the time grows with: the slope of the line of least squares between logarithms."""
    return statistics.linear_regression([math.log(count) for count in counts], [math.log(one) for one in seconds]).slope


def as_table(measured: Sequence[Runs]) -> Table:
    """Medians of a call's seconds on the clock and of the processor, and the part spent tracing."""
    rows = [["program", "sizes", "call", "cpu", "tracing", "of ours"]]
    ours = next((one.stages()["capture"] / 1e3 for one in measured if one.kind is OURS and one.answers), None)
    notes: list[str] = []
    for one in measured:
        if not one.answers:
            notes.append(f"{one.kind.name} was not measured: {one.problem}")
            continue
        tracing = one.stages()["capture"] / 1e3 if one.kind.framework == "rushlight" else one.median("call_cpu_s")
        share = f"{tracing / ours:.1f}" if ours else ""
        times = [duration(one.median(key)) for key in ("call_s", "call_cpu_s")]
        rows.append([one.kind.name, f"{one.symbols}", *times, duration(tracing), share])
    return Table("tracing", rows, notes)


def stages_table(one: Runs) -> Table:
    """Where the processor's time of a first call went."""
    stages = [(name, ms) for name, ms in one.stages().items() if ms >= FEW_MS]
    rows = [[name, duration(ms / 1e3)] for name, ms in sorted(stages, key=lambda stage: -stage[1])]
    return Table("stages", [[f"stages of {one.kind.name}", "cpu"], *rows], [])


def scaling(iters: int, rounds: int, limit: float, say: Callable[[str], None]) -> Table:
    """Seconds of tracing by the number of parts, and the exponent."""
    rows, counts, seconds = [["parts", "sizes", "tracing", "of each size"]], [], []
    for batch in BATCHES:
        say(f"{iters} x {batch}\n")
        runs = run(OURS, sys.executable, (iters, batch), rounds, limit)
        if not runs.answers:
            return Table("scaling", rows, [f"{batch} parts were not measured: {runs.problem}"])
        tracing = runs.stages()["capture"] / 1e3
        rows.append([f"{batch}", f"{runs.symbols}", duration(tracing), duration(tracing / runs.symbols)])
        counts.append(runs.symbols)
        seconds.append(tracing)
    return Table("scaling", rows, [f"exponent {exponent(counts, seconds):.2f}"])
