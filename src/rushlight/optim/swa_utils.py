"""Averages of weights over training: SWA (Izmailov et al. 2018) and exponential moving averages."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.creation import tensor
from rushlight.eager.dispatch import call_user
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import int64
from rushlight.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module
from rushlight.optim.groups import per_group
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedule import LRScheduler
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Tensor | int], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the function of an exponential moving average: `decay * average + (1 - decay) * current`."""
    _require_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Tensor | int) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """Return the function of a plain mean of `num_averaged` values and one more."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Tensor | int) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Return the function that moves a list of averages by an exponential moving average."""
    _require_decay(decay)

    @no_grad()
    def ema_update(
        ema_param_list: Sequence[Tensor], current_param_list: Sequence[Tensor], num_averaged: Tensor | int
    ) -> None:
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.copy_(average.lerp(current, 1 - decay))
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """Return the function that takes one more value into a list of plain means."""

    @no_grad()
    def swa_update(
        averaged_param_list: Sequence[Tensor], current_param_list: Sequence[Tensor], num_averaged: Tensor | int
    ) -> None:
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            # A mean of whole numbers, such as counts of batches, is rounded towards 0.
            average.copy_(average + (current - average) / (num_averaged + 1))

    return swa_update


def _require_decay(decay: float) -> None:
    message = f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
    require(0 <= decay <= 1, "A002", message)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over the calls of `update_parameters`.

    Averages are plain means unless `avg_fn`, of one parameter, or `multi_avg_fn`, of lists of them, says otherwise.
    Buffers are averaged as well if `use_buffers`, else they are copied.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: object = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        single = avg_fn is None or multi_avg_fn is None
        require(single, "A002", "Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: object, **kwargs: object) -> object:
        """Return what the averaged model returns."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the averages; the first time they are copied."""
        mine, theirs = self._averaged(self.module), self._averaged(model)
        with no_grad():
            if int(self.n_averaged) == 0:
                for average, current in zip(mine, theirs, strict=True):
                    average.copy_(current)
            elif self.avg_fn is not None:
                for average, current in zip(mine, theirs, strict=True):
                    average.copy_(call_user(self.avg_fn, average, current, self.n_averaged))
            elif mine:
                call_user(self.multi_avg_fn or get_swa_multi_avg_fn(), mine, theirs, self.n_averaged)
            if not self.use_buffers:
                for buffer, current in zip(self.module.buffers(), model.buffers(), strict=True):
                    buffer.copy_(current)
            self.n_averaged += 1

    def _averaged(self, model: Module) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return [value.detach() for value in chain(model.parameters(), buffers)]


@no_grad()
def update_bn(loader: Iterable[object], model: Module, device: object = None) -> None:
    """Find the running statistics of a model's batch norms anew, as means over all batches of a loader.

    Batches that are lists or tuples have the input in front.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, (BatchNorm1d, BatchNorm2d, BatchNorm3d))]
    if not layers:
        return
    momenta, training = [layer.momentum for layer in layers], model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    for batch in loader:
        given = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(given.to(device) if device is not None and isinstance(given, Tensor) else given)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Moves each rate to `swa_lr` over `anneal_epochs`, along a cosine or a line, and keeps it there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(
            per_group(optimizer.param_groups, swa_lr, "swa_lr"), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = rate
        valid = anneal_strategy in ("cos", "linear")
        require(valid, "A002", f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        whole = isinstance(anneal_epochs, int) and anneal_epochs >= 0
        require(whole, "A002", f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        self._anneal_strategy = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rates of the step, from what the present ones say of the rates before the annealing."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, part = self._part(step - 1), self._part(step)
        rates: list[float] = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            first = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * part + first * (1 - part))
        return rates

    def _part(self, step: int) -> float:
        part = max(0, min(1, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * part)) / 2 if self._anneal_strategy == "cos" else part


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
