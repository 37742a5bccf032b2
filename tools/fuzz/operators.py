"""Fuzzer of operators: eager programs of up to 12 statements against PyTorch in the same process.

Every statement is judged on the operands that PyTorch gave. Then the program runs from end to end, for what in-place
operators and views do to values that later statements read: there values must have PyTorch's bits where nothing before
them differed.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

import rushlight
from tools.fuzz.catalogue_network import NETWORK
from tools.fuzz.catalogue_pointwise import POINTWISE
from tools.fuzz.catalogue_reducing import REDUCING
from tools.fuzz.catalogue_shaping import SHAPING
from tools.fuzz.comparing import category_of, same_bits
from tools.fuzz.deviations import OPERATOR_RULES, Difference, explained
from tools.fuzz.drawing import Draw, some_dtypes, some_ways
from tools.fuzz.finding import Finding
from tools.fuzz.judging import operator_of, outcome_of, peer_truth, run_step, step_difference
from tools.fuzz.program import NAME, Program, operands, targets
from tools.fuzz.reducing import reduced
from tools.fuzz.running import Outcome, Value, leaf, value_of
from tools.fuzz.stepping import Step, traced

FORMS = {**POINTWISE, **REDUCING, **SHAPING, **NETWORK}
"""Forms of calls by name."""

STATEMENTS = 12
_SURVEY = 2000  # the first programs of a seed draw from everything, as a few of the others do
_FAMILY = 1000  # programs
_FORMS_OF_FAMILY = 16
_FREE = 0.03  # share of programs that draw from everything
_FIRST = 100  # number of the first result's name while a program is made: above those of inputs
_ASSIGNMENT = re.compile(r"v\d+(\[.*\])? [-+*/]?= ")
_PARTS = re.compile(r"\b(conj|real|imag)\b")
_SIGNS = re.compile(r"\b(copysign_?|signbit)\b")
_ERRORS = 0.2  # share of statements that raise in PyTorch which are kept


class Family(NamedTuple):
    """What neighbouring programs draw from: forms of calls, dtypes, ranks of most values, and ways to lay them out."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    ranks: tuple[int, ...]
    ways: tuple[str, ...]


