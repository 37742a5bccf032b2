"""What capture costs: by bytecode and operator, by the depth of modules, and at each later call for guards.

Each measurement is a process of its own, through the worker. Graphs are run by a backend that makes no native code.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rushlight.bench.contestants import Kind, command, variables
from rushlight.bench.records import Record
from rushlight.bench.reports.tables import Table, duration
from rushlight.bench.startup import cache_variables, first_call
from rushlight.bench.tracing import exponent

WHOLE = Kind("rushlight", "rushlight", "whole")
PARTS = Kind("rushlight, in parts", "rushlight", "parts")
TORCH = Kind("torch.compile", "torch", "parts")
PROGRAMS = ("accounts", "pointwise", "parameters", "gpt2-forward", "gpt2-step")
DEPTHS = (10, 20, 40, 80)
DEEPEST = 500  # where eager calls are beyond Python's limit of recursion
NESTED = "nested"


class Measured(NamedTuple):
    """The answer of a process about a program of some size, 0 where there is one size."""

    kind: Kind
    program: str
    size: int
    answer: Record

    def to_record(self) -> Record:
        """As JSON."""
        return {"contestant": self.kind.name, "program": self.program, "size": self.size, **self.answer}


def measure(kind: Kind, python: str | None, program: str, size: int, limit: float) -> Measured:
    """Capture of a program in a new process."""
    if python is None:
        absent = {"status": "absent", "reason": f"no interpreter here has {kind.framework}"}
        return Measured(kind, program, size, absent)
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-") as folder:
        environment = {**variables(kind.framework, 1), **(cache_variables(kind.framework, "off", folder) or {})}
        line = command(python, kind.framework, kind.mode, "1", "capture", program, str(size), **environment)
        return Measured(kind, program, size, first_call(line, limit))


def measure_programs(
    programs: Sequence[str], pythons: Sequence[tuple[Kind, str | None]], limit: float, say: Callable[[str], None]
) -> list[Measured]:
    """Each program by each contestant."""
    results: list[Measured] = []
    for program in programs:
        for kind, python in pythons:
            say(f"{program}: {kind.name}\n")
            results.append(measure(kind, python, program, 0, limit))
    return results


def measure_depths(
    depths: Sequence[int], pythons: Sequence[tuple[Kind, str | None]], limit: float, say: Callable[[str], None]
) -> list[Measured]:
    """Modules of these depths by each contestant."""
    results: list[Measured] = []
    for kind, python in pythons:
        for depth in depths:
            say(f"depth {depth}: {kind.name}\n")
            results.append(measure(kind, python, NESTED, depth, limit))
    return results


def as_table(results: Sequence[Measured]) -> Table:
    """The processor's time of capture, of each bytecode that is no operator, and of each operator."""
    rows = [["program", "", "first", "again", "bytecodes", "median", "mean", "operators", "each"]]
    ready, notes = _ready(results)
    for one in ready:
        answer = one.answer
        counts = [""] * 5
        if "bytecodes" in answer:
            times = [duration(answer[key] / 1e6) for key in ("median_us", "mean_us", "operator_us")]
            counts = [f"{answer['bytecodes']}", *times[:2], f"{answer['operators']}", times[2]]
        rows.append([one.program, one.kind.name, duration(answer["first_s"]), duration(answer["again_s"]), *counts])
    return Table("capture", rows, notes)


def calls_table(results: Sequence[Measured]) -> Table:
    """The processor's time of guards and of a call; not where nothing was measured."""
    rows = [["program", "", "guards", "a call", "eagerly"]]
    for one in [one for one in results if "guards_us" in one.answer]:
        cells = [one.answer.get(key) for key in ("guards_us", "call_us", "eager_us")]
        texts = ["" if cell is None else duration(cell / 1e6) for cell in cells]
        rows.append([one.program, one.kind.name, *texts])
    return Table("calls", rows, [])


def depths_table(results: Sequence[Measured]) -> Table:
    """Capture by the depth of a module, and the exponent of its growth, without the deepest."""
    rows = [["depth", "", "first", "again", "each level"]]
    ready, notes = _ready(results)
    for one in ready:
        seconds = one.answer["again_s"]
        times = [duration(value) for value in (one.answer["first_s"], seconds, seconds / one.size)]
        rows.append([f"{one.size}", one.kind.name, *times])
    for kind in dict.fromkeys([one.kind for one in ready]):
        pairs = [(one.size, one.answer["again_s"]) for one in ready if one.kind == kind and one.size < DEEPEST]
        if len(pairs) > 1:
            notes.append(f"{kind.name}: exponent {exponent(*zip(*pairs, strict=True)):.2f}")
    return Table("depth", rows, notes)


def _ready(results: Sequence[Measured]) -> tuple[list[Measured], list[str]]:
    """Those that were measured, and notes on the others."""
    ready = [one for one in results if one.answer["status"] == "ready"]
    notes: list[str] = []
    for one in results:
        if one.answer["status"] != "ready":
            name = f"{one.program} {one.size}" if one.size else one.program
            notes.append(f"{name} by {one.kind.name} was not measured: {one.answer['reason'].splitlines()[0][:120]}")
    return ready, notes


def ours() -> list[tuple[Kind, str | None]]:
    """Both of our ways to capture."""
    return [(WHOLE, sys.executable), (PARTS, sys.executable)]
