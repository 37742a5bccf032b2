"""Metrics of recommenders by TorchRec's names: over all examples, and over a window of the last ones, task by task.

>>> tasks = [RecTaskInfo("click", "label", "prediction", "weight")]
>>> metric = CTRMetric(1, 0, 2, tasks, window_size=4)
>>> metric.update(predictions={"click": rl.tensor([0.5, 0.9])}, labels={"click": rl.tensor([0.0, 1.0])})
>>> metric.compute()["ctr-click|window_ctr"]
tensor([0.5000], dtype=float64)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum, unique
from typing import Any, ClassVar

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed import ProcessGroup, all_gather_object
from rushlight.nn import Module
from rushlight.support.errors import require
from rushlight.support.frozen import frozen

__all__ = [
    "AUCMetric",
    "CTRMetric",
    "CalibrationMetric",
    "MSEMetric",
    "NEMetric",
    "RecComputeMode",
    "RecMetric",
    "RecTaskInfo",
]

Given = Tensor | Mapping[str, Tensor]
"""Numbers of one task, or by the names of tasks."""
States = dict[str, Tensor]
LEAST = 1e-12
"""The least probability, and the least sum of weights, that logarithms and quotients see."""


@frozen
class RecTaskInfo:
    """A task: its name, and those of its columns in a model's output."""

    name: str = "DefaultTask"
    label_name: str = "label"
    prediction_name: str = "prediction"
    weight_name: str = "weight"


@unique
class RecComputeMode(Enum):
    """How tasks are computed; the numbers are the same."""

    FUSED_TASKS_COMPUTATION = 1
    UNFUSED_TASKS_COMPUTATION = 2


class _Task:
    """The sums of a task over all examples, and what each batch of the window adds."""

    def __init__(self) -> None:
        self.lifetime: States = {}
        self.window: deque[tuple[int, States]] = deque()

    def add(self, count: int, states: States, size: int) -> None:
        """Add a batch of `count` examples; batches leave while the window has more than `size`."""
        self.lifetime = {name: self.lifetime.get(name, 0) + state for name, state in states.items()}
        self.window.append((count, states))
        while sum([one for one, _ in self.window]) > size:
            self.window.popleft()


