"""Schedules made of others: one after the other, or all at once."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

from rushlight.optim.optimizer import Optimizer
from rushlight.optim.plateau import ReduceLROnPlateau
from rushlight.optim.schedule import LRScheduler
from rushlight.support.errors import fail, require


class Combined(LRScheduler):
    """Base of schedules that hold other ones of the same optimizer."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Return all but the optimizer; of the schedules, their state dicts."""
        hidden = ("optimizer", "_schedulers")
        state = {name: value for name, value in self.__dict__.items() if name not in hidden}
        return {**state, "_schedulers": [one.state_dict() for one in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back a state dict."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for one, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            one.load_state_dict(state)


class SequentialLR(Combined):
    """One schedule after the other; each of the milestones is the first epoch of the next one."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        require(bool(schedulers), "A002", "SequentialLR expects at least one scheduler")
        same = all(one.optimizer is optimizer for one in schedulers)
        require(same, "A002", "SequentialLR expects all schedulers to belong to its optimizer")
        fits = len(milestones) == len(schedulers) - 1
        require(fits, "A002", f"SequentialLR expects {len(schedulers) - 1} milestones, not {len(milestones)}")
        self.optimizer = optimizer
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch
        # Making the schedules has stepped each of them: undo that, and begin with the first one alone.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self.undo()
        self.last_epoch = last_epoch + 1
        self._schedulers[0].begin()
        self._last_lr = self._schedulers[0].get_last_lr()

    def undo(self) -> None:
        """Forget the last step, also in the schedules."""
        super().undo()
        for one in self._schedulers:
            one.undo()

    def begin(self) -> None:
        """Take the first step of the first schedule."""
        self._schedulers[0].begin()

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates."""
        if epoch is not None:
            fail("A006", "SequentialLR: step takes no epoch")
        self.last_epoch += 1
        index = bisect.bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            current.step(0)
        else:
            current.step()
        self._last_lr = current.get_last_lr()


class ChainedScheduler(Combined):
    """Several schedules at once: each step takes one of each, in order, from the rates of the one before."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        require(len(schedulers) >= 1, "A002", "ChainedScheduler expects at least one scheduler to be chained")
        for index, one in enumerate(schedulers):
            fits = hasattr(one, "optimizer")
            require(fits, "A001", f"ChainedScheduler at index {index} should have `optimizer` as its attribute")
            plain = not isinstance(one, ReduceLROnPlateau)
            require(plain, "A002", f"ChainedScheduler does not support `ReduceLROnPlateau`, as at index {index}")
        optimizer = optimizer or schedulers[0].optimizer
        same = all(one.optimizer is optimizer for one in schedulers)
        require(same, "A002", "ChainedScheduler expects all schedulers to belong to the same optimizer")
        self.optimizer = optimizer
        self._schedulers = list(schedulers)
        self._last_lr = self._rates()

    def undo(self) -> None:
        """Forget the last step of each schedule."""
        for one in self._schedulers:
            one.undo()

    def begin(self) -> None:
        """Take a first step of each schedule."""
        for one in self._schedulers:
            one.begin()

    def step(self, epoch: int | None = None) -> None:
        """Take the next step of each schedule."""
        if epoch is not None:
            fail("A006", "ChainedScheduler: step takes no epoch")
        for one in self._schedulers:
            one.step()
        self._last_lr = self._rates()
