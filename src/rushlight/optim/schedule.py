"""Learning rate schedules. Each computes the next rates from the last ones, as in PyTorch, so that they chain."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any, cast

from rushlight.eager.arguments import integer
from rushlight.eager.boundary import Constructed
from rushlight.eager.dispatch import call_user
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor
from rushlight.optim.optimizer import Optimizer
from rushlight.support.errors import fail, require


def copy_of_rate(rate: Any) -> Any:
    """A rate as it is now: one that is a tensor changes in place."""
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


class LRScheduler(Constructed):
    """Base of schedules: a subclass defines `get_lr`, the groups' rates at `last_epoch`.

    Making one takes the first step; `step()` is called after each epoch, or after each batch. Rates are written to
    `optimizer.param_groups[i]["lr"]`; `base_lrs` are the groups' first rates.
    """

    __rushlight_state__ = "runtime"

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        fits = isinstance(optimizer, Optimizer)
        require(fits, "A001", f"{type(self).__name__}: {type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault(
                    "initial_lr", copy_of_rate(group["lr"])
                )  # an earlier schedule of the same groups knows better
            elif "initial_lr" not in group:
                fail("A007", f"{type(self).__name__}: initial_lr is missing in param_groups[{index}] when resuming")
        self.base_lrs: list[float] = [copy_of_rate(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.begin()

    def begin(self) -> None:
        """Take the first step, which making a schedule does."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def undo(self) -> None:
        """Forget the last step; the rates stay as they are."""
        self.last_epoch -= 1

    def state_dict(self) -> dict[str, Any]:
        """Return all but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back a state dict."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """Return the rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """Return the groups' rates at `last_epoch`, computed from the present ones."""
        fail("A006", f"{type(self).__name__}: an LRScheduler defines get_lr")

    def closed_form(self) -> list[float] | None:
        """Return the rates at `last_epoch` by themselves, where there is a formula; for `step(epoch)`."""
        return None

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates, or the rates of `epoch`."""
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            values = call_user(self.get_lr)
        else:
            self.last_epoch = epoch
            values = self.closed_form() or call_user(self.get_lr)
        self._set(values)

    def _set(self, values: Sequence[float]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = copy_of_rate(value)
        self._last_lr: list[float] = self._rates()

    def _rates(self) -> list[float]:
        return [copy_of_rate(group["lr"]) for group in self.optimizer.param_groups]


class LambdaLR(LRScheduler):
    """The base rate times a function of the epoch, one function for all groups or one for each."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * groups
        require(len(self.lr_lambdas) == groups, "A002", f"Expected {groups} lr_lambdas, but got {len(self.lr_lambdas)}")
        for function in self.lr_lambdas:
            called = callable(function)
            require(called, "A003", f"{type(self).__name__}: {type(function).__name__} is not a function of the epoch")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return all but the optimizer and the functions, whose objects give their attributes."""
        state = {name: value for name, value in super().state_dict().items() if name != "lr_lambdas"}
        return {**state, "lr_lambdas": [attributes_of(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state dict; the functions stay those of the constructor."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                cast(Any, function).__dict__.update(attributes)

    def get_lr(self) -> list[float]:
        """Return base rates times the functions' values."""
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [base * self._factor(function) for function, base in pairs]

    def _factor(self, function: Callable[[int], Any]) -> Any:
        factor = call_user(function, self.last_epoch)
        if not isinstance(factor, Real | Handle):
            fail("A003", f"{type(self).__name__}: lr_lambda returns a number, not {type(factor).__name__}")
        return factor


def attributes_of(function: object) -> dict[str, Any] | None:
    """Return the attributes of an object that is called as a function; None for functions."""
    return None if function is None or hasattr(function, "__code__") else dict(getattr(function, "__dict__", {}))


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the last rates, times gamma at the ends of periods."""
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def closed_form(self) -> list[float]:
        """Return the rates at `last_epoch` by themselves."""
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the milestones."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter([integer(milestone) for milestone in list(milestones)])
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the last rates, times gamma at milestones."""
        # Each is compared: a graph that looks the count up is for that count alone.
        passed = sum([count for milestone, count in self.milestones.items() if milestone == self.last_epoch])
        if not passed:
            return self._rates()
        return [rate * self.gamma**passed for rate in self._rates()]

    def closed_form(self) -> list[float]:
        """Return the rates at `last_epoch` by themselves."""
        passed = bisect.bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The base rate times `factor` until `total_iters`, the base rate after."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        require(0 <= factor <= 1, "A002", "Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the last rates, times or over the factor at the ends."""
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [rate * (1.0 / self.factor) for rate in self._rates()]

    def closed_form(self) -> list[float]:
        """Return the rates at `last_epoch` by themselves."""
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiplies the base rate by a factor that changes linearly over `total_iters` epochs.

    The factor goes from `start_factor` to `end_factor`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        valid = 0 < start_factor <= 1
        require(valid, "A002", "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        require(0 <= end_factor <= 1, "A002", "Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the last rates, times the ratio of neighbouring factors."""
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        ratio = 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [rate * ratio for rate in self._rates()]

    def closed_form(self) -> list[float]:
        """Return the rates at `last_epoch` by themselves."""
        passed = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * passed) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the last rates times gamma."""
        if self._is_initial:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def closed_form(self) -> list[float]:
        """Return the rates at `last_epoch` by themselves."""
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Lowers the rate from its base to `eta_min` along half a cosine of `T_max` epochs.

    After that it rises again the same way (Loshchilov and Hutter 2017).
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803 - its name
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the last rates, moved by the ratio of neighbouring values of the cosine."""
        epoch, length, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._rates() if epoch == 0 else self.closed_form()
        if (epoch - 1 - length) % (
            2 * length
        ) == 0:  # the last value was the lowest one, and ratios to it are undefined
            rise = (1 - math.cos(math.pi / length)) / 2
            return [rate + (base - low) * rise for base, rate in zip(self.base_lrs, self._rates(), strict=True)]
        ratio = (1 + math.cos(math.pi * epoch / length)) / (1 + math.cos(math.pi * (epoch - 1) / length))
        return [ratio * (rate - low) + low for rate in self._rates()]

    def closed_form(self) -> list[float]:
        """Return the rates at `last_epoch` by themselves."""
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the epoch, one function for all groups or one for each."""

    def get_lr(self) -> list[float]:
        """Return the last rates times the functions' values."""
        if self._is_initial:
            return self._rates()
        pairs = zip(self.lr_lambdas, self._rates(), strict=True)
        return [rate * self._factor(function) for function, rate in pairs]


class PolynomialLR(LRScheduler):
    """Lowers the rate to 0 over `total_iters` epochs, along a power of the part that is left."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the last rates, times the ratio of neighbouring powers."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return [rate * (left / before) ** self.power for rate in self._rates()]

    def closed_form(self) -> list[float]:
        """Return the rates at `last_epoch` by themselves."""
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
