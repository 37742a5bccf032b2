"""Random programs: traced with unbacked sizes, compared with eager at sizes that include 0 and 1.

Every dim of an input is a symbol without a hint, so that a question about it which only `guard` can decide is an error
(C002): each choice needs a path that is right for all values. What a program needs of its sizes it asserts; it has to
refuse where eager raises an error, and nowhere else, but that

- where a size decides how many dims or tensors a result has, as in `squeeze`, one case is taken and the other refused;
- sizes that meet in broadcasting are taken to be equal, so that one of them may not be 1 by chance;
- a `view` of a tensor that is not known to be dense merges dims only where they lie dense in each other;
- a `reshape` or `contiguous` that is a view or a copy by what nobody knows is a copy; if that is written to, or what it
  was made of, runs in which it would be a view are refused, or the program, where that cannot be told (C013), or where
  a gradient wants what one write left in the copy and the next one overwrote (G003).

Some calls are of in-place forms. What shares memory in eager has to share it in the trace, so every value of such a
program is compared in the end. Some programs end with gradients of their results, which are results like others; None
where an input was not used.

Sizes that are 1 in a sample stay 1, since they are there to be broadcast, and so does the size of a dim whose slices
become results of their own, as in `unbind`: the number of results of a program is part of it. An index that points
nowhere is an error that depends on data (I001, E006), and so is a value that an operator refuses (A002); such runs are
left out.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from rushlight.ops import OPERATORS
from rushlight.ops.index_ranges import CODES, RULES
from rushlight.support.errors import RushlightError
from rushlight.support.frozen import frozen
from rushlight.testing.making import make_program, sized_operators
from rushlight.testing.programs import Program
from rushlight.testing.running import SETS, Outcome, difference, run_eagerly
from rushlight.testing.traced import AGREED, Pool, Running, Traced

_POOL = 40  # programs of one graph
_COPIES = frozenset({"contiguous", "flatten", "ravel", "reshape", "reshape_as"})  # or views, by strides


@frozen
class Finding:
    """A program that breaks the rules, and at which sizes.

    `kind`: "undecided" (C002), "refused" or "accepted" (unlike eager), or "wrong" (other results than eager's).
    """

    kind: str
    program: Program
    sizes: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.sizes} sizes: {self.detail}\n{self.program}"


@frozen
class Report:
    """What a run of the fuzzer found: `calls` by operator, `outcomes` of programs at sets of sizes, and findings."""

    programs: int
    calls: Mapping[str, int]
    outcomes: Mapping[str, int]
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        finding_counts = ", ".join(
            [f"{count} {kind}" for kind, count in Counter(finding.kind for finding in self.findings).items()]
        )
        outcomes = ", ".join([f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items())])
        lines = [
            f"{self.programs} programs of {len(self.calls)} operators: {outcomes}; found: {finding_counts or 'nothing'}"
        ]
        return "\n\n".join([*lines, *[str(finding) for finding in self.findings[:5]]])


def unbacked_fuzz(
    seed: int,
    count: int,
    ops: Sequence[str] | None = None,
    *,
    first: int = 0,
    backend: str | None = None,
    execute: bool = True,
) -> Report:
    """Makes programs `first`, `first + 1`, ... of a seed out of the operators named, by default all of them.

    Without `execute` traced programs are not run: their shapes and asserts alone are compared with eager, which needs
    no data for that.
    """
    chosen = sized_operators() if ops is None else [OPERATORS[name] for name in ops]
    session = _Session(backend, execute)
    numbers = iter(range(first, first + count))
    while pool := list(itertools.islice(numbers, _POOL)):
        session.run([make_program(seed, number, chosen) for number in pool])
    return Report(count, session.calls, session.outcomes, tuple(session.findings))


class _Session:
    """Runs pools of programs, and counts."""

    def __init__(self, backend: str | None, execute: bool) -> None:
        self.backend = backend
        self.execute = execute
        self.calls: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.findings: list[Finding] = []

    def run(self, programs: Sequence[Program]) -> None:
        """Traces programs into one graph, and compares it with eager at each set of sizes."""
        pool = Pool()
        ready: list[tuple[Traced, list[Outcome | None]]] = []
        for program in programs:
            self.calls.update(program.operators)
            traced = self.traced(pool, program)
            if traced is not None:
                outcomes = [self.checked(traced, name) for name in SETS]
                if outcomes[0] is not None:
                    ready.append((traced, outcomes))
        if ready and self.execute:
            self.compare(pool, ready)

    def traced(self, pool: Pool, program: Program) -> Traced | None:
        """The program in the pool's graph."""
        try:
            return pool.trace(program)
        except RushlightError as error:
            if error.code == "C013" or (error.code == "G003" and not _COPIES.isdisjoint(program.operators)):
                self.outcomes["other strides"] += len(SETS)
            elif error.code == "C002" or not self.raises(program, error.code):
                kind = "undecided" if error.code == "C002" else "refused"
                self.findings.append(Finding(kind, program, "any", str(error)))
            return None

    def raises(self, program: Program, code: str) -> bool:
        """Whether eager raises an error at all sizes, and this one at some; then these are counted.

        An index out of range comes before it in eager code, where a trace knows no values.
        """
        errors = {run_eagerly(program, name).error for name in SETS}
        agreed = None not in errors and not {code, *CODES}.isdisjoint(errors)
        self.outcomes["raised"] += len(SETS) * agreed
        return agreed

    def checked(self, traced: Traced, name: str) -> Outcome | None:
        """Eager's results at a set of sizes, where the traced program has to have the same."""
        outcome = run_eagerly(traced.program, name, self.execute)
        verdict = traced.judge(outcome)
        if (
            not self.execute and verdict not in AGREED
        ):  # what is made of nothing has data, and does not go with what has none
            outcome = run_eagerly(traced.program, name)
            verdict = traced.judge(outcome)
        if outcome.error in CODES or (outcome.error == "A002" and _looks_at_values(traced.program)):
            self.outcomes["left out"] += 1
            return None
        if verdict in AGREED:
            self.outcomes[verdict] += 1
            return outcome if verdict == "equal" else None
        kind, detail = verdict.split(": ", 1)
        self.findings.append(Finding(kind, traced.program, name, detail))
        return None

    def compare(self, pool: Pool, ready: Sequence[tuple[Traced, Sequence[Outcome | None]]]) -> None:
        """Runs the graph at each set of sizes. A program that refuses them runs at its samples' sizes instead."""
        running = pool.compile([traced for traced, _ in ready], self.backend)
        samples = [row[0] or Outcome((), None, ()) for _, row in ready]
        for number, name in enumerate(SETS):
            outcomes = [row[number] or sample for (_, row), sample in zip(ready, samples, strict=True)]
            wrong: set[int] = set()
            try:
                results = running.run([outcome.given for outcome in outcomes].__getitem__)
            except RushlightError as error:
                if error.code not in CODES:
                    raise
                wrong = _out_of_range(running, outcomes, samples, range(len(ready)))
                self.findings.extend([Finding("refused", ready[row][0].program, name, str(error)) for row in wrong])
                outcomes = [samples[row] if row in wrong else outcome for row, outcome in enumerate(outcomes)]
                results = running.run([outcome.given for outcome in outcomes].__getitem__)
            for (row, position), tensor in zip(running.results, results, strict=True):
                traced, outcome = ready[row][0], outcomes[row]
                program = traced.program
                undefined = any(operator in ("empty", "empty_like") for operator in program.operators)
                text = None if undefined else difference(tensor, outcome.values[position])
                if text is not None and row not in wrong and ready[row][1][number] is not None:
                    self.findings.append(Finding("wrong", program, name, f"v{position}: {text}"))


def _looks_at_values(program: Program) -> bool:
    """Whether an operator of it checks values, which a graph does only where its results need the call."""
    return any(OPERATORS[name] in RULES for name in program.operators)


def _out_of_range(
    running: Running, outcomes: Sequence[Outcome], samples: Sequence[Outcome], rows: Sequence[int]
) -> set[int]:
    """Which of the programs `rows` have an index out of range (I001), which eager code has not.

    One stops the graph of all of them, so halves are asked, while the others run at their samples' sizes.
    """
    given = [outcomes[row].given if row in rows else sample.given for row, sample in enumerate(samples)]
    try:
        running.run(given.__getitem__)
    except RushlightError as error:
        if error.code not in CODES:
            raise
        if len(rows) == 1:
            return {*rows}
        middle = len(rows) // 2
        halves = (rows[:middle], rows[middle:])
        return set().union(*[_out_of_range(running, outcomes, samples, half) for half in halves])
    return set()
