"""Fuzzer of views and in-place writes: eager against PyTorch, and every 25th program compiled against eager too.

Results, strides where these are well-defined, gradients, and the storages of all inputs after the run.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight
from tools.fuzz.comparing import difference, same_bits
from tools.fuzz.deviations import COMPILED_RULES, VIEW_RULES, Difference, Rule, explained
from tools.fuzz.finding import Finding
from tools.fuzz.program import Array, Program
from tools.fuzz.reducing import reduced
from tools.fuzz.running import Outcome, run
from tools.fuzz.view_programs import written

COMPILED = 25
"""One of so many programs runs compiled too."""

_KINDS = ("raw", "refused", "accepted", "storage", "gradient", "strides")


def generate(seed: int, number: int) -> Program:
    """A program of a seed and number."""
    return written(seed, number)


def judge(program: Program, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a program, reduced."""
    found = _judged(program, skipped, program.number % COMPILED == 0)
    if found is None:
        return None
    kind, detail, compiled = found

    def fails(other: Program) -> bool:
        again = _judged(other, Counter(), compiled)
        return again is not None and again[0] == kind

    smallest = reduced(program, fails)
    again = _judged(smallest, Counter(), compiled)
    return Finding(kind, smallest, again[1] if again is not None else detail)


def _judged(program: Program, skipped: Counter[str], compiled: bool) -> tuple[str, str, bool] | None:
    """The kind of what is wrong, what that is, and whether it is about the compiled program."""
    eager = run(program, rushlight)
    found = _compared(program, eager, run(program, importlib.import_module("torch")), VIEW_RULES, skipped, near)
    if found is not None:
        return *found, False
    if not compiled or eager.error is not None:
        return None
    other = run(program, rushlight, rushlight.compile)
    found = _compared(program, other, eager, COMPILED_RULES, skipped, same_bits)
    return None if found is None else (f"compiled {found[0]}", found[1], True)


def _compared(
    program: Program,
    actual: Outcome,
    expected: Outcome,
    rules: tuple[Rule, ...],
    skipped: Counter[str],
    agrees: Callable[[Array, Array], bool],
) -> tuple[str, str] | None:
    detail = difference(actual, expected, agrees) or strides_difference(actual, expected)
    if detail is None:
        return None
    name = explained(Difference(program, actual, expected, detail), rules)
    if name is not None:
        skipped[name] += 1
        return None
    kind = next((kind for kind in _KINDS if detail.startswith(kind)), "value")
    return f"{kind} {actual.code}" if kind == "refused" else kind, detail


def near(actual: Array, expected: Array) -> bool:
    """Whether arrays are the same but for the last bits of sums of floats."""
    if expected.dtype.kind != "f":
        return same_bits(actual, expected)
    scale = float(np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected)))
    return bool(np.allclose(actual, expected, rtol=1e-5, atol=1e-6 * scale, equal_nan=True))


def strides_difference(actual: Outcome, expected: Outcome) -> str | None:
    """How the strides of results differ in dims of several indices."""
    for index, (one, other) in enumerate(zip(actual.values, expected.values, strict=True)):
        if one.kind == "Tensor" and 0 not in one.shape and _steps(one) != _steps(other):
            return f"strides of result {index}: {one.strides}, wanted {other.strides} of shape {one.shape}"
    return None


def _steps(value: Any) -> list[int]:
    return [stride for size, stride in zip(value.shape, value.strides, strict=True) if size > 1]
