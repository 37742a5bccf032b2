"""Fuzzer of compiled functions against eager code, bit for bit: results, gradients, and what is written to inputs.

A program calls operators of the registry, of which every one takes its turn, and then uses values again: views of
inputs and of intermediates, several uses of one value, sums over broadcasts, moments, hooks. Its results are values by
chance, inputs and views among them, and only some have a gradient. Inputs are leaves or computed from leaves, which
are used before and after the call as well, so that gradients of one value come from inside and from outside. In one
of ten pools data tells some sizes, and where values are read and written; in another one the places that data tells
may be nowhere. Where eager code refuses an index (I001), compiled code has to, and must not have written to an input.
Where the backward pass of eager code finds that a gradient has another shape than its tensor, that is a finding too.

Programs are compiled many at a time, as one function of one graph (the fuzzer `parts` compiles in parts). That
function runs at several sizes, with 0 and 1 among them, on one thread and on two. A program that fails is compiled by
itself, at the sizes at which it fails, and reduced.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import rushlight
from rushlight.ops import OPERATORS
from rushlight.ops.record import Operator
from rushlight.support import settings
from rushlight.support.frozen import frozen
from rushlight.testing.making import make_program
from rushlight.testing.programs import Gradient
from rushlight.testing.programs import Program as Made
from rushlight.testing.running import SETS, drawn_inputs, run_eagerly
from tools.fuzz.comparing import difference, same_bits, storages_difference
from tools.fuzz.finding import Finding
from tools.fuzz.pooling import Pool, drawn_use
from tools.fuzz.program import FLOATS, Input, Program, operands, targets
from tools.fuzz.reducing import reduced
from tools.fuzz.running import Outcome, Transform, failed
from tools.fuzz.wording import Wording, input_like

POOL = 12  # programs of one compiled function
THREADS = (1, 2)
WHOLE = functools.partial(rushlight.compile, fullgraph=True)
DEFECTS = ("C015", "X001")  # a pass made what breaks the rules, memory that is read unwritten included
_OTHER_SETS = 2  # besides the samples' sizes
_MOST_ELEMENTS = 1 << 12  # of values that are used further

VIEWS = (
    "{v}.unsqueeze(0)",
    "{v}.transpose(0, -1)",
    "{v}[1:]",
    "{v}[..., ::2]",
    "{v}.expand(2, *{v}.shape)",
    "{v}.detach()",
    "{v}.view_as({v})",
)
USES = (
    "{v} * {v}",
    "{v} + {v}",
    "{v} * 0.3",
    "{v}.sin()",
    "{v}.tile((2,))",
    "torch.cat([{v}, {v}])",
    "{v}.sum(0, keepdim=True) * {v}",
    "{v} - {v}.mean(-1, keepdim=True)",
    "{v}.sum() * {v}",
    "{v}.var(correction=0)",
    "{v}.std(-1, correction=0)",
    "{v}.norm()",
    "F.softmax({v}, -1)",
    "F.layer_norm({v}, {v}.shape[-1:])",
    "({v}.exp().unsqueeze(-2) @ {v}.unsqueeze(-1)).flatten()",
    "({v}.unsqueeze(-1) @ {v}.unsqueeze(-2)).sum(-1)",
    "{v}.sort(-1)[0]",
    "{v}.flatten().median()",
    "torch.einsum('...i,...i->...', {v}.exp(), {v})",
    "torch.einsum('...i,...i->...', {v}.exp(), {v}).flatten().median()",
)
DATA_USES = (
    "{v}[{v} > 0]",
    "{v}[{v} < 0].sum() * {v}",
    "torch.masked_select({v}, {v} > 0).sin()",
    "{v}.flatten()[{v}.detach().flatten().nonzero().squeeze(1)]",
    "{v}.where({v} > 0, 0).flatten().sort(0)[0]",
    "torch.unique({v}.detach().round()).sum() * {v}",
    "{v}.flatten().repeat_interleave(({v}.detach().flatten() > 0).long() + 1)",
    "{v}.flatten()[:int(({v}.detach() > 0).sum())].exp()",
    "{v} * int(({v}.detach() > 0).sum())",
    "{v}.flatten().median() * {v}",
    "{v}.gather(-1, {v}.detach().argsort(-1)).cumsum(-1)",
    "torch.zeros_like({v}).scatter(-1, {v}.detach().argsort(-1), {v}).sin()",
    "torch.zeros_like({v}).index_add(0, ({v}.detach().flatten()[:1] > 0).long() * 0, {v}[:1])",
)
"""Uses whose sizes, or the places that they read and write, are told by data."""
WILD_USES = (
    "{v}.flatten()[{v}.detach().flatten().long()]",
    "{v}.gather(-1, {v}.detach().long())",
    "{v}.index_select(0, {v}.detach().flatten().long()).sin()",
    "torch.take({v}, {v}.detach().long())",
    "torch.take_along_dim({v}, {v}.detach().long(), 0)",
    "torch.zeros_like({v}).scatter(-1, {v}.detach().long(), {v})",
    "torch.zeros_like({v}).scatter_add(0, {v}.detach().long(), {v}).cos()",
    "torch.zeros_like({v}).scatter_reduce(-1, {v}.detach().long(), {v}, 'amax')",
    "torch.zeros_like({v}).index_add(0, {v}.detach().flatten()[:1].long(), {v}[:1])",
    "torch.zeros_like({v}).index_put(({v}.detach().flatten()[:1].long(),), {v}[0])",
    "torch.zeros_like({v}).index_fill(0, {v}.detach().flatten().long(), 2.0) * {v}",
    "F.embedding({v}.detach().flatten().long(), {v}.flatten().unsqueeze(1))",
    "F.cross_entropy({v}.flatten().unsqueeze(0), {v}.detach().flatten()[:1].long())",
    "F.one_hot({v}.detach().long(), 3).sum() * {v}",
    "{v}[{v} > 0][{v}.detach().flatten()[:1].long()]",
)
"""Uses that read and write at places that data tells, and that may be out of range."""
HOOK = "{v}.requires_grad and {v}.register_hook(lambda g: g * 0.5)"


_MISFIT = ("S001", "S009")  # of a backward pass: a gradient of another shape than its tensor
_DATA_POOLS = {8: WILD_USES, 9: DATA_USES}  # of ten


@frozen(eq=False)
class Plan:
    """A program at its samples' sizes, and its inputs at some more.

    `refused` are inputs with an index out of range; `misfit` tells which gradient does not fit its tensor.
    """

    program: Program
    others: tuple[tuple[Input, ...], ...]
    refused: tuple[tuple[Input, ...], ...] = ()
    misfit: str = ""

    def rows(self) -> list[tuple[Input, ...]]:
        """Its inputs in each turn; where a size does not suit it, those of the samples again."""
        return [self.program.inputs, *self.others, *[self.program.inputs] * (_OTHER_SETS - len(self.others))]


def operators() -> list[Operator]:
    """The operators that programs call, by name: all that have samples.

    But those that make sizes known, those whose elements are undefined, and those that give Python numbers.
    """
    return [
        op
        for name, op in sorted(OPERATORS.items())
        if op.samples_rule is not None and not op.unbacked_outputs and name not in ("empty", "empty_like", "from_size")
    ]


def generate(seed: int, number: int) -> Program:
    """The program of a seed and number, at its samples' sizes."""
    with settings.override(optimise=0):
        return plan_of(seed, number).program


