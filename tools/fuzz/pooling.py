"""Many programs as one function, run eagerly or compiled, with uses of their inputs outside of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import rushlight
from tools.fuzz.program import Input, Program
from tools.fuzz.running import (
    Outcome,
    Transform,
    Value,
    failed,
    flat_tensor,
    function_of,
    leaf,
    value_of,
    values_of,
    weights_of,
)

SEED = 7  # of random numbers, at each run


class Pool:
    """Programs as one function; with a transform that function is compiled, say."""

    def __init__(self, programs: Sequence[Program], transform: Transform | None = None) -> None:
        self.programs = tuple(programs)
        groups = [[f"p{place}_{name}" for name in program.parameters] for place, program in enumerate(programs)]
        calls = [f"program{place}({', '.join(group)}), " for place, group in enumerate(groups)]
        names = ", ".join([name for group in groups for name in group])
        scope: dict[str, Any] = {
            f"program{place}": function_of(program, rushlight) for place, program in enumerate(programs)
        }
        exec(f"def pool({names}):\n    return ({''.join(calls)})", scope)  # noqa: S102 - our own text
        self.function = scope["pool"] if transform is None else transform(scope["pool"])
        self.late = False  # whether a run has come to its backward pass

    def run(self, inputs: Sequence[Sequence[Input]]) -> list[Outcome]:
        """One run of all programs, with gradients, on copies of some inputs; errors come through."""
        return self._run([_Use(program, given) for program, given in zip(self.programs, inputs, strict=True)])

    def _run(self, uses: Sequence[_Use]) -> list[Outcome]:
        rushlight.manual_seed(SEED)
        self.late = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.function(*[tensor for use in uses for tensor in use.arguments])
            self.late = True
            roots = [root for use, results in zip(uses, found, strict=True) for root in use.roots(results)]
            if roots:
                weights = [flat_tensor(weights_of(root), rushlight).to(root.dtype) for root in roots]
                rushlight.autograd.backward(roots, weights)
        return [use.outcome(results) for use, results in zip(uses, found, strict=True)]

    def outcome(self, inputs: Sequence[Input]) -> Outcome:
        """The outcome of the only program, errors included."""
        use = _Use(self.programs[0], inputs)
        try:
            return self._run([use])[0]
        except Exception as error:  # noqa: BLE001 - every error is an outcome
            return replace(failed(error, use.storages), late=self.late)


def drawn_use(seed: int, number: int) -> tuple[bool, bool, bool]:
    """Whether a program's inputs are computed from leaves, used before the call, and used after it."""
    random = Random(f"use {seed} {number}")
    computed, before, after = (random.random() < share for share in (0.5, 0.3, 0.4))
    return computed, before, after


class _Use:
    """The inputs of one run of a program: leaves or computed from leaves, and used before and after the call or not."""

    def __init__(self, program: Program, inputs: Sequence[Input]) -> None:
        self.computed, self.before, self.after = drawn_use(program.seed, program.number)
        self.storages = tuple([given.values.copy() for given in inputs])
        self.leaves = [leaf(given, storage, rushlight) for given, storage in zip(inputs, self.storages, strict=True)]
        self.arguments = [item * 0.75 if self.computed and item.requires_grad else item for item in self.leaves]
        self.earlier = [item.cos() for item in self.arguments if item.requires_grad] if self.before else []

    def roots(self, results: Sequence[Any]) -> list[Any]:
        """What the backward pass starts from: results that are tensors, not those in lists, and uses outside."""
        later = [item * 0.5 for item in self.arguments if item.requires_grad] if self.after else []
        return [item for item in (*self.earlier, *later, *results) if getattr(item, "requires_grad", False)]

    def outcome(self, results: Sequence[Any]) -> Outcome:
        """What is compared."""
        shown = (*results, *self.arguments) if self.computed else results  # what is written to is no leaf's memory
        values: tuple[Value, ...] = tuple([value for result in shown for value in values_of(result)])
        gradients = tuple([None if item.grad is None else value_of(item.grad) for item in self.leaves])
        return Outcome(values, self.storages, gradients)
