"""Ranks with different numbers of inputs: `DistributedDataParallel.join` and `Join`."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.distributed.optim import ZeroRedundancyOptimizer
from rushlight.nn.parallel import DistributedDataParallel

COUNTS = [(3, 5), (5, 3), (4, 4), (0, 2), (2, 0), (0, 0)]


def model():
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.Tanh(), rl.nn.Linear(4, 1)).double()


def batch(rank: int, step: int):
    return rl.arange(6.0, dtype=rl.float64).view(2, 3).add(10 * rank + step).sin()


def reference(counts, by_all: bool):
    """One process: in each step the sum of the gradients of those that have inputs, divided."""
    one = model()
    optimizer = rl.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
    for step in range(max(counts)):
        active = [rank for rank, count in enumerate(counts) if step < count]
        optimizer.zero_grad()
        for rank in active:
            (one(batch(rank, step)).square().mean() / (len(counts) if by_all else len(active))).backward()
        optimizer.step()
    return [parameter.detach() for parameter in one.parameters()]


def train(counts, by_all: bool, options, hook: bool = False, bucket: float | None = None):
    wrapped = DistributedDataParallel(model(), bucket_cap_mb=bucket, **options)
    if hook:
        wrapped.register_comm_hook(None, allreduce_hook)
    optimizer = rl.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9)
    with wrapped.join(divide_by_initial_world_size=by_all):
        for step in range(counts[dist.get_rank()]):
            optimizer.zero_grad()
            wrapped(batch(dist.get_rank(), step)).square().mean().backward()
            optimizer.step()
    return [parameter.detach() for parameter in wrapped.parameters()]


@pytest.mark.parametrize("by_all", [True, False])
@pytest.mark.parametrize("counts", [*COUNTS, (1, 4, 2)])
def test_all_ranks_end_with_the_model_of_one_process(counts, by_all: bool) -> None:
    wanted = reference(counts, by_all)
    for found in dist.spawn(train, len(counts), (counts, by_all, {})):
        assert all(rl.allclose(one, other, rtol=1e-12) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("options", [{"find_unused_parameters": True}, {"broadcast_buffers": False}])
@pytest.mark.parametrize("hook", [False, True])
def test_options_hooks_and_small_buckets(options, hook: bool) -> None:
    counts = (2, 4)
    wanted = reference(counts, True)
    for found in dist.spawn(train, 2, (counts, True, options, hook, 1e-5)):
        assert all(rl.allclose(one, other, rtol=1e-12) for one, other in zip(found, wanted, strict=True))


class Unused(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rl.manual_seed(0)
        self.a, self.b = rl.nn.Linear(3, 1), rl.nn.Linear(3, 1)

    def forward(self, x):
        return self.a(x)


def test_parameters_that_no_rank_uses_get_no_gradient() -> None:
    def run():
        wrapped = DistributedDataParallel(Unused(), find_unused_parameters=True)
        with wrapped.join():
            for step in range(1 + 2 * dist.get_rank()):
                wrapped.zero_grad()
                wrapped(batch(0, step).float()).sum().backward()
        return wrapped.module.b.weight.grad, wrapped.module.a.weight.grad is not None

    assert dist.spawn(run, 2) == [(None, True)] * 2


def test_buffers_are_those_of_a_rank_that_has_inputs() -> None:
    def run():
        norm = DistributedDataParallel(rl.nn.Sequential(rl.nn.BatchNorm1d(3)))
        with norm.join():
            for step in range(1 + 2 * dist.get_rank()):
                norm(batch(1, step).float()).sum().backward()
        return norm.module[0].running_mean, norm.module[0].num_batches_tracked.item()

    (one, first), (other, second) = dist.spawn(run, 2)
    assert rl.equal(one, other) and first == second == 3


@pytest.mark.parametrize("by_all", [True, False])
def test_an_optimizer_of_shares_goes_on_without_inputs(by_all: bool) -> None:
    counts = (1, 4)

    def run():
        wrapped = DistributedDataParallel(model())
        optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), rl.optim.SGD, lr=0.1, momentum=0.9)
        with Join([wrapped, optimizer], divide_by_initial_world_size=by_all):
            for step in range(counts[dist.get_rank()]):
                optimizer.zero_grad()
                wrapped(batch(dist.get_rank(), step)).square().mean().backward()
                optimizer.step()
        return [parameter.detach() for parameter in wrapped.parameters()]

    wanted = reference(counts, by_all)
    for found in dist.spawn(run, 2):
        assert all(rl.allclose(one, other, rtol=1e-12) for one, other in zip(found, wanted, strict=True))


def test_all_ranks_fail_when_one_has_no_input_left() -> None:
    def run():
        wrapped = DistributedDataParallel(model())
        done = 0
        ends = wrapped.join(throw_on_early_termination=True)
        with pytest.raises(RuntimeError, match="no inputs left") as found, ends:
            for step in range(2 + dist.get_rank()):
                wrapped(batch(0, step)).sum().backward()
                done += 1
        return found.value.code, done

    assert dist.spawn(run, 2) == [("W004", 2)] * 2


def test_without_enable_nothing_is_told() -> None:
    def run():
        wrapped = DistributedDataParallel(model())
        with wrapped.join(enable=False):
            wrapped(batch(0, 0)).sum().backward()
        return dist.group.WORLD.engine._sequence

    def plain():
        DistributedDataParallel(model())(batch(0, 0)).sum().backward()
        return dist.group.WORLD.engine._sequence

    assert dist.spawn(run, 2) == dist.spawn(plain, 2)


class Counter(Joinable):
    """The class of PyTorch's tutorial: counts the inputs of all ranks."""

    def __init__(self, sync_max_count: bool) -> None:
        self.count = rl.zeros(1)
        self.max_count = rl.zeros(1)
        self.sync_max_count = sync_max_count

    def __call__(self) -> None:
        Join.notify_join_context(self)
        one = rl.ones(1)
        dist.all_reduce(one)
        self.count += one

    def join_hook(self, **kwargs):
        return CounterHook(self)

    @property
    def join_device(self):
        return rl.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD


class CounterHook(JoinHook):
    def __init__(self, counter) -> None:
        self.counter = counter

    def main_hook(self) -> None:
        dist.all_reduce(rl.zeros(1))

    def post_hook(self, is_last_joiner: bool) -> None:
        root = rl.tensor([dist.get_rank() if is_last_joiner else -1])
        dist.all_reduce(root, dist.ReduceOp.MAX)
        if is_last_joiner:
            self.counter.max_count += self.counter.count
        dist.broadcast(self.counter.max_count, int(root.item()))


def test_a_programs_own_joinable() -> None:
    def run():
        counter = Counter(True)
        with Join([counter]):
            for _ in range(5 + dist.get_rank()):
                counter()
        return counter.count.item(), counter.max_count.item()

    assert dist.spawn(run, 2) == [(10, 11), (11, 11)]


def test_misuse_is_said() -> None:
    def run():
        with pytest.raises(rl.RushlightError, match="joinables are expected"):
            Join([])
        with pytest.raises(rl.RushlightError, match="joinables are expected"):
            Join([rl.nn.Linear(2, 2)])
        one = DistributedDataParallel(model())
        other = DistributedDataParallel(model(), process_group=dist.new_group([0, 1]))
        with pytest.raises(rl.RushlightError, match="of one process group"):
            Join([one, other])

    dist.spawn(run, 2)
