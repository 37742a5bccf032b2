"""Programs of views and writes recorded with what PyTorch made of them, for tests without it.

`python -m tools.fuzz.recording_views --count 300 tests/fuzz/views.npz` (with PyTorch) keeps the first programs of seed
0 that nothing is wrong with and no deviation explains. The file is like that of the operators' programs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rushlight
from tools.fuzz.program import DTYPES, Array, Input, Program
from tools.fuzz.recording import Recorded, Recorder
from tools.fuzz.running import Outcome, Value, run
from tools.fuzz.views import COMPILED, generate, judged_against, peer


class ViewRecorder(Recorder):
    """Collects programs with their outcomes."""

    def keep(self, program: Program, outcome: Outcome) -> None:
        """Adds a program."""
        kept = {
            "inputs": [
                [one.dtype, one.shape, one.strides, one.offset, one.requires_grad, *self.array(as_bytes(one.values))]
                for one in program.inputs
            ],
            "statements": program.statements,
            "results": program.results,
            "values": [[*self.value(value), value.strides] for value in outcome.values],
            "after": [self.array(as_bytes(data)) for data in outcome.inputs],
            "gradients": [None if value is None else self.value(value) for value in outcome.gradients],
        }
        self.programs.append([kept])


class RecordedViews(Recorded):
    """A file of recorded programs."""

    def program(self, number: int) -> tuple[Program, Outcome]:
        """A program, and PyTorch's outcome."""
        (kept,) = self.programs[number]
        inputs = [self.given(*row) for row in kept["inputs"]]
        program = Program(0, number, tuple(inputs), tuple(kept["statements"]), tuple(kept["results"]))
        values = [self.strided(*row) for row in kept["values"]]
        after = [self.array(*place).view(DTYPES[one.dtype]) for place, one in zip(kept["after"], inputs, strict=True)]
        gradients = [None if row is None else self.value(row) for row in kept["gradients"]]
        return program, Outcome(tuple(values), tuple(after), tuple(gradients))

    def given(
        self, dtype: str, shape: list[int], strides: list[int], offset: int, requires_grad: bool, at: int, size: int
    ) -> Input:
        """An input."""
        values = self.array(at, size).view(DTYPES[dtype])
        return Input(dtype, tuple(shape), tuple(strides), offset, values, requires_grad)

    def strided(self, *row: Any) -> Value:
        """A result with its strides."""
        value = self.value([*row[:-1]])
        return Value(value.kind, value.dtype, value.shape, tuple(row[-1]), value.array)


def as_bytes(data: Array) -> Array:
    """The bytes of a vector."""
    return np.ascontiguousarray(data).view(np.uint8)


def replay(recorded: RecordedViews, number: int) -> str | None:
    """What is wrong with a recorded program here; every 25th runs compiled too."""
    program, expected = recorded.program(number)
    found = judged_against(program, run(program, rushlight), expected, Counter(), number % COMPILED == 0)
    return None if found is None else f"{found[0]}: {found[1]}\n{program.script()}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Records programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    recorder, number = ViewRecorder(), 0
    while len(recorder.programs) < options.count:
        program, skipped = generate(0, number), Counter[str]()
        number += 1
        expected, eager = run(program, peer()), run(program, rushlight)
        if expected.error is None and judged_against(program, eager, expected, skipped, False) is None and not skipped:
            recorder.keep(program, expected)
    recorder.write(options.path)
    print(f"{len(recorder.programs)} of {number} programs, {options.path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
