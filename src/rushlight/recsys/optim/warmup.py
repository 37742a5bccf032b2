"""Learning rates that change by stages, and gradients that are clipped, around named optimizers: TorchRec's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Parameter
from rushlight.nn.utils import clip_grad_norm_, clip_grad_value_
from rushlight.recsys.optim.keyed import KeyedOptimizer, OptimizerWrapper
from rushlight.support.errors import require


@unique
class WarmupPolicy(Enum):
    """How the factor of the learning rate changes in a stage."""

    NONE = "none"
    LINEAR = "linear"
    CONSTANT = "constant"
    POLY = "poly"
    STEP = "step"
    INVSQRT = "inv_sqrt"
    COSINE_ANNEALING_WARM_RESTARTS = "cosine_annealing_warm_restarts"
    INTERPOLATE = "interpolate"


@dataclass
class WarmupStage:
    """A stage until step `max_iters`; all factors are times `lr_scale`."""

    policy: WarmupPolicy = WarmupPolicy.LINEAR
    max_iters: int = 1
    value: float = 1.0
    lr_scale: float = 1.0
    decay_iters: int = -1
    sgdr_period: int = 1
    start_interpolating_iters: int | None = None
    end_value: float | None = None

    def factor(self, step: int) -> float:
        """Return what the learning rate is multiplied by."""
        return self._factor(step) * self.lr_scale

    def _factor(self, step: int) -> float:
        value, policy = self.value, self.policy
        if policy is WarmupPolicy.LINEAR:
            return value + (1 - value) * step / self.max_iters
        if policy is WarmupPolicy.CONSTANT:
            return value
        if policy is WarmupPolicy.POLY:
            return math.pow(1 - step / self.decay_iters, value)
        if policy is WarmupPolicy.STEP:
            return math.pow(value, step // self.decay_iters)
        if policy is WarmupPolicy.INVSQRT:
            return 1 / math.sqrt(step)
        if policy is WarmupPolicy.COSINE_ANNEALING_WARM_RESTARTS:  # Loshchilov and Hutter 2016, one period for all
            return value + (1 - value) * 0.5 * (1 + math.cos(math.pi * (step % self.sgdr_period) / self.sgdr_period))
        if policy is WarmupPolicy.INTERPOLATE and self.start_interpolating_iters is not None:
            first, last = self.start_interpolating_iters, self.end_value or 0.0
            return value + (last - value) * (step - first) / (self.max_iters - first)
        return 1.0


def _completed(stages: Sequence[WarmupStage]) -> list[WarmupStage]:
    """The stages with the decay that they have by themselves, and one without end. A002 where one cannot be."""
    before = 0
    made: list[WarmupStage] = []
    for stage in stages:
        later = stage.max_iters > before
        require(later, "A002", "WarmupOptimizer: a stage ends after the one before it", stage=stage, before=before)
        if stage.policy is WarmupPolicy.INTERPOLATE:
            first = stage.start_interpolating_iters
            fits = first is not None and stage.end_value is not None and stage.max_iters > first
            require(fits, "A002", "interpolation is from start_interpolating_iters to end_value", stage=stage)
        before = stage.max_iters
        steps = 1 if stage.policy is WarmupPolicy.STEP else stage.max_iters
        made.append(replace(stage, decay_iters=steps) if stage.decay_iters <= 0 else stage)
    return [*made, WarmupStage(WarmupPolicy.NONE, max_iters=1 << 63)]


class WarmupOptimizer(OptimizerWrapper):
    """A named optimizer whose learning rate goes by stages; which step it is, is part of the state.

    WarmupOptimizer(optimizer, [WarmupStage(WarmupPolicy.LINEAR, max_iters=100, value=0.1)], lr=0.1)
    """

    def __init__(
        self,
        optimizer: KeyedOptimizer,
        stages: Sequence[WarmupStage],
        lr: float = 0.1,
        lr_param: str = "lr",
        param_name: str = "__warmup",
    ) -> None:
        super().__init__(optimizer)
        self._stages, self._lr, self._lr_param = _completed(stages), lr, lr_param
        self._warmup_param = Parameter(rl.empty(0))
        self.params[param_name] = self._warmup_param
        self._set_lr(0, 0)  # fused optimizers step before `step` is called

    def _set_lr(self, step: int, stage: int) -> None:
        for group in self.param_groups:
            group[self._lr_param] = self._lr * self._stages[stage].factor(step)

    def _progress(self) -> tuple[int, int]:
        known = self._warmup_param in self.state
        step, stage = self.state[self._warmup_param]["warmup"].tolist() if known else (0, 0)
        return step, stage

    def post_load_state_dict(self) -> None:
        """Set the learning rate of the step that was loaded."""
        self._set_lr(*self._progress())

    def step(self, closure: Any = None) -> Any:
        """Step, and set the learning rate of the next one."""
        loss = super().step(closure)
        step, stage = self._progress()
        step += 1
        if step > self._stages[stage].max_iters and stage + 1 < len(self._stages):
            stage += 1
        self._set_lr(step, stage)
        self.state[self._warmup_param] = {"warmup": rl.tensor([step, stage])}
        return loss


@unique
class GradientClipping(Enum):
    """What of gradients is limited."""

    NORM = "norm"
    VALUE = "value"
    NONE = "none"


class GradientClippingOptimizer(OptimizerWrapper):
    """A named optimizer whose gradients are clipped first: those of this rank's parameters.

    GradientClippingOptimizer(optimizer, GradientClipping.NORM, max_gradient=1.0)
    """

    def __init__(
        self,
        optimizer: KeyedOptimizer,
        clipping: GradientClipping = GradientClipping.NONE,
        max_gradient: float = 0.1,
        norm_type: float | str = 2.0,
    ) -> None:
        super().__init__(optimizer)
        self._clipping, self._most, self._norm_type = clipping, max_gradient, float(norm_type)
        self._last_norm: Tensor | None = None

    @property
    def last_total_grad_norm(self) -> Tensor | None:
        """The norm of the last step's gradients before they were clipped; None unless norms are."""
        return self._last_norm

    def step(self, closure: Any = None) -> Any:
        """Clip, and step."""
        params = [param for group in self.param_groups for param in group["params"] if param.grad is not None]
        if self._clipping is GradientClipping.NORM and params:
            self._last_norm = clip_grad_norm_(params, self._most, self._norm_type)
        elif self._clipping is GradientClipping.VALUE:
            clip_grad_value_(params, self._most)
        return super().step(closure)
