"""Running a schedule: PyTorch's classes of `torch.distributed.pipelining`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.distributed.pipelining.schedules import (
    Home,
    Table,
    breadth_first,
    check,
    filled,
    gpipe,
    in_a_v,
    in_turn,
    interleaved,
    one_forward_one_backward,
    zero_bubble,
)
from rushlight.distributed.pipelining.stage import PipelineStage
from rushlight.eager.autograd.modes import is_grad_enabled
from rushlight.eager.functions import cat
from rushlight.eager.pytree import map_tree
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail, require

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
        home = self.placement(first.group.size)
        for stage in stages:
            misplaced = home(stage.stage_index) != first.group.rank
            message = f"{type(self).__name__}: stage {stage.stage_index} lies at rank {home(stage.stage_index)}"
            require(not misplaced, "A002", message, rank=first.group.rank)
            stage.messages = first.messages
            stage.messages.home = home
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

    def placement(self, ranks: int) -> Home:
        """At which rank a stage lies."""
        return in_turn(ranks)

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Tensor] | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Run one batch, cut along dim 0 into microbatches, forwards and, with a loss, backwards.

        The rank of the first stage gives the arguments; that of the last one the target, and gets the results, unless
        `return_outputs` is False, and the loss of each microbatch in `losses`. Gradients are those of the mean of the
        losses, or of their sum with `scale_grads=False`.
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
                if stage.is_last and return_outputs:
                    results[at] = map_tree(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, result)
                if stage.is_last and self.loss_fn is not None:
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


class PipelineScheduleSingle(Schedule):
    """Base of schedules with one stage at each rank."""

    def __init__(
        self, stage: PipelineStage, n_microbatches: int, loss_fn: Loss | None = None, scale_grads: bool = True
    ) -> None:
        super().__init__([stage], n_microbatches, loss_fn, scale_grads)


class ScheduleGPipe(PipelineScheduleSingle):
    """All forwards, then all backwards."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return gpipe(ranks, microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """One forward and one backward in turn, as soon as the pipeline is full."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return one_forward_one_backward(ranks, microbatches)


class ScheduleZeroBubble(PipelineScheduleSingle):
    """As 1F1B, with gradients of weights taken where a rank would be idle: ZB-H1."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return zero_bubble(ranks, microbatches)


class PipelineScheduleMulti(Schedule):
    """Base of schedules with several stages at each rank."""


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through a stage before the next one of the rank."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return breadth_first(ranks, microbatches, len(self.stages))


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """Several stages at each rank, with gradients of weights taken where a rank would be idle."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return filled(ranks, microbatches, ranks * len(self.stages), in_turn(ranks))


class ScheduleZBVZeroBubble(PipelineScheduleMulti):
    """Two stages at each rank, `r` and `2 n - 1 - r`, so that all ranks keep as many activations.

    Gradients of weights fill what would be idle times; ranks are idle at both ends alone.
    """

    def placement(self, ranks: int) -> Home:
        """At which rank a stage lies."""
        return in_a_v(ranks)

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        require(
            len(self.stages) == 2, "A002", "ScheduleZBVZeroBubble: two stages at each rank", stages=len(self.stages)
        )
        return filled(ranks, microbatches, 2 * ranks, in_a_v(ranks))


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """As 1F1B, with several stages at each rank."""

    def make_table(self, ranks: int, microbatches: int) -> Table:
        """The actions of each rank."""
        return interleaved(ranks, microbatches, len(self.stages))


_SCHEDULES: tuple[type[Schedule], ...] = (
    ScheduleGPipe,
    Schedule1F1B,
    ScheduleZeroBubble,
    ScheduleLoopedBFS,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)


def get_schedule_class(schedule_name: str) -> type[Schedule]:
    """The class of a schedule by its name, with or without `Schedule` in front: `get_schedule_class("1F1B")`.

    Errors: A002 for a name that there is not.
    """
    known = {cls.__name__.removeprefix("Schedule").lower(): cls for cls in _SCHEDULES}
    found = known.get(str(schedule_name).removeprefix("Schedule").lower())
    if found is None:
        fail("A002", f"get_schedule_class: there is no schedule {schedule_name!r}", known=sorted(known))
    return found


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
