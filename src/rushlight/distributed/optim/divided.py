"""An optimizer whose state is divided: each rank has that of some parameters, takes their step, and sends them on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rushlight.distributed.collectives import broadcast
from rushlight.distributed.group import Group, ProcessGroup, member
from rushlight.distributed.objects import gather_object
from rushlight.eager.autograd.modes import enable_grad, no_grad
from rushlight.eager.dispatch import call_user
from rushlight.eager.tensor import Tensor
from rushlight.nn.parallel.join import Join, Joinable, JoinHook
from rushlight.optim.optimizer import Optimizer, Params
from rushlight.support.errors import require


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """`optimizer_class` over parameters whole on each rank, each of which has the state of a share.

    Parameters go, the largest first, to the rank that has the fewest elements. A step is that of the plain optimizer,
    bit for bit. `state_dict()` needs `consolidate_state_dict(to=rank)` on all ranks before it. Errors: A002.

    >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=rl.optim.AdamW, lr=1e-3)
    """

    def __init__(
        self,
        params: Params,
        optimizer_class: Callable[..., Optimizer],
        process_group: Group = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        require(not overlap_with_ddp, "A006", "ZeroRedundancyOptimizer: overlap_with_ddp is not supported")
        self.group = member(process_group)
        self._everything: dict[str, Any] | None = None
        super().__init__(params, defaults)
        whole = optimizer_class([{**group, "params": list(group["params"])} for group in self.param_groups], **defaults)
        self.defaults, self.param_groups = whole.defaults, whole.param_groups
        self._owners = _owners(self._all(), self.group.size)
        own = [
            {**group, "params": [one for one in group["params"] if self._owners[one] == self.group.rank]}
            for group in self.param_groups
        ]
        self._own = [at for at, group in enumerate(own) if group["params"]]
        self.optim = optimizer_class([own[at] for at in self._own], **defaults) if self._own else None

    def _all(self) -> list[Tensor]:
        return [one for group in self.param_groups for one in group["params"]]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take the step of this rank's parameters, and get the others from their ranks."""
        Join.notify_join_context(self)
        loss = None
        if closure is not None:
            with enable_grad():
                loss = call_user(closure)
        if self.optim is not None:
            self._tell_groups()
            self.optim.step()
        with no_grad():
            works = [
                broadcast(one.detach(), group=self.group, group_src=owner, async_op=True)
                for one, owner in self._owners.items()
            ]
        for work in works:
            if work is not None:
                work.wait()
        return loss

    def join_hook(self, **kwargs: object) -> JoinHook:
        """Return what takes steps on a rank without inputs: before it in `Join` is the model, which has gradients."""
        return _Steps(self)

    @property
    def join_device(self) -> object:
        """The device of the parameters."""
        return self._all()[0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group."""
        return self.group

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state of all parameters at a rank of the group; all ranks call this."""
        parts: list[Any] | None = [None] * self.group.size if self.group.rank == to else None
        gather_object(self._numbered(), parts, group=self.group, group_dst=to)
        self._everything = None
        if parts is not None:
            state = {number: one for part in parts for number, one in part.items()}
            self._everything = {"state": dict(sorted(state.items())), "param_groups": _counted(self.param_groups)}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all parameters, as the plain optimizer has it, where it was gathered."""
        message = "ZeroRedundancyOptimizer: the state is divided"
        hint = "call consolidate_state_dict(to=rank) on all ranks first"
        require(self._everything is not None, "A002", message, hint=hint)
        assert self._everything is not None
        return self._everything

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state of this rank's parameters from that of all, which each rank gives."""
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update(_hyperparameters(saved))
        if self.optim is None:
            return
        self._tell_groups()
        state = state_dict["state"]
        own = {at: state[number] for at, number in enumerate(self._own_numbers()) if number in state}
        self.optim.load_state_dict({"state": own, "param_groups": _counted(self.optim.param_groups)})

    def _numbered(self) -> dict[int, Any]:
        """This rank's state by the numbers of parameters."""
        if self.optim is None:
            return {}
        numbers = self._own_numbers()
        return {numbers[at]: state for at, state in self.optim.state_dict()["state"].items()}

    def _own_numbers(self) -> list[int]:
        """Of this rank's parameters, in its optimizer's order, the numbers among all."""
        assert self.optim is not None
        numbers = {one: number for number, one in enumerate(self._all())}
        return [numbers[one] for group in self.optim.param_groups for one in group["params"]]

    def _tell_groups(self) -> None:
        """Give this rank's optimizer the hyperparameters, which schedulers change."""
        assert self.optim is not None
        for group, at in zip(self.optim.param_groups, self._own, strict=True):
            group.update(_hyperparameters(self.param_groups[at]))


class _Steps(JoinHook):
    """Takes the steps of a rank's share while other ranks have inputs."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Take a step."""
        self._optimizer.step()


def _hyperparameters(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _counted(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Groups with numbers, from 0 on, in the place of parameters."""
    numbers = itertools.count()
    return [{**group, "params": [next(numbers) for _ in group["params"]]} for group in groups]


def _owners(parameters: list[Tensor], ranks: int) -> dict[Tensor, int]:
    """The rank of each parameter: the largest first, each to the rank with the fewest elements so far."""
    filled = [0] * ranks
    owners: dict[Tensor, int] = {}
    for one in sorted(parameters, key=lambda one: -one.numel()):
        rank = filled.index(min(filled))
        owners[one] = rank
        filled[rank] += one.numel()
    return {one: owners[one] for one in parameters}
