"""Pipelines: the stages of a model on several ranks train as the model does."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    ScheduleZeroBubble,
    get_schedule_class,
)
from rushlight.distributed.pipelining.schedules import (
    Action,
    breadth_first,
    check,
    filled,
    gpipe,
    in_a_v,
    in_turn,
    interleaved,
    one_forward_one_backward,
    text_of,
    zero_bubble,
)

KINDS = [ScheduleGPipe, Schedule1F1B, ScheduleZeroBubble]


class Block(rl.nn.Module):
    """A stage with a result that goes around its layer."""

    def __init__(self, number: int) -> None:
        super().__init__()
        rl.manual_seed(number)
        self.layer = rl.nn.Linear(4, 4).double()

    def forward(self, x, kept=None):
        h = self.layer(x).tanh()
        return h if kept is None else (h + kept, kept)


class Two(Block):
    """A stage with two results, of which the second is not differentiated on the way."""

    def forward(self, x, kept=None):
        return super().forward(x, x if kept is None else kept)


def _blocks(count: int) -> list[rl.nn.Module]:
    return [*[Two(number) for number in range(count - 1)], Block(count - 1)] if count > 1 else [Block(0)]


def _last(part: rl.nn.Module):
    return part


def _batch() -> tuple[rl.Tensor, rl.Tensor]:
    x = rl.arange(48, dtype=rl.float64).view(12, 4).sin()
    return x, x.flip(0)


def _loss(out, target):
    return (out[0] if isinstance(out, tuple) else out).sub(target).square().mean()


def _alone(count: int) -> tuple[list[list[float]], float]:
    x, y = _batch()
    out = (x,)
    blocks = _blocks(count)
    for block in blocks:
        out = block(*out)
        out = out if isinstance(out, tuple) else (out,)
    loss = _loss(out, y)
    loss.backward()
    return [block.layer.weight.grad.tolist() for block in blocks], loss.item()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("world", "microbatches"), [(1, 3), (2, 1), (2, 4), (3, 2), (4, 6)])
def test_gradients_are_those_of_the_whole(kind, world: int, microbatches: int) -> None:
    def train(seed: int):
        rank = dist.get_rank()
        block = _blocks(world)[rank]
        schedule = kind(PipelineStage(block, rank, world), microbatches, loss_fn=_loss)
        x, y = _batch()
        losses = []
        args = (x,) if rank == 0 else ()
        out = schedule.step(*args, target=y if rank == world - 1 else None, losses=losses)
        return block.layer.weight.grad.tolist(), out is not None, sum(one.item() for one in losses) / microbatches

    wanted, loss = _alone(world)
    for seed in range(3):
        found = dist.spawn(train, world, (seed,), seed=seed)
        assert [given for _, given, _ in found] == [False] * (world - 1) + [True]
        assert found[-1][2] == pytest.approx(loss, rel=1e-12)
        for (gradient, _, _), one in zip(found, wanted, strict=True):
            rl.testing.assert_close(rl.tensor(gradient), rl.tensor(one), rtol=1e-12, atol=1e-14)


SEVERAL = [ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleLoopedBFS, ScheduleZBVZeroBubble]


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.parametrize(("world", "stages"), [(2, 4), (2, 6), (1, 2), (3, 6)])
def test_several_stages_at_each_rank(kind, world: int, stages: int) -> None:
    in_v = kind is ScheduleZBVZeroBubble
    if in_v and stages != 2 * world:
        with pytest.raises(rl.RushlightError, match="two stages at each rank"):
            kind.make_table(_Stages(stages // world), world, 4)
        return
    home = (in_a_v if in_v else in_turn)(world)

    def train():
        rank = dist.get_rank()
        mine = [stage for stage in range(stages) if home(stage) == rank]
        blocks = [_blocks(stages)[number] for number in mine]
        parts = [PipelineStage(block, number, stages) for block, number in zip(blocks, mine, strict=True)]
        schedule = kind(parts, 6, loss_fn=_loss)
        x, y = _batch()
        losses = []
        schedule.step(*((x,) if rank == 0 else ()), target=y, losses=losses)
        return [(number, block.layer.weight.grad.tolist()) for number, block in zip(mine, blocks, strict=True)]

    wanted, _ = _alone(stages)
    for found in dist.spawn(train, world):
        for number, gradient in found:
            rl.testing.assert_close(rl.tensor(gradient), rl.tensor(wanted[number]), rtol=1e-12, atol=1e-14)


class _Stages:
    """What a table is made for."""

    def __init__(self, count: int) -> None:
        self.stages = range(count)


def test_a_stage_that_lies_elsewhere_is_refused() -> None:
    def run():
        rank = dist.get_rank()
        parts = [PipelineStage(Block(0), number, 4) for number in (rank, 3 - rank)]
        with pytest.raises(rl.RushlightError, match="lies at rank"):
            ScheduleInterleaved1F1B(parts, 2)
        return True

    assert dist.spawn(run, 2) == [True, True]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("microbatches", [1, 2, 5, 8, 24])
def test_filled_schedules_are_short_and_keep_little(ranks: int, microbatches: int) -> None:
    """In a V all ranks keep at most one more than twice their number, and are idle at the ends alone."""
    for chunks in (1, 2, 3):
        assert check(breadth_first(ranks, microbatches, chunks), ranks * chunks) >= 2 * microbatches * chunks
        check(filled(ranks, microbatches, ranks * chunks, in_turn(ranks)), ranks * chunks)
    table = filled(ranks, microbatches, 2 * ranks, in_a_v(ranks))
    assert check(table, 2 * ranks) <= 6 * microbatches + 4 * ranks
    if microbatches % ranks == 0 and microbatches >= 2 * ranks:
        assert check(table, 2 * ranks) <= 2 * check(zero_bubble(ranks, microbatches), ranks)
    for row in table:
        kept = [sum({"F": 1, "I": -1, "W": 0}[action.kind] for action in row[:end]) for end in range(len(row))]
        assert max(kept) <= 2 * ranks + 1


def test_schedules_have_names() -> None:
    assert get_schedule_class("1F1B") is get_schedule_class("schedule1f1b".capitalize()) is Schedule1F1B
    assert get_schedule_class("ZBVZeroBubble") is ScheduleZBVZeroBubble
    with pytest.raises(rl.RushlightError, match="no schedule 'Fast'"):
        get_schedule_class("Fast")


def test_without_a_loss_results_are_the_models() -> None:
    def infer():
        rank = dist.get_rank()
        with rl.no_grad():
            return ScheduleGPipe(PipelineStage(Block(rank), rank, 2), 3).step(*((_batch()[0],) if rank == 0 else ()))

    nothing, out = dist.spawn(infer, 2)
    assert nothing is None
    rl.testing.assert_close(out, Block(1)(Block(0)(_batch()[0])).detach())


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("microbatches", [1, 2, 4, 8, 24])
def test_schedules_run_to_their_end(ranks: int, microbatches: int) -> None:
    """And 1F1B is as long as GPipe, and keeps fewer activations; zero bubbles are no longer, in thirds of the work."""
    long = check(gpipe(ranks, microbatches), ranks)
    assert check(one_forward_one_backward(ranks, microbatches), ranks) == long == 2 * (microbatches + ranks - 1)
    assert check(zero_bubble(ranks, microbatches), ranks) <= 3 * microbatches + 2 * (ranks - 1)
    if microbatches % ranks == 0:
        for stages in (1, 2, 3):
            check(interleaved(ranks, microbatches, stages), ranks * stages)
    kept = [_most_kept(row) for row in one_forward_one_backward(ranks, microbatches)]
    assert kept == [min(ranks - rank, microbatches) for rank in range(ranks)]


def _most_kept(row: list[Action]) -> int:
    kept = most = 0
    for action in row:
        kept += {"F": 1, "B": -1}[action.kind]
        most = max(most, kept)
    return most


def test_a_schedule_that_never_ends_is_refused() -> None:
    table = one_forward_one_backward(2, 2)
    table[1].reverse()
    with pytest.raises(rl.RushlightError) as found:
        check(table, 2)
    assert found.value.code == "W040" and "1B1" in str(found.value)
    table = gpipe(2, 2)
    table[0].pop()
    with pytest.raises(rl.RushlightError) as found:
        check(table, 2)
    assert found.value.code == "W040" and "0B1" in str(found.value)
    assert text_of(gpipe(1, 2)) == "rank 0: 0F0 0F1 0B0 0B1"
