"""Programs recorded with what PyTorch made of them, for tests without it.

`python -m tools.fuzz.recording --count 300 tests/fuzz/operators.npz` (with PyTorch) keeps the first programs of seed 0
that nothing is wrong with. A file has one array of bytes, of all storages and results once each, and a JSON text that
refers to parts of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rushlight
from tools.fuzz.deviations import RECORDED_RULES, Difference, explained
from tools.fuzz.judging import Truth, outcome_of, peer_truth, rounds, run_step, step_difference
from tools.fuzz.operators import generate, judge, peer
from tools.fuzz.program import DTYPES, Array, Program
from tools.fuzz.running import Outcome, Value
from tools.fuzz.stepping import Step, View, traced

_STATEMENTS = 7  # programs with more are left out: tests compile every kernel anew


class Recorder:
    """Collects steps. Arrays are parts of one text of bytes, each distinct one once."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.places: dict[bytes, int] = {}
        self.programs: list[list[dict[str, Any]]] = []

    def add(self, steps: Sequence[Step], truth: Truth) -> None:
        """Adds a program's steps; with their values in float64 where bits may differ."""
        kept = [step for step in steps if not any(_complex_number(value) for value in step.results)]
        if kept:
            self.programs.append([self.step(step, truth) for step in kept])

    def step(self, step: Step, truth: Truth) -> dict[str, Any]:
        """A step as plain data."""
        views = {name: [v.storage, v.dtype, v.shape, v.strides, v.offset] for name, v in step.views.items()}
        rounded = step.error is None and rounds(step)
        exact = [truth(step, magnitudes) if rounded else None for magnitudes in (False, True)]
        return {
            "statement": step.statement,
            "views": views,
            "before": {str(key): self.array(data) for key, data in step.before.items()},
            "after": {str(key): self.array(data) for key, data in step.after.items()},
            "results": [self.value(value) for value in step.results],
            "shared": step.shared,
            "error": step.error,
            "message": step.message[:100],
            "exact": [None if one is None else self.outcome(one) for one in exact],
        }

    def outcome(self, outcome: Outcome) -> dict[str, Any]:
        """Results and storages in float64."""
        return {
            "values": [self.value(value) for value in outcome.values],
            "inputs": [[data.dtype.name, *self.array(data.view(np.uint8))] for data in outcome.inputs],
        }

    def value(self, value: Value) -> list[Any]:
        """A result as plain data."""
        if value.kind != "Tensor":
            return [value.kind, value.array.tolist()]
        flat = np.ascontiguousarray(value.array).reshape(-1)
        return [value.kind, value.dtype, value.shape, *self.array(flat.view(np.uint8))]

    def array(self, data: Array) -> list[int]:
        """Where bytes are, and how many."""
        text = data.tobytes()
        if text not in self.places:
            self.places[text] = len(self.bytes)
            self.bytes += text
        return [self.places[text], len(text)]

    def write(self, path: Path) -> None:
        """Writes the file."""
        text = json.dumps(self.programs, separators=(",", ":")).encode()
        np.savez_compressed(path, bytes=np.frombuffer(bytes(self.bytes), np.uint8), text=np.frombuffer(text, np.uint8))


class Recorded:
    """A file of recorded programs: their steps, and the values in float64 of each."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self.bytes, text = file["bytes"], file["text"].tobytes().decode()
        self.programs: list[list[dict[str, Any]]] = json.loads(text)

    def step(self, data: dict[str, Any]) -> tuple[Step, Truth]:
        """A step, and what gives its values in float64."""
        views = {name: View(s, d, tuple(shape), tuple(t), o) for name, (s, d, shape, t, o) in data["views"].items()}
        before, after = ({int(k): self.array(*v) for k, v in data[key].items()} for key in ("before", "after"))
        results, shared = tuple([self.value(part) for part in data["results"]]), tuple(data["shared"])
        step = Step(data["statement"], views, before, after, results, shared, data["error"], data["message"])
        exact = [None if one is None else self.outcome(one) for one in data["exact"]]
        return step, lambda step, magnitudes: exact[magnitudes]

    def outcome(self, data: dict[str, Any]) -> Outcome:
        """Results and storages in float64."""
        inputs = tuple([self.array(at, size).view(dtype) for dtype, at, size in data["inputs"]])
        return Outcome(tuple([self.value(part) for part in data["values"]]), inputs, ())

    def value(self, data: list[Any]) -> Value:
        """A result."""
        if data[0] != "Tensor":
            array = np.asarray(data[1])
            return Value(data[0], data[0], array.shape, (), array)
        kind, dtype, shape, at, size = data
        return Value(kind, dtype, tuple(shape), (), self.array(at, size).view(DTYPES[dtype]).reshape(shape))

    def array(self, at: int, size: int) -> Array:
        """A copy of bytes."""
        return self.bytes[at : at + size].copy()


def _complex_number(value: Value) -> bool:
    return value.kind != "Tensor" and value.array.dtype.kind == "c"  # which JSON does not have


def replay(recorded: Recorded, number: int) -> str | None:
    """What is wrong with a recorded program here, in its first step that is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of casts and the like on special numbers
        for data in recorded.programs[number]:
            step, truth = recorded.step(data)
            actual, _ = run_step(step, rushlight)
            detail = step_difference(step, actual, truth)
            if detail is None:
                continue
            program = step.program(Program(0, number, (), (), ()))
            if explained(Difference(program, actual, outcome_of(step), detail), RECORDED_RULES) is None:
                return f"{step.statement}: {detail}"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Records programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    recorder, truth, number = Recorder(), peer_truth(peer()), 0
    while len(recorder.programs) < options.count:
        program = generate(0, number)
        number += 1
        if len(program.statements) > _STATEMENTS or judge(program, Counter()) is not None:
            continue
        steps = [step for step in traced(program, peer()) if _agrees(step, truth)]
        if steps:
            recorder.add(steps, truth)
    recorder.write(options.path)
    print(f"{len(recorder.programs)} of {number} programs, {options.path.stat().st_size} bytes")
    return 0


def _agrees(step: Step, truth: Truth) -> bool:
    """Whether no deviation has to explain a step."""
    actual, _ = run_step(step, rushlight)
    return step_difference(step, actual, truth) is None


if __name__ == "__main__":
    sys.exit(main())
