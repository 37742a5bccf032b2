"""Checks one operator in one dtype: forward, method, in place, gradients, compiled, with `out=`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import rushlight as rl
from tools.fuzz.comparing import Judge as Judging
from tools.fuzz.comparing import (
    category_of,
    error_difference,
    same_bits,
    storages_difference,
    values_difference,
)
from tools.fuzz.deviations import COMPILED_RULES, OPERATOR_RULES, Difference, explained
from tools.fuzz.program import Input
from tools.fuzz.running import Outcome
from tools.opdb import answering, pytorch
from tools.opdb.calls import Call, mapped
from tools.opdb.tolerating import Judge, arrays

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
ASKED = ("forward", "method", "inplace", "compiled", "out", "error inputs")
"""Parts that may be asked by name; `forward` has gradients too, and the others include what they need of it."""

DIFFERENTIABLE = ("float32", "float64", "complex64")
KEPT = 12


@dataclass
class Tally:
    """Counts by (part, category), and the first failures of each."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, part: str, dtype: str, number: int, call: str, detail: str | None, rule: str | None) -> None:
        """Count an answer, and keep it where it differs and no rule explains it."""
        category = "agree" if detail is None else f"deviation {rule}" if rule else category_of(detail)
        key = f"{part}/{category}"
        self.counts[key] += 1
        if detail is not None and rule is None and self.counts[key] <= KEPT:
            failure = {"dtype": dtype, "sample": number, "part": part, "category": category, "detail": detail[:400]}
            self.failures.append({**failure, "call": call[:400]})


@dataclass(frozen=True)
class Settings:
    """Which parts are asked: at most so many samples of each dtype, and compiled for so many of these.

    `at` is a name for the code that is asked, which is kept with the results.
    """

    dtypes: tuple[str, ...] = DTYPES
    samples: int = 1000
    compiled: int = 1000
    reference: bool = False
    parts: tuple[str, ...] = ASKED
    at: str = ""


def ours(entry: Any) -> Callable[..., Any] | None:
    """Rushlight's function for an entry. Wrappers of the database run with `torch` bound to Rushlight."""
    wrapper = entry.op
    found = answering.function_of(entry.name)
    if found is None and "." not in entry.name:
        found = answering.function_of(getattr(wrapper, "__name__", entry.name))
    if found is None or not isinstance(wrapper, FunctionType) or not wrapper.__module__.startswith("torch.testing"):
        return found
    names = {**wrapper.__globals__, "torch": rl, "wrapper_set_seed": _called}
    return FunctionType(wrapper.__code__, names, wrapper.__name__, wrapper.__defaults__, wrapper.__closure__)


def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The call that a wrapper of the database makes after a seed, which `answering.run` sets: graphs set none."""
    return function(*args, **kwargs)


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
        parts = set(settings.parts)
        if not often or turn % often:
            parts.discard("compiled")
        if turn:
            parts.discard("out")  # one sample of each dtype
        _check_sample(entry, function, dtype, samples[position], position, parts, tally)
    return tally


def check_errors(entry: Any) -> Tally:
    """The tally of the samples that an entry should refuse: each one refused here too, by a registered error."""
    tally = Tally()
    function = ours(entry)
    if function is None:
        return tally
    for position, sample in enumerate(pytorch.errors_of(entry)):
        call = pytorch.call_of(sample)
        wanted, given = answering.run(entry.op, call, pytorch.torch), answering.run(function, call, rl)
        if wanted.error is None:
            tally.counts["error inputs/taken by PyTorch"] += 1
            continue
        ask = Asking(entry, pytorch.torch.float32, sample, position, call, tally, None)
        ask.note("error inputs", given, wanted, error_difference(given, wanted))
    return tally


def _check_sample(
    entry: Any, function: Callable[..., Any], dtype: Any, sample: Any, position: int, parts: set[str], tally: Tally
) -> None:
    call = pytorch.call_of(sample)
    finish: Callable[[Any], Any] = sample.output_process_fn_grad
    wanted = answering.run(entry.op, call, pytorch.torch, finish)
    if wanted.error is not None and not wanted.values:
        tally.counts["forward/refused by PyTorch"] += 1
        return
    exact: Outcome | None = None
    if (dtype.is_floating_point or dtype.is_complex) and dtype != pytorch.torch.float64:
        exact = answering.run(entry.op, pytorch.widened(call), pytorch.torch, finish)
    ask = Asking(entry, dtype, sample, position, call, tally, exact if exact and exact.error is None else None)
    if "out" in parts and entry.supports_out:
        ask.out(function, wanted)
    if "method" in parts:
        ask.method(wanted)
    if "inplace" in parts:
        ask.inplace()
    if not parts & {"forward", "compiled"}:
        return
    given = answering.run(function, call, rl, finish)
    if "forward" in parts:
        ask.forward(wanted, given)
    if "compiled" in parts and given.values:
        ask.compiled(function, given, finish)


def _constant(part: Any) -> Any:
    """An input without gradients: what is written to `out=` has no history."""
    return replace(part, requires_grad=False) if isinstance(part, Input) else part


@dataclass(frozen=True)
class Asking:
    """One sample's questions; `exact` is what PyTorch answers in the widest dtype, or None."""

    entry: Any
    dtype: Any
    sample: Any
    position: int
    call: Call
    tally: Tally
    exact: Outcome | None

    def note(self, part: str, actual: Outcome, expected: Outcome, detail: str | None) -> None:
        """Count the answer to a part."""
        name = self.entry.name if not part.startswith("inplace") else f".{self.entry.name.rpartition('.')[2]}_"
        program = self.call.program(name, self.position)
        rules = COMPILED_RULES if part == "compiled" else OPERATOR_RULES
        rule = None if detail is None else explained(Difference(program, actual, expected, detail), rules)
        self.tally.add(part, pytorch.name_of(self.dtype), self.position, f"{name}{self.call}", detail, rule)

    def results(self, actual: Outcome, expected: Outcome) -> str | None:
        """How results, and inputs after the call, differ."""
        judge = self.judge(gradients=False)
        found = values_difference("result", actual.values, expected.values, judge)
        return found or storages_difference(actual.inputs, expected.inputs, judge)

    def gradients(self, actual: Outcome, expected: Outcome) -> str | None:
        """How gradients differ."""
        return values_difference("gradient", actual.gradients, expected.gradients, self.judge(gradients=True))

    def judge(self, gradients: bool) -> Judging:
        """What says how near answers must be."""
        return Judge(pytorch.tolerances(self.entry, self.dtype), arrays(self.exact, gradients))

    def forward(self, wanted: Outcome, given: Outcome) -> None:
        """Results, inputs after the call, gradients."""
        if given.error is not None and not given.values:
            self.note("forward", given, wanted, error_difference(given, wanted))
            return
        self.note("forward", given, wanted, self.results(given, wanted))
        if wanted.gradients and wanted.error is None:
            found = error_difference(given, wanted) or self.gradients(given, wanted)
            self.note("gradient", given, wanted, found)

    def method(self, wanted: Outcome) -> None:
        """The method, where PyTorch has it."""
        method = answering.method_of(self.entry.name.rpartition(".")[2]) if self.entry.method_variant else None
        if method is not None and isinstance(self.sample.input, pytorch.torch.Tensor):
            given = answering.run(method, self.call, rl)
            refused = None if given.values else error_difference(given, wanted)
            self.note("method", given, wanted, refused or self.results(given, wanted))

    def inplace(self) -> None:
        """The in-place method, where PyTorch has it."""
        inplace = answering.method_of(f"{self.entry.name.rpartition('.')[2]}_") if self.entry.inplace_variant else None
        if inplace is None or not isinstance(self.sample.input, pytorch.torch.Tensor) or self.sample.broadcasts_input:
            return
        finish: Callable[[Any], Any] = self.sample.output_process_fn_grad
        wanted = answering.run(self.entry.inplace_variant, self.call, pytorch.torch, finish, owned=True)
        given = answering.run(inplace, self.call, rl, finish, owned=True)
        found = error_difference(given, wanted)
        if wanted.error is None:
            found = found or self.results(given, wanted) or self.gradients(given, wanted)
            self.note("inplace", given, wanted, found)
        elif not wanted.values:
            self.note("inplace refused", given, wanted, found)

    def out(self, function: Callable[..., Any], wanted: Outcome) -> None:
        """With `out=`: tensors without elements of the results' dtypes, and of another kind, which is refused."""
        tensors = all(value.kind == "Tensor" for value in wanted.values)
        if wanted.error is not None or not tensors or "out" in self.call.kwargs:
            return
        call = Call(*mapped([self.call.args, self.call.kwargs], _constant))
        dtypes = [value.dtype for value in wanted.values]
        for part, asked in (("out", dtypes), ("out refused", ["bool" for _ in dtypes])):
            expected = answering.run(answering.writing(self.entry.op, pytorch.torch, asked), call, pytorch.torch)
            if (expected.error is None) == (part == "out"):
                given = answering.run(answering.writing(function, rl, asked), call, rl)
                found = error_difference(given, expected)
                if expected.error is None and found is None:
                    found = values_difference("result", given.values, expected.values, self.judge(gradients=False))
                self.note(part, given, expected, found)

    def compiled(self, function: Callable[..., Any], given: Outcome, finish: Callable[[Any], Any]) -> None:
        """Compiled with the same bits as eager: results, inputs after the call, gradients."""
        fused = answering.run(
            function, self.call, rl, finish, transform=lambda inner: rl.compile(inner, fullgraph=True)
        )
        rl.compiler.reset()
        found = error_difference(fused, given)
        if given.error is None and found is None:
            found = values_difference("result", fused.values, given.values, same_bits)
            found = found or storages_difference(fused.inputs, given.inputs, same_bits)
            found = found or values_difference("gradient", fused.gradients, given.gradients, same_bits)
        self.note("compiled", fused, given, found)
