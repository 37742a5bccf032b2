"""Data parallelism: many ranks with parts of a batch are one process with all of it."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.compiler import compiled_autograd
from rushlight.distributed.tensor import init_device_mesh
from rushlight.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from rushlight.nn.parallel import DistributedDataParallel

WORLD = 2


class Net(rl.nn.Module):
    """Two branches, of which a call may leave one out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = rl.nn.Linear(4, 8)
        self.second = rl.nn.Linear(8, 3)
        self.other = rl.nn.Linear(8, 3)

    def forward(self, x, other: bool = False, both: bool = False):
        h = self.first(x).relu()
        if both:
            return self.second(h) + self.other(h)
        return self.other(h) if other else self.second(h)


def _net(seed: int = 0) -> Net:
    rl.manual_seed(seed)
    return Net().double()


def _batch(step: int) -> rl.Tensor:
    return (rl.arange(8.0 * WORLD, dtype=rl.float64).view(2 * WORLD, 4) * (step + 1)).sin()


def _alone(steps: int, call) -> list[list[float]]:
    model = _net()
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        call(model, _batch(step)).square().mean().backward()
        optimizer.step()
    return [one.detach().tolist() for one in model.parameters()]


def _close(one: list, other: list) -> None:
    for left, right in zip(one, other, strict=True):
        rl.testing.assert_close(rl.tensor(left), rl.tensor(right), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("cap", [None, 1e-4])
def test_the_mean_of_parts_is_the_step_of_the_whole(cap, set_to_none: bool) -> None:
    def train():
        rank = dist.get_rank()
        model = DistributedDataParallel(_net(rank), bucket_cap_mb=cap)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad(set_to_none=set_to_none)
            part = _batch(step)[2 * rank : 2 * rank + 2]
            model(part, both=True).square().mean().backward()
            optimizer.step()
        views = {id(one.grad.untyped_storage()) for one in model.parameters() if one.grad is not None}
        return [one.detach().tolist() for one in model.parameters()], len(views), len(model.reducer.buckets)

    first, second = dist.spawn(train, WORLD)
    assert first[0] == second[0]
    _close(first[0], _alone(3, lambda model, x: model(x, both=True)))
    assert (first[2] == 1) == (cap is None)


def test_gradients_added_up_without_sending_are_sent_once() -> None:
    def train():
        model = DistributedDataParallel(_net())
        rank = dist.get_rank()
        x = _batch(0)[2 * rank : 2 * rank + 2]
        with model.no_sync():
            model(x[:1], both=True).square().sum().backward()
        alone = model.module.first.weight.grad.clone()
        model(x[1:], both=True).square().sum().backward()
        return alone.tolist(), model.module.first.weight.grad.tolist()

    (one, sent), (two, other) = dist.spawn(train, WORLD)
    assert one != two and sent == other
    model = _net()
    model(_batch(0), both=True).square().sum().backward()
    _close([sent], [(model.first.weight.grad / WORLD).tolist()])


def test_parameters_that_a_rank_leaves_out() -> None:
    """One rank uses a branch, the other does not; a third one is used by none, and has no gradient."""

    def train():
        net = _net()
        net.spare = rl.nn.Linear(1, 1)
        model = DistributedDataParallel(net, find_unused_parameters=True)
        for _ in range(2):
            model.zero_grad()
            model(_batch(0), other=dist.get_rank() == 1).square().sum().backward()
        assert net.spare.weight.grad is None
        return net.second.weight.grad.tolist(), net.other.weight.grad.tolist()

    first, second = dist.spawn(train, WORLD)
    assert first == second
    model = _net()
    model(_batch(0)).square().sum().backward()
    _close([first[0]], [(model.second.weight.grad / 2).tolist()])


def test_a_gradient_that_never_comes_is_named() -> None:
    def train():
        model = DistributedDataParallel(_net())
        model(_batch(0)).sum().backward()
        model(_batch(0))

    with pytest.raises(rl.RushlightError, match="never came") as found:
        dist.spawn(train, WORLD)
    assert found.value.code == "W006" and "other.weight" in str(found.value)


def test_models_that_differ_are_refused() -> None:
    def wrap():
        DistributedDataParallel(rl.nn.Linear(2, 2 + dist.get_rank()))

    with pytest.raises(rl.RushlightError) as found:
        dist.spawn(wrap, WORLD)
    assert found.value.code == "W002"


def test_divided_parameters_are_refused() -> None:
    def wrap():
        mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
        model = parallelize_module(rl.nn.Sequential(rl.nn.Linear(4, 4)), mesh["tp"], {"0": ColwiseParallel()})
        DistributedDataParallel(model, process_group=mesh.get_group("dp"))

    with pytest.raises(rl.RushlightError, match="hold other tensors") as found:
        dist.spawn(wrap, 2)
    assert found.value.code == "A006"


def test_without_a_group_there_is_an_error() -> None:
    with pytest.raises(rl.RushlightError) as found:
        DistributedDataParallel(rl.nn.Linear(2, 2))
    assert found.value.code == "W001"


def test_buffers_are_those_of_the_first_rank() -> None:
    def train():
        net = rl.nn.BatchNorm1d(4).double()
        net.running_mean += dist.get_rank()
        model = DistributedDataParallel(net)
        assert net.running_mean.tolist() == [0] * 4
        model(_batch(dist.get_rank())).sum().backward()
        own = net.running_mean.tolist()
        model(_batch(0))
        return own, net.running_mean.tolist()

    (one, _), (two, _) = dist.spawn(train, WORLD)
    assert one != two


def test_a_hook_reduces_buckets_itself() -> None:
    def train():
        model = DistributedDataParallel(_net())
        seen = []

        def hook(state, bucket):
            seen.append((bucket.index(), bucket.is_last(), len(bucket.gradients())))
            total = bucket.buffer().clone()
            dist.all_reduce(total)
            return total * state

        model.register_comm_hook(10.0, hook)
        model(_batch(0), both=True).square().sum().backward()
        return seen, model.module.second.bias.grad.tolist()

    (seen, one), (_, two) = dist.spawn(train, WORLD)
    assert seen == [(0, True, 8)] or len(seen) == 1
    model = _net()
    model(_batch(0), both=True).square().sum().backward()
    _close([one], [(model.second.bias.grad * 20).tolist()])
    assert one == two


@pytest.mark.parametrize("inside", [True, False])
def test_compiled_models_train_alike(inside: bool) -> None:
    def train():
        rank = dist.get_rank()
        net = _net()
        model = DistributedDataParallel(rl.compile(net) if inside else net)
        call = model if inside else rl.compile(model)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad()
            call(_batch(step)[2 * rank : 2 * rank + 2], both=True).square().mean().backward()
            optimizer.step()
        return [one.detach().tolist() for one in model.parameters()]

    first, second = dist.spawn(train, WORLD)
    assert first == second
    _close(first, _alone(3, lambda model, x: model(x, both=True)))


@pytest.mark.row("8.10")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_backward_pass_that_is_compiled_reduces_too(compiled: bool) -> None:
    """Hooks and collectives are part of its program: the same gradients, and one program for all steps."""

    def train():
        rank = dist.get_rank()
        model = DistributedDataParallel(_net(), bucket_cap_mb=1e-4)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad()
            with compiled_autograd.override(compiled):
                model(_batch(step)[2 * rank : 2 * rank + 2], both=True).square().mean().backward()
            optimizer.step()
        return [one.detach().tolist() for one in model.parameters()]

    compiled_autograd.reset()
    first, second = dist.spawn(train, WORLD)
    assert first == second and (compiled_autograd.program_count() > 0) == compiled
    _close(first, _alone(3, lambda model, x: model(x, both=True)))
