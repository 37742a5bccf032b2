"""The cost of unknown sizes: each small model with backed, unbacked and constant sizes.

The code for backed and for unbacked sizes must be equal except for names, and asserts in place of guards. The artifact
for all sizes is timed beside one for the example's sizes alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import rushlight as rl
from rushlight.bench.llvm_text import Function, functions_of
from rushlight.bench.models import MODELS, Extent, SmallModel
from rushlight.bench.records import Work
from rushlight.bench.reports.tables import Table, duration
from rushlight.bench.serving import Artifact
from rushlight.bench.timing import ratio, rounds_within, spread, take_turns

DIFFERENT_LINES = 24  # of a difference that are shown
LEAST, MOST = 0.97, 1.03  # ratios that are no difference
PRESETS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "tiny": {
        "gpt": (2, 12),
        "bert": (2, 12),
        "t5": (2, 12, 7),
        "resnet": (2, 16, 12),
        "mixer": (2, 40, 36),
        "unet": (2, 17, 22),
        "lstm": (2, 6),
        "dlrm": (4, 7, 3, 2),
    },
    "medium": {
        "gpt": (4, 128),
        "bert": (4, 128),
        "t5": (4, 96, 64),
        "resnet": (8, 32, 32),
        "mixer": (8, 64, 64),
        "unet": (2, 96, 96),
        "lstm": (8, 64),
        "dlrm": (256, 1000, 700, 400),
    },
}


class Code(NamedTuple):
    """Two compilations compared: the first difference as lines of text, if any, and the numbers of asserts."""

    functions: int
    difference: tuple[str, ...]
    asserts: tuple[int, int]


class Times(NamedTuple):
    """Seconds of calls in turns: of the artifact for all sizes, and of the one for these sizes alone."""

    open: list[float]
    constant: list[float]

    @property
    def ratio(self) -> float:
        """The median of ratios: above 1 where open sizes are slower."""
        return ratio(self.open, self.constant)


class Parity(NamedTuple):
    """The findings for a model. `graphs` counts those for the example's sizes, the least ones, and two others."""

    model: str
    code: Code
    graphs: int
    times: Times | None

    @property
    def holds(self) -> bool:
        """Is it one artifact, with the same code, as fast?"""
        as_fast = self.times is None or LEAST <= self.times.ratio <= MOST
        return not self.code.difference and self.graphs == 1 and as_fast


class Compiled:
    """A model that is compiled for one kind of sizes at its first call; its code is kept as text."""

    def __init__(self, model: object, record: SmallModel, kind: str) -> None:
        self._record = record
        self.kind = kind
        self._compiled = rl.compile(model, dynamic=None if kind != "constant" else False)

    def inputs(self, sizes: Sequence[int]) -> tuple[rl.Tensor, ...]:
        """Inputs of these sizes, marked where they are unbacked."""
        made = self._record.inputs(*sizes)
        if self.kind == "unbacked":
            for tensor, dims in zip(made, self._record.dims, strict=True):
                for dim, name in enumerate(dims):
                    if name is not None:
                        rl.compiler.mark_unbacked(tensor, dim, hint=tensor.shape[dim])
        return made

    def __call__(self, inputs: Sequence[object]) -> object:
        """The compiled model's result."""
        with rl.no_grad():
            return self._compiled(*inputs)

    @property
    def graphs(self) -> int:
        """Graphs that its calls have made."""
        return rl.compiler.report(self._compiled).graphs

    def first_call(self, sizes: Sequence[int]) -> list[str]:
        """The LLVM text of all native parts, in the order in which they were compiled."""
        inputs = self.inputs(sizes)
        return rl.compiler.run_and_get_code(self, inputs)[1]


def other_sizes(record: SmallModel, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The least sizes, twice and one more, and half, as far as the model takes them."""
    wanted = ([0] * len(sizes), [2 * size + 1 for size in sizes], [size // 2 for size in sizes])
    return [tuple(map(nearest, record.sizes.values(), some)) for some in wanted]


def nearest(extent: Extent, size: int) -> int:
    """The size that is allowed and differs least."""
    return max(extent.least, size if extent.most is None else min(size, extent.most))


def parity_of(name: str, preset: str, rounds: int, budget: float) -> Parity:
    """Compiles a model in three ways and compares; without rounds nothing is timed."""
    record, sizes = MODELS[name], PRESETS[preset][name]
    rl.manual_seed(0)
    model = record.make().eval()
    backed, unbacked = (Compiled(model, record, kind) for kind in ("backed", "unbacked"))
    code = compare(backed.first_call(sizes), unbacked.first_call(sizes))
    for others in other_sizes(record, sizes):
        unbacked(unbacked.inputs(others))
    times = times_of(unbacked, Compiled(model, record, "constant"), sizes, rounds, budget) if rounds else None
    return Parity(name, code, unbacked.graphs, times)


def compare(texts: Sequence[str], others: Sequence[str]) -> Code:
    """The code of two compilations of the same program."""
    ours, theirs = ([function for text in some for function in functions_of(text)] for some in (texts, others))
    asserts = sum([one.asserts for one in ours]), sum([one.asserts for one in theirs])
    return Code(len(ours), tuple(first_difference(ours, theirs)), asserts)


def first_difference(ours: Sequence[Function], theirs: Sequence[Function]) -> list[str]:
    """Of the first function that is not the same in both; nothing where all are."""
    for one, other in zip(ours, theirs, strict=False):
        if one.lines != other.lines:
            lines = list(difflib.unified_diff(one.lines, other.lines, one.name, other.name, n=2, lineterm=""))
            return lines[:DIFFERENT_LINES]
    return [] if len(ours) == len(theirs) else [f"{len(ours)} functions, and {len(theirs)}"]


def times_of(one: Compiled, other: Compiled, sizes: Sequence[int], rounds: int, budget: float) -> Times:
    """Samples of calls on the same sizes, in turns."""
    artifacts = [Artifact(compiled.kind, bound(compiled, sizes)) for compiled in (one, other)]
    turns = [artifact.turn() for artifact in artifacts]
    seconds, _ = take_turns(turns, rounds_within(turns, rounds, budget))
    return Times(seconds[one.kind], seconds[other.kind])


def bound(compiled: Compiled, sizes: Sequence[int]) -> Work:
    """Calls on inputs that are made here."""
    inputs = compiled.inputs(sizes)
    compiled(inputs)
    return lambda: compiled(inputs)


def as_table(measured: Sequence[Parity]) -> Table:
    """A row for each model; the differences of code are notes."""
    rows = [["model", "functions", "code", "asserts", "graphs", "open sizes", "constant sizes", "ratio", ""]]
    notes: list[str] = []
    for one in measured:
        code = "differs" if one.code.difference else "same"
        row = [one.model, f"{one.code.functions}", code, "{} -> {}".format(*one.code.asserts), f"{one.graphs}"]
        rows.append([*row, *_cells(one.times)])
        notes += [f"{one.model}: the first difference", *one.code.difference] if one.code.difference else []
    return Table("parity", rows, notes)


def _cells(times: Times | None) -> list[str]:
    if times is None:
        return ["", "", "", ""]
    spreads = [duration(spread(taken).median) for taken in times]
    said = "slower" if times.ratio > MOST else "faster" if times.ratio < LEAST else ""
    return [*spreads, f"{times.ratio:.3f}", said]
