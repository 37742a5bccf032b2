"""Fuzzer of `func.functionalize`: programs of views and in-place writes against themselves as they are.

Results and the storages of all inputs after the run have the same bits, gradients are near. In every second program two
inputs share their memory, if two can. Every fifth program is compiled too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import rushlight
from rushlight.func import functionalize
from tools.fuzz.comparing import near, same_bits
from tools.fuzz.deviations import COMPILED_RULES
from tools.fuzz.finding import Finding
from tools.fuzz.program import Program
from tools.fuzz.reducing import reduced
from tools.fuzz.running import Outcome, run
from tools.fuzz.view_programs import written
from tools.fuzz.views import compared

COMPILED = 5
"""One of so many programs runs compiled too."""
ALIASED = 2
"""In one of so many programs two inputs share their memory."""
_REFUSED = frozenset({"C012", "C031", "A006"})
"""What a trace refuses and eager code does not: memory of two inputs, of which neither is a view of the other."""


def generate(seed: int, number: int) -> Program:
    """A program of a seed and number."""
    program = written(seed, number)
    return _aliased(program) if number % ALIASED == 0 else program


def _aliased(program: Program) -> Program:
    """The program with the first two inputs of one dtype, of which none is a leaf with a gradient, in one memory."""
    inputs = [*program.inputs]
    for one, other in combinations(range(len(inputs)), 2):
        a, b = inputs[one], inputs[other]
        if a.dtype == b.dtype and not (a.requires_grad or b.requires_grad):
            values = max(a.values, b.values, key=len)
            inputs[one], inputs[other] = replace(a, values=values), replace(b, values=values)
            break
    return replace(program, inputs=tuple(inputs))


def judge(program: Program, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a program, reduced."""
    compiled = program.number % COMPILED == 0
    found = _judged(program, skipped, compiled)
    if found is None:
        return None

    def fails(other: Program) -> bool:
        again = _judged(other, Counter(), compiled)
        return again is not None and again[0] == found[0]

    smallest = reduced(program, fails)
    again = _judged(smallest, Counter(), compiled)
    return Finding(found[0], smallest, found[1] if again is None else again[1])


def _judged(program: Program, skipped: Counter[str], compiled: bool) -> tuple[str, str] | None:
    eager = run(program, rushlight)
    if eager.error is not None:
        skipped["eager code refuses the program"] += 1
        return None
    found = _differs(program, run(program, rushlight, functionalize), eager, skipped)
    if found is not None or not compiled:
        return found
    skipped["compiled too"] += 1
    other = run(program, rushlight, lambda function: rushlight.compile(functionalize(function)))
    found = _differs(program, other, eager, skipped)
    return None if found is None else (f"compiled {found[0]}", found[1])


def _differs(program: Program, actual: Outcome, eager: Outcome, skipped: Counter[str]) -> tuple[str, str] | None:
    if actual.code in _REFUSED:
        skipped[f"a trace refuses it: {actual.code}"] += 1
        return None
    bits = [replace(outcome, gradients=()) for outcome in (actual, eager)]  # sums of gradients have another order
    found = compared(program, bits[0], bits[1], COMPILED_RULES, skipped, same_bits)
    return found or compared(program, actual, eager, COMPILED_RULES, skipped, near)
