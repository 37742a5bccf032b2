"""An optimizer whose state is divided among ranks takes the steps of the plain one, and its state is put together."""

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.optim import ZeroRedundancyOptimizer
from rushlight.support.errors import RushlightError


def make():
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(4, 16), rl.nn.ReLU(), rl.nn.Linear(16, 3), rl.nn.ReLU(), rl.nn.Linear(3, 1))


def steps(model, optimizer, count, scheduler=None):
    for step in range(count):
        optimizer.zero_grad()
        model(rl.arange(16.0).view(4, 4) / (step + 3)).square().mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def plain(count):
    model = make()
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    steps(model, optimizer, count, rl.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))
    return [one.detach() for one in model.parameters()], optimizer.state_dict()


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_steps_have_the_bits_of_the_plain_optimizer(ranks: int):
    def train():
        model = make()  # the mean of three equal gradients would be rounded
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=rl.optim.AdamW, lr=0.1)
        steps(model, optimizer, 3, rl.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))
        own = 0 if optimizer.optim is None else sum(len(one) > 0 for one in optimizer.optim.state.values())
        optimizer.consolidate_state_dict(to=ranks - 1)
        whole = optimizer.state_dict() if dist.get_rank() == ranks - 1 else None
        return [one.detach() for one in model.parameters()], own, whole

    found = dist.spawn(train, ranks)
    parameters, state = plain(3)
    for mine, _, _ in found:
        assert all(map(rl.equal, mine, parameters))
    assert sum(own for _, own, _ in found) == len(parameters), "each state is at one rank"
    whole = found[-1][2]
    assert whole.keys() == state.keys() and whole["state"].keys() == state["state"].keys()
    for number, entry in state["state"].items():
        assert rl.equal(whole["state"][number]["exp_avg"], entry["exp_avg"])
    assert whole["param_groups"][0]["lr"] == state["param_groups"][0]["lr"]


def test_it_goes_on_from_the_state_of_the_plain_optimizer():
    parameters, _ = plain(3)

    def go_on():
        before = make()
        optimizer = rl.optim.AdamW(before.parameters(), lr=0.1)
        steps(before, optimizer, 2, rl.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))
        model = make()
        model.load_state_dict(before.state_dict())
        divided = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=rl.optim.AdamW, lr=0.1)
        divided.load_state_dict(optimizer.state_dict())
        divided.zero_grad()
        model(rl.arange(16.0).view(4, 4) / 5).square().mean().backward()
        divided.step()
        return [one.detach() for one in model.parameters()]

    for mine in dist.spawn(go_on, 2):
        assert all(map(rl.equal, mine, parameters))


def test_the_state_of_all_is_asked_for_first():
    def ask():
        optimizer = ZeroRedundancyOptimizer(make().parameters(), optimizer_class=rl.optim.SGD, lr=0.1)
        with pytest.raises(RushlightError, match="the state is divided") as caught:
            optimizer.state_dict()
        return caught.value.code

    assert dist.spawn(ask, 2) == ["A002"] * 2
