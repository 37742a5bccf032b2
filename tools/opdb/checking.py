"""Checks one operator in one dtype: forward, method, in place, gradients, compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import rushlight as rl
from tools.opdb import answering, pytorch
from tools.opdb.calls import Call, Outcome, mapped
from tools.opdb.comparing import EXACT, Difference, Tolerance, differences, error_of
from tools.opdb.deviations import DTYPES, Question, rule_for

DIFFERENTIABLE = ("float32", "float64", "complex64")
KEPT = 12


@dataclass
class Tally:
    """Counts by (part, category), and the first failures of each."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, question: Question, sample: int, found: Difference | None) -> None:
        """Count an answer, and keep it where it differs."""
        rule = None if found is None else rule_for(question, found)
        category = "agree" if found is None else f"deviation {rule.name}" if rule else found.category
        key = f"{question.part}/{category}"
        self.counts[key] += 1
        if found is not None and rule is None and self.counts[key] <= KEPT:
            self.failures.append(
                {
                    "dtype": question.dtype,
                    "sample": sample,
                    "part": question.part,
                    "category": found.category,
                    "detail": found.detail,
                    "call": question.call,
                }
            )


@dataclass(frozen=True)
class Settings:
    """Which parts are asked: at most so many samples of each dtype, and compiled for so many of these."""

    dtypes: tuple[str, ...] = DTYPES
    samples: int = 1000
    compiled: int = 1000
    reference: bool = False


def ours(entry: Any) -> Callable[..., Any] | None:
    """Rushlight's function for an entry. Wrappers of the database run with `torch` bound to Rushlight."""
    found = answering.function_of(entry.name)
    wrapper = entry.op
    if found is None or not isinstance(wrapper, FunctionType) or not wrapper.__module__.startswith("torch.testing"):
        return found
    names = {**wrapper.__globals__, "torch": rl, "np": wrapper.__globals__.get("np")}
    return FunctionType(wrapper.__code__, names, wrapper.__name__, wrapper.__defaults__, wrapper.__closure__)


def checked(entry: Any, dtype_name: str, settings: Settings) -> Tally:
    """The tally of an operator's samples in a dtype."""
    tally = Tally()
    function = ours(entry)
    dtype = getattr(pytorch.torch, dtype_name)
    if function is None or dtype not in entry.dtypes:
        return tally
    differentiable = dtype_name in DIFFERENTIABLE and entry.supports_autograd
    samples = list(pytorch.samples_of(entry, dtype, differentiable, settings.reference))
    step = max(1, -(-len(samples) // settings.samples))
    chosen = list(range(0, len(samples), step))
    often = max(1, -(-len(chosen) // settings.compiled)) if settings.compiled else 0
    for turn, position in enumerate(chosen):
        compiled = bool(often) and turn % often == 0
        _check_sample(entry, function, dtype, samples[position], position, compiled, tally)
    return tally


def _check_sample(
    entry: Any, function: Callable[..., Any], dtype: Any, sample: Any, position: int, compiled: bool, tally: Tally
) -> None:
    call = pytorch.call_of(sample)
    finish: Callable[[Any], Any] = sample.output_process_fn_grad
    wanted = pytorch.run(entry.op, sample, finish)
    if wanted.error is not None and wanted.stage == "forward":
        tally.counts["forward/refused by PyTorch"] += 1
        return
    tolerance = Tolerance(*pytorch.tolerances(entry, dtype), defaults=True)
    exact = _exact(entry.op, sample, finish, dtype)
    ask = Asking(entry, dtype, sample, position, call, tally)
    given = answering.run(function, call, finish)
    ask.forward(wanted, given, tolerance, exact)
    ask.variants(wanted, tolerance, exact)
    if compiled and (given.error is None or given.stage == "gradient"):
        ask.compiled(function, given, finish)


def _exact(op: Callable[..., Any], sample: Any, finish: Callable[[Any], Any], dtype: Any) -> Outcome | None:
    if not (dtype.is_floating_point or dtype.is_complex) or dtype == pytorch.torch.float64:
        return None
    wide = type(sample)(
        mapped(sample.input, pytorch.widened),
        args=mapped(tuple(sample.args), pytorch.widened),
        kwargs=mapped(dict(sample.kwargs), pytorch.widened),
    )
    outcome = pytorch.run(op, wide, finish)
    return outcome if outcome.error is None else None


@dataclass(frozen=True)
class Asking:
    """One sample's questions."""

    entry: Any
    dtype: Any
    sample: Any
    position: int
    call: Call
    tally: Tally

    def note(self, part: str, found: Difference | None) -> None:
        """Count the answer to a part."""
        question = Question(self.entry.name, pytorch.name_of(self.dtype), part, str(self.call))
        self.tally.add(question, self.position, found)

    def forward(self, wanted: Outcome, given: Outcome, tolerance: Tolerance, exact: Outcome | None) -> None:
        """Results, inputs after the call, gradients."""
        error = error_of(given)
        if error is not None and given.stage == "forward":
            self.note("forward", error)
            return
        found = differences(wanted.results, given.results, tolerance, exact and exact.results)
        found = found or differences(wanted.inputs, given.inputs, tolerance, exact and exact.inputs)
        self.note("forward", found)
        if wanted.gradients and wanted.error is None:
            found = error or differences(wanted.gradients, given.gradients, tolerance, exact and exact.gradients)
            self.note("gradient", found)

    def variants(self, wanted: Outcome, tolerance: Tolerance, exact: Outcome | None) -> None:
        """The method and the in-place method, where PyTorch has them."""
        plain: Any = self.sample.input
        if not isinstance(plain, pytorch.torch.Tensor):
            return
        last = self.entry.name.rsplit(".", 1)[-1]
        method = answering.method_of(last) if self.entry.method_variant else None
        if method is not None:
            given = answering.run(method, self.call)
            found = error_of(given) if given.stage == "forward" else None
            self.note("method", found or differences(wanted.results, given.results, tolerance, exact and exact.results))
        inplace = answering.method_of(f"{last}_") if self.entry.inplace_variant else None
        if inplace is not None and not self.sample.broadcasts_input:
            self._inplace(inplace, tolerance, exact)

    def _inplace(self, inplace: Callable[..., Any], tolerance: Tolerance, exact: Outcome | None) -> None:
        finish: Callable[[Any], Any] = self.sample.output_process_fn_grad
        wanted = pytorch.run(self.entry.inplace_variant, self.sample, finish, owned=True)
        given = answering.run(inplace, self.call, finish, owned=True)
        if wanted.error is not None:
            if wanted.stage == "forward":
                found = Difference("accepted", str(wanted.error)[:200]) if given.error is None else error_of(given)
                self.note("inplace refused", None if found and found.category == "registered" else found)
            return
        found = error_of(given) or differences(wanted.results, given.results, tolerance, exact and exact.results)
        found = found or differences(wanted.gradients, given.gradients, tolerance, exact and exact.gradients)
        self.note("inplace", found)

    def compiled(self, function: Callable[..., Any], given: Outcome, finish: Callable[[Any], Any]) -> None:
        """Compiled with the same bits as eager: results, inputs after the call, gradients."""
        fused = answering.run(function, self.call, finish, transform=lambda inner: rl.compile(inner, fullgraph=True))
        rl.compiler.reset()
        if fused.error is not None and not (given.error is not None and fused.stage == "gradient"):
            self.note("compiled", error_of(fused))
            return
        found = differences(given.results, fused.results, EXACT) or differences(given.inputs, fused.inputs, EXACT)
        self.note("compiled", found or differences(given.gradients, fused.gradients, EXACT))