class RecMetric(Module):
    """A metric of tasks. `update` takes a batch of each; `compute` gives values by `<metric>-<task>|<scope>_<value>`.

    `window_size` counts the examples of all ranks. With several ranks values are of the sums of all, which must call
    `compute` together; `local_compute` is of this rank.
    """

    NAMESPACE: ClassVar[str]
    SCOPES: ClassVar[tuple[str, ...]] = ("lifetime", "window")

    def __init__(
        self,
        world_size: int,
        my_rank: int,
        batch_size: int,
        tasks: Sequence[RecTaskInfo],
        compute_mode: RecComputeMode = RecComputeMode.UNFUSED_TASKS_COMPUTATION,
        window_size: int = 100,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        del my_rank, compute_mode
        self._window_size, self._group = math.ceil(window_size / world_size), process_group
        require(
            self._window_size >= batch_size, "A002", "a metric's window holds a batch of each rank", batch=batch_size
        )
        self._world_size = world_size
        self._tasks = {task.name: _Task() for task in tasks}

    def update(self, *, predictions: Given, labels: Given, weights: Given | None = None) -> None:
        """Add a batch: numbers by task. Examples without weights weigh 1."""
        with rl.no_grad():
            for name, task in self._tasks.items():
                guess, label = (self._of(name, given).double() for given in (predictions, labels))
                weight = rl.ones_like(guess) if weights is None else self._of(name, weights).double()
                require(guess.shape == label.shape == weight.shape, "S014", "update: a label for each prediction")
                task.add(guess.shape[0], self.states(guess, label, weight), self._window_size)

    def _of(self, task: str, given: Given) -> Tensor:
        if isinstance(given, Tensor):
            require(len(self._tasks) == 1, "A002", "update: several tasks take numbers by task", tasks=[*self._tasks])
            return given.reshape(-1)
        require(task in given, "A002", "update: a task has no numbers", task=task, given=[*given])
        return given[task].reshape(-1)

    @abstractmethod
    def states(self, predictions: Tensor, labels: Tensor, weights: Tensor) -> States:
        """Return the sums of a batch."""

    @abstractmethod
    def values(self, states: States) -> dict[str, Tensor]:
        """Return the values of sums, by name."""

    def compute(self) -> dict[str, Tensor]:
        """Return the values of all ranks' examples."""
        return self._computed(self._world_size > 1, "")

    def local_compute(self) -> dict[str, Tensor]:
        """Return the values of this rank's examples."""
        return self._computed(False, "local_")

    def _computed(self, shared: bool, prefix: str) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for task, own in self._tasks.items():
            for scope in self.SCOPES:
                sums = self._sums(own, scope, shared)
                for name, value in self.values(sums).items():
                    found[f"{self.NAMESPACE}-{task}|{prefix}{scope}_{name}"] = value.double().reshape(1)
        return found

    def _sums(self, task: _Task, scope: str, shared: bool) -> States:
        parts = [task.lifetime] if scope == "lifetime" else [states for _, states in task.window]
        if shared:
            everyone: list[Any] = [None] * self._world_size
            all_gather_object(everyone, parts, self._group)
            parts = [states for rank in everyone for states in rank]
        none = rl.zeros(0, dtype=rl.float64)
        empty = self.states(none, none, none)
        return {
            name: self.joined([states[name] for states in parts if states] or [zero]) for name, zero in empty.items()
        }

    def joined(self, parts: list[Tensor]) -> Tensor:
        """Return what the sums of several batches, or ranks, are together."""
        return rl.stack(parts).sum(0)

    def reset(self) -> None:
        """Forget all examples."""
        self._tasks = {name: _Task() for name in self._tasks}


def _quotient(above: Tensor, below: Tensor, otherwise: float = 0.0) -> Tensor:
    return rl.where(below > 0, above / below, otherwise)


class NEMetric(RecMetric):
    """Normalized entropy: the cross-entropy over that of the mean label. `include_logloss` adds the former's mean."""

    NAMESPACE = "ne"

    def __init__(self, *args: Any, include_logloss: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._include_logloss = include_logloss

    def states(self, predictions: Tensor, labels: Tensor, weights: Tensor) -> States:
        """Return the sums of a batch."""
        guess = predictions.clamp(LEAST, 1 - LEAST)
        entropy = labels * guess.log2() + (1 - labels) * (1 - guess).log2()
        return {
            "entropy": -(weights * entropy).sum(),
            "positive": (weights * labels).sum(),
            "negative": (weights * (1 - labels)).sum(),
        }

    def values(self, states: States) -> dict[str, Tensor]:
        """Return the values of sums."""
        positive, negative = states["positive"], states["negative"]
        mean = (positive / (positive + negative).clamp(min=LEAST)).clamp(LEAST, 1 - LEAST)
        least = -positive * mean.log2() - negative * (1 - mean).log2()
        values = {"ne": states["entropy"] / least}
        if self._include_logloss:
            values["logloss"] = states["entropy"] / (positive + negative).clamp(min=LEAST)
        return values


class CalibrationMetric(RecMetric):
    """The sum of predictions over that of labels; 0 without positive labels."""

    NAMESPACE = "calibration"

    def states(self, predictions: Tensor, labels: Tensor, weights: Tensor) -> States:
        """Return the sums of a batch."""
        return {"guessed": (predictions * weights).sum(), "labels": (labels * weights).sum()}

    def values(self, states: States) -> dict[str, Tensor]:
        """Return the values of sums."""
        return {"calibration": _quotient(states["guessed"], states["labels"])}


class CTRMetric(RecMetric):
    """The click-through rate: the mean label; 0 without examples."""

    NAMESPACE = "ctr"

    def states(self, predictions: Tensor, labels: Tensor, weights: Tensor) -> States:
        """Return the sums of a batch."""
        del predictions
        return {"clicks": (labels * weights).sum(), "weight": weights.sum()}

    def values(self, states: States) -> dict[str, Tensor]:
        """Return the values of sums."""
        return {"ctr": _quotient(states["clicks"], states["weight"])}


class MSEMetric(RecMetric):
    """The mean squared error, its root, and with `include_r_squared` the explained share of variance."""

    NAMESPACE = "mse"

    def __init__(self, *args: Any, include_r_squared: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._include_r_squared = include_r_squared

    def states(self, predictions: Tensor, labels: Tensor, weights: Tensor) -> States:
        """Return the sums of a batch."""
        return {
            "errors": (weights * (labels - predictions).square()).sum(),
            "weight": weights.sum(),
            "labels": (weights * labels).sum(),
            "squares": (weights * labels.square()).sum(),
        }

    def values(self, states: States) -> dict[str, Tensor]:
        """Return the values of sums."""
        mean = _quotient(states["errors"], states["weight"])
        values = {"mse": mean, "rmse": mean.sqrt()}
        if self._include_r_squared:
            total = states["squares"] - states["labels"].square() / states["weight"]
            values["r_squared"] = rl.where(total == 0, 1.0, 1 - states["errors"] / total)
        return values


class AUCMetric(RecMetric):
    """The area under the window's receiver operating characteristic; 0.5 without both kinds of labels.

    A pair of equal predictions counts half.
    """

    NAMESPACE = "auc"
    SCOPES = ("window",)

    def states(self, predictions: Tensor, labels: Tensor, weights: Tensor) -> States:
        """Return the batch itself."""
        return {"examples": rl.stack([predictions, labels * weights, (1 - labels) * weights])}

    def joined(self, parts: list[Tensor]) -> Tensor:
        """Return the examples of all."""
        return rl.cat(parts, 1)

    def values(self, states: States) -> dict[str, Tensor]:
        """Return the area."""
        predictions, positive, negative = states["examples"]
        _, group = rl.unique(predictions, return_inverse=True)
        count = predictions.shape[0]
        ups, downs = (predictions.new_zeros(count).index_add_(0, group, part) for part in (positive, negative))
        below = downs.cumsum(0) - downs / 2
        return {"auc": _quotient((ups * below).sum(), ups.sum() * downs.sum(), 0.5)}
