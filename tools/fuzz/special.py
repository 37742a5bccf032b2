"""Every form of call on special operands, in each dtype: without dims, without elements, and special numbers.

`python -m tools.fuzz.special tests/ops/special_values.npz` (with PyTorch) records what PyTorch makes of them; what is
wrong here is printed and left out.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tools.fuzz.drawing import Draw, limits_of
from tools.fuzz.judging import peer_truth
from tools.fuzz.operators import FORMS, judged, peer, stated
from tools.fuzz.program import DTYPES, Array, Program, row_major
from tools.fuzz.recording import Recorder
from tools.fuzz.stepping import Step, traced

CASES = {"0-d": 0, "empty": 1, "special": 1, "special rows": 2}
"""Cases by name, and the dims of their operands."""

_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
_VALUES = (float("nan"), 1.5, float("inf"), -float("inf"), -0.0, 0.0, -1.0, 0.5, 20000.0, -2.5)
_ATTEMPTS = 8  # until PyTorch takes the arguments


class SpecialDraw(Draw):
    """Draws special operands of one dtype and case."""

    def __init__(self, name: str, dtype: str, case: str, attempt: int, torch: Any) -> None:
        super().__init__(f"special {name} {dtype} {case} {attempt}", torch)
        self.dtypes = [dtype]
        self.case = case
        self.base = self.small_shape(CASES[case])

    def small_shape(self, rank: int) -> tuple[int, ...]:
        """Sizes of the case."""
        case = getattr(self, "case", "special")
        return ((13,) if rank == 1 else (3, 5, 2, 2)[:rank]) if case != "empty" else (0, 3, 2, 2)[:rank]

    def layout(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int, int]:
        """Dense."""
        return row_major(shape), 0, prod(shape)

    def elements(self, dtype: str, count: int) -> Array:
        """Special numbers in turns, from a place by chance."""
        kind, first = DTYPES[dtype].kind, self.random.randrange(20)
        if kind in "iub":
            limits = (0, 1) if kind == "b" else (np.iinfo(DTYPES[dtype]).min, np.iinfo(DTYPES[dtype]).max)
            values = np.array([0, 1, 2, 5, limits[0], 3, limits[1], 7][: 2 if kind == "b" else 8])
        else:
            values = np.array([*_VALUES, *limits_of("float32" if kind == "c" else dtype)])
            values = values + 1j * np.roll(values, 3) if kind == "c" else values
        with np.errstate(all="ignore"):
            return np.resize(np.roll(values, first), count).astype(DTYPES[dtype])


def steps_of(name: str, dtype: str, case: str) -> tuple[Program, Step] | None:
    """A call of a form on such operands, which PyTorch took, or refused each time; None where it has other dtypes."""
    found = None
    for attempt in range(_ATTEMPTS):
        draw = SpecialDraw(name, dtype, case, attempt, peer())
        text = FORMS[name](draw)
        if not draw.inputs or draw.inputs[0].dtype != dtype:
            return None
        statement, _ = stated(draw, text, 20)
        program = Program(0, attempt, tuple(draw.inputs), (statement or f"v20 = {text}",), ())
        found = program, traced(program, peer())[0]
        if statement is not None and found[1].error is None:
            break
    return found


def all_steps() -> Iterator[tuple[str, Program, Step]]:
    """A step of every form, dtype and case that there is."""
    for name in FORMS:
        if name[-1].isdigit():
            continue
        for dtype in _DTYPES:
            for case in CASES:
                found = steps_of(name, dtype, case)
                if found is not None:
                    yield f"{name} {dtype} {case}", *found


def main(arguments: Sequence[str] | None = None) -> int:
    """Records the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    recorder, truth, skipped, wrong = Recorder(), peer_truth(peer()), Counter[str](), 0
    for key, program, step in all_steps():
        before = skipped.total()
        _, detail, _ = judged(step, program, skipped)
        if detail is not None:
            wrong += 1
            print(f"{key}: {step.statement}: {detail[:200]}", flush=True)
        elif skipped.total() == before:
            recorder.add([step], truth)
    recorder.write(options.path)
    print(
        f"{len(recorder.programs)} calls, {wrong} wrong, {options.path.stat().st_size} bytes; skipped {dict(skipped)}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