@lru_cache(4)
def family(seed: int, place: int) -> Family:
    """The family of a seed at a place. Some neighbouring families have all forms between them.

    A kernel takes 60 ms to compile and 1 ms to find. Programs that draw from all operators, dtypes and layouts need six
    new ones each, without end; those of a family share most of theirs, whatever their sizes, values and order.
    """
    rounds, share = divmod(place, -(-len(FORMS) // _FORMS_OF_FAMILY))
    names = list(FORMS)
    Random(f"operators {seed} round {rounds}").shuffle(names)
    random = Random(f"operators {seed} family {place}")
    names = names[share * _FORMS_OF_FAMILY :][:_FORMS_OF_FAMILY]
    return Family(tuple(names), tuple(some_dtypes(random)), tuple(random.sample(range(4), 2)), some_ways(random))


def generate(seed: int, number: int) -> Program:
    """A program of a seed and number. PyTorch runs it as it is made, so that arguments fit."""
    torch = peer()
    draw = Draw(f"operators {seed} {number}", torch)
    statements: list[str] = []
    names = list(FORMS)
    if number >= _SURVEY and not draw.chance(_FREE):
        kin = family(seed, number // _FAMILY)
        names, draw.dtypes, draw.wild = list(kin.names), list(kin.dtypes), False
        draw.few = f"operators {seed} family {number // _FAMILY}"
        draw.rank_of_most, draw.ways = max(kin.ranks), kin.ways
        draw.base = draw.small_shape(draw.pick(kin.ranks))
    wanted = draw.random.randrange(1, STATEMENTS + 1)
    count = _FIRST
    for _ in range(2 * STATEMENTS):
        if len(statements) == wanted:
            break
        text = FORMS[draw.pick(names)](draw)
        statement, made = stated(draw, text, count)
        if statement is not None:
            statements.append(statement)
            count += made
    return _renumbered(Program(seed, number, tuple(draw.inputs), tuple(statements), ()))


def stated(draw: Draw, text: str, count: int) -> tuple[str | None, int]:
    """Runs a call with PyTorch; its statement, and how many values it assigns. None: it raised and is left out."""
    scope = {**draw.live, "torch": draw.torch, "F": draw.torch.nn.functional}
    writes = _is_assignment(text)
    try:
        if writes:
            exec(text, scope)  # noqa: S102 - our own text
            return text, 0
        result = eval(text, scope)  # noqa: S307 - our own text
    except Exception:  # noqa: BLE001 - PyTorch refuses; that is kept now and then
        if not draw.chance(_ERRORS):
            return None, 0
        return (text if writes else f"v{count} = {text}"), 1
    parts: list[Any] = list(result) if isinstance(result, (tuple, list)) and len(result) else [result]
    if not all(hasattr(part, "stride") for part in parts) or len(parts) > 8:
        return f"v{count} = {text}", 1
    names = [f"v{count + index}" for index in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        if str(part.dtype) != "torch.complex32" and not part.is_conj():
            draw.live[name] = part
    left = ", ".join(names) + "," * (len(names) == 1 and result is not parts[0])
    return f"{left} = {text}", len(names)


def _is_assignment(text: str) -> bool:
    return _ASSIGNMENT.match(text) is not None


def _renumbered(program: Program) -> Program:
    """Numbers the results after the inputs; names all of them as the program's results."""
    names = dict.fromkeys(program.parameters)
    for statement in program.statements:
        names.update(dict.fromkeys(targets(statement)))
    numbers = {name: f"v{index}" for index, name in enumerate(names)}
    statements = tuple([NAME.sub(lambda name: numbers[name[0]], text) for text in program.statements])
    results = tuple([name for text in statements for name in targets(text)])
    return Program(program.seed, program.number, program.inputs, statements, results)


def judge(program: Program, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a program, reduced."""
    steps = traced(program, peer())
    inexact: set[str] = set()
    for step in steps:
        kind, detail, exact = judged(step, program, skipped)
        if detail is not None:
            return _reduced(step.program(program), program, kind, detail)
        if not exact:
            inexact.add(step.statement)
    detail = end_to_end(program, inexact, {step.statement for step in steps if step.writes})
    if detail is None:
        return None
    smallest = reduced(program, lambda other: _end_to_end(other) is not None)
    return Finding("end to end", smallest, _end_to_end(smallest) or detail)


def _end_to_end(program: Program) -> str | None:
    """What differs from end to end in a program whose steps alone are right."""
    inexact: set[str] = set()
    for step in traced(program, peer()):
        _, detail, exact = judged(step, program, Counter())
        if detail is not None:
            return None
        if not exact:
            inexact.add(step.statement)
    return end_to_end(program, inexact, None)


def judged(step: Step, program: Program, skipped: Counter[str]) -> tuple[str, str | None, bool]:
    """The kind of a step's difference, the difference or None, and whether bits are equal."""
    expected = outcome_of(step)
    actual, shared = run_step(step, rushlight)
    detail = step_difference(step, actual, peer_truth(peer()))
    if detail is None and actual.error is None and not _shares_alike(step, shared):
        detail = f"shared memory {shared}, wanted {step.shared}"
    name = operator_of(step.statement)
    if detail is not None:
        rule = explained(Difference(step.program(program), actual, expected, detail), OPERATOR_RULES)
        if rule is None:
            return f"{name}: {'shared' if detail.startswith('shared') else category_of(detail)}", detail, False
        skipped[rule] += 1
        return name, None, False
    return name, None, _same(actual, expected)


def _shares_alike(step: Step, shared: tuple[int | None, ...]) -> bool:
    pairs = zip(step.results, shared, step.shared, strict=True)
    return all(one == other for result, one, other in pairs if result.array.size)


def _same(actual: Outcome, expected: Outcome) -> bool:
    if actual.error is not None or expected.error is not None:
        return actual.error is not None and expected.error is not None
    pairs = zip(actual.values, expected.values, strict=True)
    storages = zip(actual.inputs, expected.inputs, strict=True)
    return all(same_bits(one.array, other.array) for one, other in pairs) and all(
        same_bits(one, other) for one, other in storages
    )


def _reduced(alone: Program, program: Program, kind: str, detail: str) -> Finding:
    """The statement alone, if it fails so too; else the whole program, made smaller."""

    def failing(other: Program) -> str | None:
        for step in traced(other, peer()):
            found, what, _ = judged(step, other, Counter())
            if what is not None and found == kind:
                return what
        return None

    start = alone if failing(alone) is not None else program
    smallest = reduced(start, lambda other: failing(other) is not None)
    return Finding(kind, smallest, failing(smallest) or detail)


def end_to_end(program: Program, inexact: set[str], writing: set[str] | None) -> str | None:
    """Runs a program on values of its own in both; what first differs where all before it had the same bits.

    `inexact` has the statements whose results may differ in bits, `writing` those that change operands (None: any may).
    """
    expected, actual = (_scope(program, module) for module in (peer(), rushlight))
    apart: set[str] = set()
    copied = False  # whether parts of a complex tensor are copies here and views there
    for statement in program.statements:
        names = operands(statement)
        if not all(name in expected for name in names):
            continue
        if copied and (writing is None or statement in writing):
            return None
        complex_ = any(str(getattr(expected[name], "dtype", "")).startswith("torch.complex") for name in names)
        copied = copied or (complex_ and _PARTS.search(statement) is not None)
        wanted, raised = _executed(statement, expected), _executed(statement, actual)
        clean = statement not in inexact and apart.isdisjoint(names)
        if "as_strided" in statement:
            clean = clean and _laid_out_alike(expected[names[0]], actual[names[0]])
        if _SIGNS.search(statement) is not None:  # that of NaN is not promised
            clean = clean and not any(_has_nan(expected[name]) for name in names)
        if (wanted is None) != (raised is None):
            return f"{statement}: raises {raised or 'nothing'}, wanted {wanted or 'nothing'}" if clean else None
        writes = writing is None or statement in writing or statement in inexact  # the last: here, if not in PyTorch
        touched = list(expected) if writes else targets(statement)
        for name in touched:
            detail = None if name in apart else _apart(expected.get(name), actual.get(name))
            if detail is not None and clean and raised is None:  # PyTorch may write before it fails, the step here not
                return f"{statement}: {name} is {detail}"
            if detail is not None:
                apart.add(name)
        if statement in inexact:
            apart.update(targets(statement))
    return None


def _laid_out_alike(expected: Any, actual: Any) -> bool:
    """Whether strides are PyTorch's: those of results are not promised, and `as_strided` shows them."""
    return expected.stride() == tuple(actual.stride())


def _has_nan(value: Any) -> bool:
    return hasattr(value, "stride") and bool(value.isnan().any())


def _apart(expected: Any, actual: Any) -> str | None:
    """How a value differs in bits from PyTorch's."""
    if not hasattr(expected, "stride") or not hasattr(actual, "stride"):
        return None
    one, other = value_of(actual), value_of(expected)
    if (one.dtype, one.shape) == (other.dtype, other.shape) and same_bits(one.array, other.array):
        return None
    return f"{_shown(one)}, wanted {_shown(other)}"


def _shown(value: Value) -> str:
    return f"{value.dtype}{list(value.shape)} {value.array.tolist()}"


def _scope(program: Program, module: Any) -> dict[str, Any]:
    scope: dict[str, Any] = {"torch": module, "F": module.nn.functional}
    for name, given in zip(program.parameters, program.inputs, strict=True):
        scope[name] = leaf(given, given.values.copy(), module)
    return scope


def _executed(statement: str, scope: dict[str, Any]) -> str | None:
    try:
        exec(statement, scope)  # noqa: S102 - the generator's own text
    except Exception as error:  # noqa: BLE001 - every error is an outcome
        return type(error).__name__
    return None


def peer() -> Any:
    """PyTorch."""
    return importlib.import_module("torch")
