"""OneCycleLR: up to a high rate, then down to a very low one (Smith and Topin 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rushlight.optim.groups import per_group, set_momentum
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedule import LRScheduler
from rushlight.support.errors import fail, require


class Phase(NamedTuple):
    """A stretch of steps: where it ends, and between which entries of a group rate and momentum go."""

    end_step: float
    start_lr: str
    end_lr: str
    start_momentum: str
    end_momentum: str


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _linear(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


ANNEALINGS: dict[str, Callable[[float, float, float], float]] = {"cos": _cosine, "linear": _linear}


class OneCycleLR(LRScheduler):
    """Raises the rate from `max_lr / div_factor` to `max_lr` and lowers it again, over all steps.

    It rises in the first `pct_start` of the steps. Call `step` after every batch. Momentum (or Adam's first beta) goes
    the other way when `cycle_momentum`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        fits = isinstance(optimizer, Optimizer)
        require(fits, "A001", f"OneCycleLR: {type(optimizer).__name__} is not an Optimizer")
        valid = anneal_strategy in ANNEALINGS
        require(valid, "A002", f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        require(0 <= pct_start <= 1, "A002", f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self.optimizer = optimizer
        self.total_steps = _steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(float(pct_start * self.total_steps), self.total_steps, three_phase)
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self.use_beta1 = "betas" in optimizer.defaults
        self._begin_rates(per_group(optimizer.param_groups, max_lr, "max_lr"), div_factor, final_div_factor, last_epoch)
        if cycle_momentum:
            supported = self.use_beta1 or "momentum" in optimizer.defaults
            require(supported, "A002", "optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            highest = per_group(optimizer.param_groups, max_momentum, "max_momentum")
            self._begin_momenta(per_group(optimizer.param_groups, base_momentum, "base_momentum"), highest, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _begin_rates(self, highest: list[float], div_factor: float, final_div_factor: float, last_epoch: int) -> None:
        for group, rate in zip(self.optimizer.param_groups, highest, strict=True):
            if last_epoch == -1:
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor

    def _begin_momenta(self, lowest: list[float], highest: list[float], last_epoch: int) -> None:
        for group, low, high in zip(self.optimizer.param_groups, lowest, highest, strict=True):
            if last_epoch == -1:
                set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low

    def get_lr(self) -> list[float]:
        """Return the rates of the step, and set the momenta."""
        step, total = self.last_epoch, self.total_steps
        require(step <= total, "A002", f"Tried to step {step} times. The specified number of total steps is {total}")
        anneal = ANNEALINGS[self._anneal_func_type]
        start = 0.0
        phase = self._schedule_phases[0]
        for phase in self._schedule_phases:
            if step <= phase.end_step or phase is self._schedule_phases[-1]:
                break
            start = phase.end_step
        part = (step - start) / (phase.end_step - start)
        rates: list[float] = []
        for group in self.optimizer.param_groups:
            rates.append(anneal(group[phase.start_lr], group[phase.end_lr], part))
            if self.cycle_momentum:
                set_momentum(group, anneal(group[phase.start_momentum], group[phase.end_momentum], part))
        return rates


def _steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        require(total_steps > 0, "A002", f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        fail("A002", "You must define either total_steps OR (epochs AND steps_per_epoch)")
    require(epochs > 0, "A002", f"Expected positive integer epochs, but got {epochs}")
    require(steps_per_epoch > 0, "A002", f"Expected positive integer steps_per_epoch, but got {steps_per_epoch}")
    return epochs * steps_per_epoch


def _phases(rising: float, total: int, three_phase: bool) -> tuple[Phase, ...]:
    up = Phase(rising - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three_phase:
        return up, Phase(total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")
    down = Phase(2 * rising - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
    return up, down, Phase(total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")
