"""Running a schedule: PyTorch's classes of `torch.distributed.pipelining`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.distributed.pipelining.schedules import (
    Table,
    check,
    gpipe,
    interleaved,
    one_forward_one_backward,
    zero_bubble,
)
from rushlight.distributed.pipelining.stage import PipelineStage
from rushlight.eager.autograd.modes import is_grad_enabled
from rushlight.eager.functions import cat
from rushlight.eager.pytree import map_tree
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require

Loss = Callable[..., Tensor]


class Schedule:
    """Base of schedules: the stages of this rank, and the table that says when each runs."""

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Loss | None = None,
        scale_grads: bool = True,
    ) -> None:
        require(n_microbatches >= 1, "A002", "pipelining: at least one microbatch", n_microbatches=n_microbatches)
        first = stages[0]
        for stage in stages:
            stage.messages = first.messages
            stage.expect()
        self.stages = {stage.stage_index: stage for stage in stages}
        self.n_microbatches = n_microbatches
        self.loss_fn = loss_fn
        self.scale_grads = scale_grads
        self._group = first.group
        self.table = self.make_table(self._group.size, n_microbatches)
        check(self.table, first.num_stages)

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        raise NotImplementedError

    def step(self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, **kwargs: Any) -> Any:
        """Run one batch, cut along dim 0 into microbatches, forwards and, with a loss, backwards.

        The rank of the first stage gives the arguments; that of the last one the target, and gets the results, and the
        loss of each microbatch in `losses`. Gradients are those of the mean of the losses, or of their sum with
        `scale_grads=False`.
        """
        count = self.n_microbatches
        pieces = [(_piece(args, at, count), _piece(kwargs, at, count)) for at in range(count)]
        results: dict[int, Any] = {}
        found: dict[int, Tensor] = {}
        trains = self.loss_fn is not None and is_grad_enabled()
        for action in self.table[self._group.rank]:
            stage, at = self.stages[action.stage], action.microbatch
            if action.kind == "F":
                result = stage.forward(at, *pieces[at])
                if stage.is_last:
                    results[at] = map_tree(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, result)
                    if self.loss_fn is not None:
                        found[at] = self.loss_fn(result, _piece(target, at, count))
            elif trains:
                self._go_back(action.kind, stage, at, found.get(at))
        for messages in {id(stage.messages): stage.messages for stage in self.stages.values()}.values():
            messages.finish()
        if losses is not None and found:
            losses[:] = [found[at].detach() for at in range(count)]
        return _joined([results[at] for at in range(count)]) if results else None

    def _go_back(self, kind: str, stage: PipelineStage, at: int, loss: Tensor | None) -> None:
        if kind == "W":
            stage.backward_weights(at)
            return
        scaled = loss / self.n_microbatches if loss is not None and self.scale_grads else loss
        (stage.backward if kind == "B" else stage.backward_inputs)(at, scaled)


class _OfOneStage(Schedule):
    def __init__(
        self, stage: PipelineStage, n_microbatches: int, loss_fn: Loss | None = None, scale_grads: bool = True
    ) -> None:
        super().__init__([stage], n_microbatches, loss_fn, scale_grads)


class ScheduleGPipe(_OfOneStage):
    """All forwards, then all backwards."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return gpipe(ranks, microbatches)


class Schedule1F1B(_OfOneStage):
    """One forward and one backward in turn, as soon as the pipeline is full."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return one_forward_one_backward(ranks, microbatches)


class ScheduleZeroBubble(_OfOneStage):
    """As 1F1B, with gradients of weights taken where a rank would be idle: ZB-H1."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return zero_bubble(ranks, microbatches)


class ScheduleInterleaved1F1B(Schedule):
    """As 1F1B, with several stages at each rank."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return interleaved(ranks, microbatches, len(self.stages))


def _piece(value: Any, at: int, count: int) -> Any:
    """Part `at` of `count` of the tensors in a value, along dim 0."""

    def part(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        fits = leaf.ndim > 0 and leaf.shape[0] % count == 0
        require(fits, "A002", f"pipelining: a batch is cut into {count} microbatches of one size", tensor=leaf)
        return leaf.chunk(count)[at]

    return map_tree(part, value)


def _joined(results: Sequence[Any]) -> Any:
    if isinstance(results[0], tuple):
        return tuple([_joined(list(parts)) for parts in zip(*results, strict=True)])
    return cat(list(results))
