"""The demo on many ranks: each learns from its part of a batch, and all have the model that one process would have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight import distributed as dist
from rushlight.demo.model import GPT
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor, distribute_tensor
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.support.errors import require

KINDS = ("ddp", "fsdp")
Tokens = NDArray[np.int64]


class Ranks:
    """The ranks of a run, and how its model lies on them: whole on each (ddp), or divided (fsdp)."""

    def __init__(self, kind: str, batch: int) -> None:
        require(kind in KINDS, "A002", f"demo: --parallel is one of {', '.join(KINDS)}", given=kind)
        if not dist.is_initialized():
            dist.init_process_group()
        self.kind = kind
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        even = batch % self.size == 0
        require(even, "A002", f"demo: {self.size} ranks do not divide a batch of {batch}", hint="use --set batch=N")

    def spread(self, model: GPT, eager: bool) -> Callable[[rl.Tensor], rl.Tensor]:
        """Lay the model on the ranks, and return what computes its logits."""
        if self.kind == "ddp":
            return DistributedDataParallel(model if eager else rl.compile(model))
        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)

    def part(self, windows: Tokens) -> Tokens:
        """This rank's windows of a batch."""
        return np.array_split(windows, self.size)[self.rank]

    def mean(self, loss: rl.Tensor) -> rl.Tensor:
        """The mean of the losses of all ranks."""
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        return loss

    def any(self, requested: bool) -> bool:
        """Whether any rank was asked to stop: all do so after the same step."""
        asked = rl.tensor([float(requested)])
        dist.all_reduce(asked, dist.ReduceOp.MAX)
        return asked.item() > 0

    def agree(self, value: object) -> Any:
        """What the first rank has."""
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]


def whole(state: Any) -> Any:
    """A state whose divided tensors are whole on each rank, as a checkpoint of one process has it."""
    if isinstance(state, DTensor):
        return state.full_tensor()
    if isinstance(state, Mapping):
        return {key: whole(value) for key, value in state.items()}
    return [whole(value) for value in state] if isinstance(state, list) else state


def divided(values: Mapping[str, Any], like: rl.Tensor) -> dict[str, Any]:
    """Values of a state of which those of a parameter's shape are divided as the parameter is."""
    return {name: divided_as(value, like) for name, value in values.items()}


def divided_as(value: Any, like: rl.Tensor | None) -> Any:
    """A whole tensor, which all ranks have, divided as another one is."""
    fits = isinstance(like, DTensor) and isinstance(value, rl.Tensor) and value.shape == like.shape
    if not fits or isinstance(value, DTensor):
        return value
    assert isinstance(like, DTensor)
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)
