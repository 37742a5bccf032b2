"""Schedules that begin again and again: CyclicLR and CosineAnnealingWarmRestarts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from rushlight.eager.dispatch import call_user
from rushlight.optim.groups import per_group, set_momentum
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedule import LRScheduler, attributes_of
from rushlight.support.errors import require

_MODES = ("triangular", "triangular2", "exp_range")


class CyclicLR(LRScheduler):
    """Moves the rate from `base_lr` to `max_lr` and back, in cycles (Smith 2017). Call `step` after every batch.

    `mode` says how high the next cycles are: as high ("triangular"), half as high as the one before ("triangular2"),
    or lower by `gamma` each step ("exp_range"). `scale_fn` takes its place, as a function of the cycle's number or,
    with `scale_mode="iterations"`, of the step's. Momentum (or Adam's first beta) goes the other way when
    `cycle_momentum`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        fits = isinstance(optimizer, Optimizer)
        require(fits, "A001", f"CyclicLR: {type(optimizer).__name__} is not an Optimizer")
        require(mode in _MODES or scale_fn is not None, "A002", "mode is invalid and scale_fn is None")
        self.optimizer = optimizer
        base_lrs = per_group(optimizer.param_groups, base_lr, "base_lr")
        self.max_lrs = per_group(optimizer.param_groups, max_lr, "max_lr")
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            self._set(base_lrs)
        if cycle_momentum:
            self._begin_momenta(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _begin_momenta(
        self, lowest: float | Sequence[float], highest: float | Sequence[float], last_epoch: int
    ) -> None:
        supported = "momentum" in self.optimizer.defaults or "betas" in self.optimizer.defaults
        require(supported, "A002", "optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        groups = self.optimizer.param_groups
        self.base_momentums = per_group(groups, lowest, "base_momentum")
        self.max_momentums = per_group(groups, highest, "max_momentum")
        if last_epoch == -1:
            for group, low, high in zip(groups, self.base_momentums, self.max_momentums, strict=True):
                set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle or a step, as a part of the first one's."""
        if self._scale_fn_custom is not None:
            return call_user(self._scale_fn_custom, x)
        if self.mode == "exp_range":
            return self.gamma**x
        return 1.0 if self.mode == "triangular" else 1 / (2.0 ** (x - 1))

    def get_lr(self) -> list[float]:
        """Return the rates of the step, and set the momenta."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                set_momentum(group, high - (high - low) * height * scale)
        rates = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height * scale for low, high in rates]

    def state_dict(self) -> dict[str, Any]:
        """Return all but the optimizer and the function, whose object gives its attributes."""
        return {**super().state_dict(), "_scale_fn_custom": attributes_of(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back a state dict; the function stays the constructor's."""
        attributes = state_dict["_scale_fn_custom"]
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_scale_fn_custom"})
        if attributes is not None:
            cast(Any, self._scale_fn_custom).__dict__.update(attributes)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lowers the rate to `eta_min` along half a cosine, and begins again (Loshchilov and Hutter 2017).

    The first time takes `T_0` epochs, each next one `T_mult` times as many as the one before.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 - its name
        T_mult: int = 1,  # noqa: N803 - its name
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        require(isinstance(T_0, int) and T_0 > 0, "A002", f"Expected positive integer T_0, but got {T_0}")
        require(isinstance(T_mult, int) and T_mult >= 1, "A002", f"Expected integer T_mult >= 1, but got {T_mult}")
        number = isinstance(eta_min, (float, int))
        require(number, "A002", f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates at this place of the cosine."""
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - parts too
        """Set the next rates, or those of `epoch`, which may be a fraction: after each batch of an epoch."""
        self._step_count += 1
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            require(0 <= epoch < math.inf, "A002", f"Expected non-negative epoch, but got {epoch}")
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(call_user(self.get_lr))

    def _go_to(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts
