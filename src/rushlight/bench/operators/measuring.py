"""Variants of an operator beside each other: prepared, checked against float64, and timed in turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rushlight as rl
from rushlight.bench.checking import flat, widened
from rushlight.bench.contestants import Contestant, Kind
from rushlight.bench.operators.record import BACKWARD, FORWARD, Contender, Problem
from rushlight.bench.operators.serving import SLOPE, differentiated
from rushlight.bench.records import SEED, Array, Inputs, Record, normal, rounded_to
from rushlight.bench.results import Ceilings, described, prepare_all, sample_all, to_record
from rushlight.bench.timing import Entrant, Turn, ratio
from rushlight.bench.worker import OPERATORS


class Effort(NamedTuple):
    """Rounds, seconds of sampling, and whether caches are cold. Without rounds nothing is timed."""

    rounds: int
    budget: float
    cold: bool


class Side(NamedTuple):
    """A variant, and the variables of its process. `label` is its name in tables."""

    label: str
    contender: Contender
    environment: Mapping[str, str]


class Running:
    """A variant in a process of its own. It is asked what contestants are asked."""

    def __init__(self, side: Side, python: str, threads: int, limit: float, folder: Path) -> None:
        self.name = side.label
        self.variant = side.contender.name
        kind = Kind(side.label, side.contender.framework, side.contender.mode)
        self._worker = Contestant(kind, python, threads, limit, folder, (OPERATORS,), side.environment)

    def ask(self, do: str, **values: object) -> Record:
        """See `Entrant`."""
        more = {"variant": self.variant} if do == "prepare" else {}
        return self._worker.ask(do, **values, **more)

    @property
    def version(self) -> str:
        """That of its framework, once it has been asked something."""
        return self._worker.version

    @property
    def python(self) -> str:
        """Its interpreter."""
        return self._worker.python

    def close(self) -> None:
        """Ends its process."""
        self._worker.close()


def expected_of(problem: Problem) -> tuple[Inputs, list[Array]]:
    """The inputs, and the results in float64: numpy's, and the gradients of the baseline.

    Where there are gradients the last input is that of the result.
    """
    benchmark = problem.benchmark
    inputs = benchmark.inputs(problem.shape)
    wide = list(widened(inputs).values())
    results = flat(benchmark.reference(*wide))
    if problem.mode == FORWARD:
        return inputs, results
    slope = rounded_to(normal(np.random.default_rng(SEED + 1), *results[0].shape), benchmark.dtype)
    tensors = [rl.from_numpy(value.copy()) for value in wide]
    leaves = [tensors[at].requires_grad_() for at in differentiated(problem, inputs)]
    found = benchmark.baseline(*tensors)
    gradients = rl.autograd.grad(found, leaves, rl.tensor(slope.astype(np.float64)))
    wanted = [gradient.numpy() for gradient in gradients]
    return {**inputs, SLOPE: slope}, [*(results if problem.mode != BACKWARD else []), *wanted]


def measure(
    problem: Problem, entrants: Sequence[Running], ceilings: Ceilings | None, effort: Effort, say: Callable[[str], None]
) -> Record:
    """A problem's record: that of a case, with its speed-ups and shares of the machine's limit."""
    say(f"{problem.name}:")
    inputs, expected = expected_of(problem)
    case = problem.to_case(inputs, expected)
    answers = prepare_all(problem.name, entrants, inputs, expected, say)
    about = described(inputs)
    inputs.clear()
    expected.clear()
    operator = problem.benchmark.name
    more = {
        "family": f"{operator}, {problem.mode}",
        "operator": operator,
        "mode": problem.mode,
        "shape": list(problem.shape),
        "cold": effort.cold,
    }
    if ceilings is None:
        say("\n")
        return {**to_record(case, about, answers, {}), **more}
    turns = [turn_of(one, answers[one.name], effort.cold) for one in entrants if answers[one.name]["status"] == "ready"]
    say(" samples\n")
    entries, seconds = sample_all(turns, ceilings.turns_for(case), answers, effort.rounds, effort.budget)
    record = {**to_record(case, about, entries, seconds), **more}
    add_ratios(record, seconds, entrants[0].name)
    return record


def turn_of(entrant: Entrant, answer: Record, cold: bool) -> Turn:
    """How an entrant is sampled: what empties its caches is a part of a sample's time."""
    if not cold:
        return Turn(entrant, answer["call_s"])
    return Turn(entrant, answer["call_s"] + entrant.ask("chill")["seconds"], "sample_cold")


def add_ratios(record: Record, seconds: Mapping[str, Sequence[float]], baseline: str) -> None:
    """Adds speed-ups over the baseline, and shares of what the machine allows: medians of ratios of the same round."""
    limits = [max(pair) for pair in zip(*[seconds[name] for name in Ceilings._fields], strict=True)]
    for name, entry in record["contestants"].items():
        taken = seconds.get(name)
        if taken is None:
            continue
        entry["limit"] = statistics.median([limit / one for limit, one in zip(limits, taken, strict=True)])
        if baseline in seconds:
            entry["speedup"] = ratio(seconds[baseline], taken)


def side_of(text: str, problem_contenders: Sequence[Contender], label: str = "") -> Side | None:
    """A side from `variant,NAME=VALUE,…`; None where there is no such variant."""
    name, *pairs = text.split(",")
    contender = next((one for one in problem_contenders if one.name == name), None)
    if contender is None or not all("=" in pair for pair in pairs):
        return None
    environment = dict(pair.split("=", 1) for pair in pairs)
    return Side(f"{label}{text}", contender, environment)
