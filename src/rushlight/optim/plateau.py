"""ReduceLROnPlateau: lower rates when a metric has stopped to improve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.optim.groups import per_group
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedule import LRScheduler
from rushlight.support.errors import fail, require


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rates by `factor` when the metric has stopped improving.

    That is when it has not improved for more than `patience` calls of `step(metric)`. Better means below the best by
    `threshold` (of it when `threshold_mode` is "rel", absolutely when "abs"), or above for `mode="max"`. After a
    reduction `cooldown` calls do not count.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        require(factor < 1.0, "A002", "Factor should be < 1.0.")
        require(isinstance(optimizer, Optimizer), "A001", f"{type(optimizer).__name__} is not an Optimizer")
        require(mode in ("min", "max"), "A002", f"mode {mode} is unknown!")
        require(threshold_mode in ("rel", "abs"), "A002", f"threshold mode {threshold_mode} is unknown!")
        lowest = per_group(optimizer.param_groups, min_lr, "min_lr")
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = lowest
        self._lowest = None if isinstance(min_lr, Sequence) else min_lr
        self.eps = eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0
        self._last_lr = self._rates()

    @property
    def in_cooldown(self) -> bool:
        """Whether the metric does not count now."""
        return self.cooldown_counter > 0

    def step(  # pyright: ignore[reportIncompatibleMethodOverride] - PyTorch's signature
        self, metrics: Any = None, epoch: int | None = None
    ) -> None:
        """Note a metric, and lower the rates when it is time."""
        if metrics is None:
            fail("A003", "ReduceLROnPlateau: step takes the metric that should improve")
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()

    def _reduce(self) -> None:
        rates: list[float] = []
        groups = len(self.optimizer.param_groups)
        if self._lowest is not None:  # groups may have been added
            self.min_lrs += [self._lowest] * (groups - len(self.min_lrs))
        require(len(self.min_lrs) == groups, "A002", f"ReduceLROnPlateau: {len(self.min_lrs)} min_lrs, {groups} groups")
        for rate, lowest in zip(self._rates(), self.min_lrs, strict=True):
            reduced = max(rate * self.factor, lowest)
            rates.append(reduced if rate - reduced > self.eps else rate)
        self._set(rates)

    def is_better(self, a: float, best: float) -> bool:
        """Return whether a metric is better than the best one by more than the threshold."""
        if self.threshold_mode == "abs":
            return a < best - self.threshold if self.mode == "min" else a > best + self.threshold
        return a < best * (1.0 - self.threshold) if self.mode == "min" else a > best * (self.threshold + 1.0)
