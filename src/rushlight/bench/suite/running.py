"""Runs a model of the suite eagerly and compiled: what they compute, and how long a call takes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
from rushlight.bench.models import MODELS, SmallModel
from rushlight.bench.parity import PRESETS, other_sizes
from rushlight.bench.records import Record
from rushlight.bench.serving import Artifact
from rushlight.bench.suite import modded_nanogpt
from rushlight.bench.timing import ratio, rounds_within, spread, take_turns

SUITE: dict[str, SmallModel] = {**MODELS, modded_nanogpt.MODEL.name: modded_nanogpt.MODEL}
SIZES = {size: {**preset, "modded_nanogpt": (48 if size == "tiny" else 192,)} for size, preset in PRESETS.items()}
AMPS = {"bf16": rl.bfloat16, "fp16": rl.float16}
TOLERANCE = 1e-2  # of a loss or a gradient, relative to the largest: what PyTorch's runner allows bfloat16


class Setup(NamedTuple):
    """How models are run: steps of training or inference, a dtype of autocast, sizes, compiled autograd."""

    training: bool = False
    amp: str | None = None
    dynamic: bool = False
    compiled_autograd: bool = False
    size: str = "tiny"

    @contextlib.contextmanager
    def scope(self) -> Generator[None]:
        """What is on while a model runs."""
        with contextlib.ExitStack() as stack:
            if self.amp is not None:
                stack.enter_context(rl.autocast("cpu", dtype=AMPS[self.amp]))
            if not self.training:
                stack.enter_context(rl.no_grad())
            yield


def loss_of(result: object) -> rl.Tensor:
    """A loss of any results: the mean square of their elements, summed."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    terms = [part.float().square().mean() for part in parts if isinstance(part, rl.Tensor)]
    return rl.stack(terms).sum()


class Runner:
    """A model, compiled or not. A call gives the loss, and the gradients where it trains."""

    def __init__(self, name: str, setup: Setup, compiled: bool) -> None:
        rl.manual_seed(0)
        self.name = "rushlight" if compiled else "eager"
        self.record, self.setup, self.compiled = SUITE[name], setup, compiled
        self.model = self.record.make().train(setup.training)
        self._forward: Callable[..., Any] = self.model
        if compiled:
            self._forward = rl.compile(self.model, dynamic=None if setup.dynamic else False)

    def __call__(self, inputs: Sequence[rl.Tensor]) -> list[rl.Tensor]:
        """The loss, then gradients, or the results."""
        rl.manual_seed(1)  # the same random numbers in each call
        with self.setup.scope():
            result = self._forward(*inputs)
            if not self.setup.training:
                return [*result] if isinstance(result, (tuple, list)) else [result]
            loss = loss_of(result)
        self.model.zero_grad()
        catching = rl.compiler.compiled_autograd.enable() if self.uses_compiled_autograd else contextlib.nullcontext()
        with catching:
            loss.backward()
        return [loss.detach(), *[each.grad for each in self.model.parameters() if each.grad is not None]]

    @property
    def uses_compiled_autograd(self) -> bool:
        """Whether backward passes are compiled as they run."""
        return self.compiled and self.setup.compiled_autograd

    @property
    def graphs(self) -> int:
        """Graphs that calls have made."""
        return rl.compiler.report(self._forward).graphs


class Accuracy(NamedTuple):
    """How far compiled results are from eager ones: the largest difference, relative to the largest element."""

    same_bits: bool
    error: float

    @property
    def passes(self) -> bool:
        """Is the difference small enough?"""
        return self.error <= TOLERANCE

    def __str__(self) -> str:
        return "pass, same bits" if self.same_bits else f"{'pass' if self.passes else 'FAIL'}, {self.error:.1e}"


def accuracy(found: Sequence[rl.Tensor], wanted: Sequence[rl.Tensor]) -> Accuracy:
    """Compares results one by one; other numbers of them, or sizes, are as wrong as can be."""
    if [tuple(one.shape) for one in found] != [tuple(one.shape) for one in wanted]:
        return Accuracy(False, float("inf"))
    pairs = [(one.float().numpy(), other.float().numpy()) for one, other in zip(found, wanted, strict=True)]
    same = all(one.tobytes() == other.tobytes() for one, other in pairs)
    return Accuracy(same, max([_difference(one, other) for one, other in pairs], default=0.0))


def _difference(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    if not other.size:
        return 0.0
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return float("inf")
    scale = max(float(np.abs(np.nan_to_num(other)).max()), 1e-12)
    return float(np.abs(np.nan_to_num(one - other)).max()) / scale


def measured(name: str, setup: Setup, rounds: int, budget: float) -> Record:
    """A model's record: accuracy at its sizes (and others, if these are dynamic), graphs, and times in turns."""
    eager, compiled = Runner(name, setup, False), Runner(name, setup, True)
    sizes = SIZES[setup.size][name]
    checked = [sizes, *(other_sizes(eager.record, sizes)[1:] if setup.dynamic else ())]
    compared: list[Accuracy] = []
    for some in checked:
        inputs = eager.record.inputs(*some)
        wanted = eager(inputs)
        compared.append(accuracy(compiled(inputs), wanted))
    worst = max(compared, key=lambda one: one.error)
    inputs = eager.record.inputs(*sizes)
    turns = [Artifact(one.name, _bound(one, inputs)).turn() for one in (eager, compiled)] if rounds else []
    seconds = take_turns(turns, rounds_within(turns, rounds, budget))[0] if rounds else {}
    return {
        "case": name,
        "family": "suite",
        "accuracy": str(worst._replace(same_bits=all(one.same_bits for one in compared))),
        "passes": worst.passes,
        "graphs": compiled.graphs,
        "speedup": ratio(seconds["eager"], seconds["rushlight"]) if rounds else None,
        "contestants": {kind: _entry(taken) for kind, taken in seconds.items()},
    }


def _bound(runner: Runner, inputs: Sequence[rl.Tensor]) -> Callable[[], object]:
    return lambda: runner(inputs)


def _entry(samples: Sequence[float]) -> Record:
    middle = spread(samples)
    return {"status": "ready", "median_s": middle.median, "p10_s": middle.low, "p90_s": middle.high}
