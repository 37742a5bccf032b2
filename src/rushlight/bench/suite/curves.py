"""Curves of losses: steps of training by eager code and by compiled code, from the same weights."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import NamedTuple

import rushlight as rl
from rushlight.bench.reports.tables import Table, duration
from rushlight.bench.suite.modded_nanogpt import ModdedGPT
from rushlight.bench.suite.running import AMPS, SIZES, SUITE, loss_of
from rushlight.bench.timing import spread

F = rl.nn.functional


class Curve(NamedTuple):
    """The losses of steps of training, and the seconds of each."""

    losses: list[float]
    seconds: list[float]


class Step:
    """A step of training of a model: forward, backward and its optimizers, compiled as one graph or not."""

    def __init__(self, name: str, amp: str | None, compiled: bool) -> None:
        rl.manual_seed(0)
        self.model = SUITE[name].make()
        own = self.model.optimizers() if isinstance(self.model, ModdedGPT) else None
        self.optimizers = own or [rl.optim.AdamW(self.model.parameters(), lr=1e-3)]
        self.amp = amp
        self._run = rl.compile(self.run, fullgraph=True) if compiled else self.run

    def loss(self, inputs: Sequence[rl.Tensor]) -> rl.Tensor:
        """Of language models that of each next token; of others `loss_of` their results."""
        if not isinstance(self.model, ModdedGPT):
            return loss_of(self.model(*inputs))
        (tokens,) = inputs
        return F.cross_entropy(self.model(tokens[:-1]), tokens[1:])

    def run(self, inputs: Sequence[rl.Tensor]) -> rl.Tensor:
        """One step; its loss."""
        scope = contextlib.nullcontext() if self.amp is None else rl.autocast("cpu", dtype=AMPS[self.amp])
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        with scope:
            loss = self.loss(inputs)
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.detach()

    def __call__(self, inputs: Sequence[rl.Tensor]) -> rl.Tensor:
        """One step, as it was asked for."""
        return self._run(inputs)


def curve(name: str, steps: int, amp: str | None, size: str, *, compiled: bool) -> Curve:
    """Trains a model for some steps, each on inputs of its own seed."""
    step = Step(name, amp, compiled)
    losses: list[float] = []
    seconds: list[float] = []
    for seed in range(steps):
        inputs = SUITE[name].inputs(*SIZES[size][name], seed=seed)
        start = time.perf_counter()
        losses.append(step(inputs).item())
        seconds.append(time.perf_counter() - start)
    return Curve(losses, seconds)


def difference(one: Curve, other: Curve) -> float:
    """The largest difference of losses of a step, relative to the other's."""
    return max([_relative(*pair) for pair in zip(one.losses, other.losses, strict=True)], default=0.0)


def _relative(loss: float, other: float) -> float:
    return abs(loss - other) / max(abs(other), 1e-12)


def as_table(name: str, eager: Curve, compiled: Curve) -> Table:
    """A row for each step."""
    rows = [["step", "eager", "compiled", "difference"]]
    for at, (a, b) in enumerate(zip(eager.losses, compiled.losses, strict=True)):
        rows.append([str(at), f"{a:.6f}", f"{b:.6f}", f"{_relative(b, a):.1e}"])
    times = [spread(one.seconds[1:] or one.seconds).median for one in (eager, compiled)]
    said = (
        f"a step takes {duration(times[0])} eagerly, {duration(times[1])} compiled: speedup {times[0] / times[1]:.2f}"
    )
    return Table(f"{name}, training", rows, [said, f"losses differ by at most {difference(compiled, eager):.1e}"])