@functools.lru_cache(2 * POOL)
def plan_of(seed: int, number: int) -> Plan:
    """The program of a seed and number, with inputs at several sizes."""
    made = make_program(seed, number, operators())
    made = replace(made, parts=tuple([part for part in made.parts if not isinstance(part, Gradient)]))
    random = Random(f"compiled {seed} {number}")
    words = Wording(made)
    wanted = {place for place in words.inputs if random.random() < 0.75}
    if not drawn_use(seed, number)[0]:
        wanted -= words.written  # leaves that require gradients cannot be written to
    shapes = _values(made, "sample")
    values = {words.names[place]: value for place, value in enumerate(shapes.values)}
    names = _extended(random, words, values)
    if number // POOL % 10 in _DATA_POOLS:
        uses = _DATA_POOLS[number // POOL % 10]
        names = _told_by_data(Random(f"data {seed} {number}"), words, values, names, uses)
    results = _results(random, words, names)
    sets = ("sample", *random.sample(SETS[1:], _OTHER_SETS))
    first, *others = [_inputs(made, name, words, wanted) for name in sets]
    program = Program(seed, number, first or (), tuple(words.statements), results)
    return planned(program, [row for row in others if row is not None])


Planned = Callable[[int, int], Plan]


def planned(program: Program, rows: Sequence[tuple[Input, ...]]) -> Plan:
    """The plan of a program and further inputs, by what eager code answers."""
    errors = [_alone(program, row) for row in (program.inputs, *rows)]
    refused = [row for row, error in zip((program.inputs, *rows), errors, strict=True) if _is_outside(error)]
    kept = [row for row, error in zip(rows, errors[1:], strict=True) if error is None]
    misfits = [error.message for error in errors if error is not None and error.late and error.code in _MISFIT]
    return Plan(program, tuple(kept), tuple(refused), next(iter(misfits), ""))


def _is_outside(outcome: Outcome | None) -> bool:
    """Whether an index out of range was refused."""
    return outcome is not None and outcome.code == "I001"


def _inputs(made: Made, name: str, words: Wording, wanted: set[int]) -> tuple[Input, ...] | None:
    """The inputs at a set of sizes; None where these do not suit the operators."""
    outcome = _values(made, name)
    if outcome.error is not None:
        return None
    arrays = drawn_inputs(made, name, [tuple(value.form.type.shape) for value in outcome.values])
    return tuple(
        [
            input_like(arrays[place], place in wanted and str(arrays[place].dtype) in FLOATS)
            for place in words.inputs
            if place in arrays
        ]
    )


def _values(made: Made, name: str) -> Any:
    """A program's values at a set of sizes: without data, unless it mixes what it creates with its inputs."""
    outcome = run_eagerly(made, name, data=False)
    return outcome if outcome.error is None else run_eagerly(made, name)


def _alone(program: Program, inputs: Sequence[Input]) -> Outcome | None:
    """What eager code answers to a program, where that is an error."""
    outcome = Pool([program]).outcome(inputs)
    return None if outcome.error is None else outcome


def _extended(random: Random, words: Wording, values: dict[str, Any]) -> list[str]:
    """Adds further uses of values; the names of those that may be results."""
    results = [name for name in values if not values[name].form.type.weak]  # the others are Python numbers
    parameters = words.parameters
    usable = _usable(values)
    for _ in range(random.randrange(5) if usable else 0):
        value, kind = random.choice(usable), random.random()
        if kind < 0.15:
            if value not in parameters:  # a hook on an input would outlive the call
                words.statements.append(HOOK.format(v=value))
            continue
        name = words.fresh()
        words.statements.append(f"{name} = {random.choice(VIEWS if kind < 0.45 else USES).format(v=value)}")
        results.append(name)
    return results


def _usable(values: dict[str, Any]) -> list[str]:
    """The values that are used further: floats of few elements."""
    found = [name for name, value in values.items() if not value.form.type.weak and value.ndim]
    found = [name for name in found if str(values[name].dtype).rpartition(".")[2] in FLOATS]
    return [name for name in found if values[name].numel() < _MOST_ELEMENTS]


def _told_by_data(
    random: Random, words: Wording, values: dict[str, Any], results: list[str], uses: Sequence[str]
) -> list[str]:
    """Adds uses whose sizes or places data tells; the names of all that may be results."""
    usable = _usable(values)
    for _ in range(random.randrange(1, 3) if usable else 0):
        name = words.fresh()
        words.statements.append(f"{name} = {random.choice(uses).format(v=random.choice(usable))}")
        results = [*results, name]
    return results


def _results(random: Random, words: Wording, names: Sequence[str]) -> tuple[str, ...]:
    """What a program returns: what nothing reads, and more by chance. What lists hold gets no gradient."""
    read = {name for statement in words.statements for name in operands(statement)}
    unread = [name for name in names if name not in read and name not in words.parameters]
    chosen = list(dict.fromkeys([*unread, *random.sample(list(names), min(len(names), random.randrange(3)))]))
    found: list[str] = []
    for name in chosen or names[-1:]:
        if random.random() < 0.3:
            words.statements.append(f"{(listed := words.fresh())} = [{name}]")
            name = listed
        found.append(name)
    return tuple(found)


def judge(program: Program, skipped: Counter[str], transform: Transform = WHOLE) -> Finding | None:
    """What is wrong with a program, reduced."""
    return next(iter(judge_many([program], skipped, transform)), None)


def judge_many(
    programs: Sequence[Program], skipped: Counter[str], transform: Transform = WHOLE, planned: Planned = plan_of
) -> list[Finding]:
    """What is wrong with some of `generate`'s programs, compiled together by `transform`."""
    found: list[Finding | None] = []
    with settings.override(optimise=0, verify=True):
        plans = [planned(item.seed, item.number) for item in programs]
        found += [Finding("gradient", plan.program, plan.misfit) for plan in plans if plan.misfit]
        found += [_accepted(plan, skipped, transform) for plan in plans if plan.refused]
        fit = [plan for plan in plans if _is_fit(plan, skipped)]
        for first in range(0, len(fit), POOL):
            suspects = _suspects(fit[first : first + POOL], skipped, transform)
            found += [_finding(plan, skipped, transform) for plan in suspects]
    return [finding for finding in found if finding is not None]


def _accepted(plan: Plan, skipped: Counter[str], transform: Transform) -> Finding | None:
    """Whether compiled code takes an index that eager code refuses, or has written to an input before it refuses."""
    program = plan.program
    compiled = Pool([program], transform)
    if program.inputs not in plan.refused:
        compiled.outcome(program.inputs)
    for inputs in plan.refused:
        actual = compiled.outcome(inputs)
        if is_refused(actual) and actual.code != "I001":
            skipped[f"compiled code refuses: {actual.code}"] += 1
            return None
        if actual.error is None:
            if _is_made(program, inputs, transform):
                return Finding("accepted", replace(program, inputs=inputs), "an index out of range is taken")
            skipped["a call that nothing needs"] += 1
            return None
        if actual.code is None:
            return Finding("raw", replace(program, inputs=inputs), f"raw {actual.error}: {actual.message}")
        detail = storages_difference(actual.inputs, [given.values for given in inputs], same_bits)
        if detail is not None:
            return Finding("written", replace(program, inputs=inputs), detail)
    return None


def _is_made(program: Program, inputs: tuple[Input, ...], transform: Transform) -> bool:
    """Whether an index that is out of range is taken where all values are results, so that each call is made."""
    names = tuple([name for statement in program.statements for name in targets(statement)])
    everything = Pool([replace(program, results=names)], transform).outcome(inputs)
    return everything.error is None


def _is_fit(plan: Plan, skipped: Counter[str]) -> bool:
    """Whether eager code runs a program, alone."""
    outcome = _alone(plan.program, plan.program.inputs)
    if outcome is not None:
        skipped[f"eager code refuses: {outcome.code or outcome.error}"] += 1
    return outcome is None


def _suspects(plans: Sequence[Plan], skipped: Counter[str], transform: Transform = WHOLE) -> list[Plan]:
    """The programs that differ where they are compiled together, and the first of some that fail only together.

    What is refused only together is counted: a program whose results nobody differentiates may have no derivative.
    """
    programs = [plan.program for plan in plans]
    eager, compiled = Pool(programs), Pool(programs, transform)
    wrong: dict[int, Plan] = {}
    for turn in range(1 + _OTHER_SETS):
        row = [plan.rows()[turn] for plan in plans]
        expected = eager.run(row)
        for threads in THREADS:
            try:
                actual = _on_threads(threads, compiled, row)
            except Exception as error:  # noqa: BLE001 - one of them fails, and tells by itself, or they fail together
                middle, refused = len(plans) // 2, failed(error, ())
                halves = (plans[:middle], plans[middle:]) if middle else ()
                parts = [plan for half in halves for plan in _suspects(half, skipped, transform)]
                if not middle or parts or not is_refused(refused):
                    return parts or list(plans[:1])
                skipped[f"compiled code refuses only with others: {refused.code}"] += 1
                return []
            for place, pair in enumerate(zip(actual, expected, strict=True)):
                if difference(*pair) is not None:
                    wrong[place] = plans[place]
    return list(wrong.values())


def _on_threads(threads: int, pool: Pool, row: Sequence[Sequence[Input]]) -> list[Outcome]:
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(threads)
    try:
        return pool.run(row)
    finally:
        rushlight.set_num_threads(before)


def _finding(plan: Plan, skipped: Counter[str], transform: Transform) -> Finding | None:
    """What is wrong with a program alone; its refusal by a registered error is counted, and no finding."""
    compiled = Pool([plan.program], transform)
    for inputs in plan.rows():
        actual = compiled.outcome(inputs)
        if is_refused(actual):
            skipped[f"compiled code refuses: {actual.code}"] += 1
            return None
        detail = difference(actual, Pool([plan.program]).outcome(inputs))
        if detail is None:
            continue
        program = replace(plan.program, inputs=inputs)
        if _detail(program, transform) is None:
            return Finding("value, after other sizes", program, detail)
        smallest = reduced(program, lambda other: _detail(other, transform) is not None)
        return Finding("value", smallest, _detail(smallest, transform) or detail)
    return Finding("value, compiled with others", plan.program, f"in the pool of {plan.program.number}")


def is_refused(outcome: Outcome) -> bool:
    """Whether compiled code refuses a program by a registered error that tells no defect of the compiler."""
    return outcome.error is not None and outcome.code is not None and outcome.code not in DEFECTS


def _detail(program: Program, transform: Transform) -> str | None:
    """How a program that is compiled for its inputs differs."""
    actual = Pool([program], transform).outcome(program.inputs)
    if is_refused(actual):
        return None
    expected = Pool([program]).outcome(program.inputs)
    return None if expected.error is not None else difference(actual, expected)
