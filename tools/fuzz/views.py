"""Fuzzer of views and in-place writes: eager against PyTorch, and every 25th program compiled against eager too.

Results, strides where these are well-defined, gradients, and the storages of all inputs after the run.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import rushlight
from tools.fuzz.comparing import difference, near, same_bits, steps_of
from tools.fuzz.deviations import COMPILED_RULES, VIEW_RULES, Difference, Rule, explained
from tools.fuzz.finding import Finding
from tools.fuzz.program import NAME, Array, Program, targets
from tools.fuzz.reducing import reduced
from tools.fuzz.running import Outcome, run
from tools.fuzz.view_programs import written

COMPILED = 25
"""One of so many programs runs compiled too."""

_UNBOUND = re.compile(r"\.unbind\((-?\d+)\)\[(-?\d+)\]")
_SPLIT = re.compile(r"\.split\((\d+), (-?\d+)\)\[(\d+)\]")
_IN_OTHER_WORDS = (
    ("memory formats", re.compile(r"(torch\.cat\([^()]*\))$"), r"\1.contiguous()"),
    ("`ravel`", re.compile(r"\.ravel\(\)"), ".reshape(-1)"),
)
"""Deviations that other words take away."""
_PLACED = re.compile(r"\bv(?!0\b)\d+\.as_strided\(\(.*?\), \(.*?\), \d")
_KINDS = ("raw", "refused", "accepted", "storage", "gradient", "strides")


def generate(seed: int, number: int) -> Program:
    """A program of a seed and number."""
    return written(seed, number)


def _places_apart(program: Program) -> bool:
    """Whether a view by strides counts from another place than its operand, which programs know apart."""
    return any(_PLACED.search(statement) is not None for statement in program.statements)


def judge(program: Program, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a program, reduced."""
    found = _judged(program, skipped, program.number % COMPILED == 0 or _places_apart(program))
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
    expected = _meant(program, eager, skipped) if eager.error is None else run(program, peer())
    return judged_against(program, eager, expected, skipped, compiled)


def judged_against(
    program: Program, eager: Outcome, expected: Outcome, skipped: Counter[str], compiled: bool
) -> tuple[str, str, bool] | None:
    """What is wrong with an eager run, whose outcome should be the expected one, or with a compiled run beside it."""
    found = compared(program, eager, expected, VIEW_RULES, skipped, near)
    if found is not None:
        return *found, False
    if not compiled or eager.error is not None:
        return None
    other = run(program, rushlight, rushlight.compile)
    found = compared(program, other, eager, COMPILED_RULES, skipped, same_bits)
    return None if found is None else (f"compiled {found[0]}", found[1], True)


def peer() -> Any:
    """PyTorch."""
    return importlib.import_module("torch")


def _meant(program: Program, actual: Outcome, skipped: Counter[str]) -> Outcome:
    """What a program means where PyTorch refuses it, or leaves it open, and a deviation says what it means here.

    That is what PyTorch makes of the program in other words.
    """
    expected = _allowed(program, skipped)
    if "output of a function that returns multiple views" in expected.message:
        skipped["views that come several at once"] += 1
        return _meant(_one_by_one(program), actual, skipped)
    for name, pattern, words in _IN_OTHER_WORDS:
        plain = replace(program, statements=tuple([pattern.sub(words, text) for text in program.statements]))
        if plain.statements != program.statements and _apart(actual, expected):
            skipped[name] += 1
            return _meant(plain, actual, skipped)
    apart = _read_first(program)
    refused = "some elements of the input tensor" in expected.message
    if apart.statements == program.statements or not (refused or difference(actual, expected, near)):
        return expected
    counts = Counter({"an operand that overlaps what is written to": 1})
    again = _meant(apart, actual, counts)
    if not refused and difference(actual, again, near) is not None:
        return expected
    skipped.update(counts)
    return again


def _allowed(program: Program, skipped: Counter[str]) -> Outcome:
    """What PyTorch makes of a program whose saved tensors may be changed, and whose views' histories are asked for."""
    found = run(program, peer())
    if "a leaf Variable that requires grad" in found.message:
        skipped["a write after one through another view"] += 1
        program = _asked(program)
        found = run(program, peer())
    if "modified by an inplace operation" in found.message:
        skipped["a saved tensor that was changed"] += 1
        with peer().autograd.graph.allow_mutation_on_saved_tensors():
            return run(program, peer())
    return found


def _asked(program: Program) -> Program:
    """The program with a look at the history of each value before each statement."""
    statements: list[str] = []
    names = [*program.parameters]
    for text in program.statements:
        statements += [", ".join([f"{name}.grad_fn" for name in names]), text]
        names += targets(text)
    return replace(program, statements=tuple(statements))


def _one_by_one(program: Program) -> Program:
    """Parts of `unbind` and `split` as views of their own."""
    statements = [_UNBOUND.sub(r".select(\1, \2)", text) for text in program.statements]
    split = [_SPLIT.sub(lambda m: f".narrow({m[2]}, {int(m[1]) * int(m[3])}, {m[1]})", text) for text in statements]
    return replace(program, statements=tuple(split))


def _read_first(program: Program) -> Program:
    """Copies of what every write reads beside its target."""
    statements: list[str] = []
    for text in program.statements:
        head = NAME.match(text)
        if targets(text) or ".clone()" in text:
            statements.append(text)
        elif head is not None:
            statements.append(head[0] + NAME.sub(_cloned, text[head.end() :]))
        else:
            read, out, target = text.partition("out=")
            statements.append(NAME.sub(_cloned, read) + out + target)
    return replace(program, statements=tuple(statements))


def _cloned(name: re.Match[str]) -> str:
    return f"{name[0]}.clone()"


def compared(
    program: Program,
    actual: Outcome,
    expected: Outcome,
    rules: tuple[Rule, ...],
    skipped: Counter[str],
    agrees: Callable[[Array, Array], bool],
) -> tuple[str, str] | None:
    """The kind of what differs between two outcomes that no deviation explains, and what that is."""
    detail = _apart(actual, expected, agrees)
    if detail is None:
        return None
    name = explained(Difference(program, actual, expected, detail), rules)
    if name is not None:
        skipped[name] += 1
        return None
    kind = next((kind for kind in _KINDS if detail.startswith(kind)), "value")
    return f"{kind} {actual.code}" if kind == "refused" else kind, detail


def _apart(actual: Outcome, expected: Outcome, agrees: Callable[[Array, Array], bool] = near) -> str | None:
    return difference(actual, expected, agrees) or strides_difference(actual, expected)


def strides_difference(actual: Outcome, expected: Outcome) -> str | None:
    """How the strides of results differ in dims of several indices."""
    for index, (one, other) in enumerate(zip(actual.values, expected.values, strict=True)):
        if one.kind == "Tensor" and 0 not in one.shape and steps_of(one) != steps_of(other):
            return f"strides of result {index}: {one.strides}, wanted {other.strides} of shape {one.shape}"
    return None
