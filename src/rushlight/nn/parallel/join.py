"""Training with more inputs on some ranks than on others: who has none left makes the collectives of the others.

with Join([model, optimizer]):
    for x in inputs:
        model(x).sum().backward()
        optimizer.step()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from rushlight.ir.process_group import ProcessGroup
from rushlight.support.errors import fail, require


@dataclass
class JoinConfig:
    """What a `Join` says to those in it: `active` is the number of ranks that still have inputs, 0 before any."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False
    active: int = 0


class JoinHook:
    """What a rank without inputs does while others go on, and at the end."""

    def main_hook(self) -> None:
        """Make the collectives of one step of the other ranks."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Do what is left once all ranks are done; `is_last_joiner` on those that had inputs to the end."""


class Joinable(ABC):
    """What makes collectives in each step, and can make them without an input of its own."""

    _join_config = JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: object) -> JoinHook:
        """Return what makes the collectives; the arguments are those of `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> object:
        """The device of its collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The group of its collectives."""


class Join:
    """A scope in which ranks may run out of inputs at different times: they then do their part in the steps of others.

    Each joinable makes its collectives in the order of the list; the first one calls `notify_join_context` in each
    step. With `throw_on_early_termination` all ranks fail with W004 as soon as one has no input left. Errors: A002 for
    no joinables, or of several groups.
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: object,
    ) -> None:
        known = bool(joinables) and all(isinstance(one, Joinable) for one in joinables)
        require(known, "A002", "Join: joinables are expected", given=[type(one).__name__ for one in joinables])
        groups = {one.join_process_group.name for one in joinables}
        require(len(groups) == 1, "A002", "Join: all joinables are of one process group", groups=sorted(groups))
        self._group = joinables[0].join_process_group
        self._throws = throw_on_early_termination
        self._enable = enable
        self._hooks = [one.join_hook(**kwargs) for one in joinables]
        self._configs: list[JoinConfig] = []
        for at, one in enumerate(joinables):
            one._join_config = JoinConfig(enable, throw_on_early_termination, at == 0)
            self._configs.append(one._join_config)
        self._joinables = joinables

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._enable and kind is None:
            self._shadow()
        for one in self._joinables:
            one._join_config = JoinConfig()

    def _shadow(self) -> None:
        """Do this rank's part until no rank has inputs any more."""
        is_last = True
        while active := _counted(self._group, 0):
            if self._throws:
                _counted(self._group, 1)
                fail("W004", f"Join: rank {self._group.rank} has no inputs left, and others have")
            for config in self._configs:
                config.active = active
            for hook in self._hooks:
                hook.main_hook()
            is_last = False
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Tell ranks without inputs that this one begins a step. Called before the collectives of each step.

        W004 where a rank has no inputs left, and the scope says that all fail then.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return
        config.active = _counted(joinable.join_process_group, 1)
        if config.throw_on_early_termination and _counted(joinable.join_process_group, 0):
            fail("W004", "Join: a rank has no inputs left; all ranks end")


def _counted(group: ProcessGroup, own: int) -> int:
    """The sum over all ranks of a group."""
    total = np.array([own], np.int64)
    group.all_reduce(total, "sum").wait()
    return int(total[0])


def rank_of(group: ProcessGroup, own: bool) -> int:
    """Return the last rank of a group for which `own` holds; -1 where it does for none."""
    found = np.array([group.rank if own else -1], np.int64)
    group.all_reduce(found, "max").wait()
    return int(found[0])
