"""ShardedGradScaler: ranks leave a step out together, whoever has a gradient that is not finite."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.amp import GradScaler
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


def train(kind, bad: int | None, group=None):
    """Two steps of which the first has an infinite gradient on rank `bad`: the scale, and whether weights changed."""
    rl.manual_seed(0)
    model = rl.nn.Linear(3, 4)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    scaler = kind("cpu", init_scale=8.0, growth_interval=1, **({"process_group": group} if group else {}))
    moved = []
    for step in range(2):
        optimizer.zero_grad()
        before = model.weight.detach().clone()
        loss = model(rl.ones(2, 3)).sum()
        if step == 0 and dist.get_rank() == bad:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        moved.append(not rl.equal(before, model.weight))
    return scaler.get_scale(), moved


def test_all_ranks_leave_out_the_step_that_one_cannot_take() -> None:
    assert dist.spawn(train, 3, (ShardedGradScaler, 1)) == [(8.0, [False, True])] * 3
    assert dist.spawn(train, 2, (ShardedGradScaler, None)) == [(32.0, [True, True])] * 2
    assert dist.spawn(train, 2, (GradScaler, 1)) == [(32.0, [True, True]), (8.0, [False, True])]


def test_ranks_of_another_group_go_on() -> None:
    def run():
        own, _ = dist.new_subgroups(2)
        return train(ShardedGradScaler, 1, own)

    assert dist.spawn(run, 4) == [(8.0, [False, True])] * 2 + [(32.0, [True, True])] * 2


@pytest.mark.parametrize("bad", [0, 1, None])
def test_gradients_that_are_divided_are_looked_at_where_they_lie(bad: int | None) -> None:
    def run():
        rl.manual_seed(0)
        model = fully_shard(rl.nn.Linear(3, 5))
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
        scaler = ShardedGradScaler("cpu", init_scale=4.0)
        scaler.scale(model(rl.ones(2, 3)).sum()).backward()
        if dist.get_rank() == bad:
            model.weight.grad.to_local()[0, 0] = float("nan")
        before = model.weight.to_local().clone()
        scaler.unscale_(optimizer)
        gradient = model.bias.grad.to_local().tolist()
        scaler.step(optimizer)
        scaler.update()
        return scaler.get_scale(), rl.equal(before, model.weight.to_local()), gradient

    for scale, stayed, gradient in dist.spawn(run, 2):
        assert (scale, stayed) == ((2.0, True) if bad is not None else (4.0, False))
        assert all(one == pytest.approx(2.0) for one in gradient)
