"""A compiled training step gives the same bits as an eager one, in one graph for a whole schedule."""

import numpy as np
import pytest
from tests.optim import optimizer_cases as cases

import rushlight as rl
from rushlight import nn, optim

STEPS = 6


def train(make, compiled, schedule=True, between=None):
    """Return losses, parameters and state of a few steps, and how many graphs were compiled."""
    rng = np.random.Generator(np.random.PCG64(3))
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
    with rl.no_grad():
        for param in model.parameters():
            param.copy_(rl.tensor(rng.standard_normal(tuple(param.shape)).astype(np.float32)))
    optimizer = make(optim, list(model.parameters()))
    scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: min(1.0, epoch / 3))  # begins at a rate of 0

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    rl.compiler.reset()
    run = rl.compile(step) if compiled else step
    losses = []
    for at in range(STEPS):
        x = rl.tensor(rng.standard_normal((5, 4)).astype(np.float32))
        losses.append(run(x, rl.tensor([0, 1, 2, 1, 0])).item())
        if schedule:
            scheduler.step()
        if between is not None:
            between(at, optimizer)
    state = optimizer.state_dict()["state"]
    tensors = {f"{at}.{key}": value for at, entry in state.items() for key, value in entry.items() if value is not None}
    tensors |= {f"param.{at}": param.detach() for at, param in enumerate(model.parameters())}
    arrays = {
        key: np.asarray(value if isinstance(value, (int, float)) else value.numpy()) for key, value in tensors.items()
    }
    return losses, arrays, rl.compiler.graph_count()


def same(eager, compiled):
    assert eager[0] == compiled[0]
    assert eager[1].keys() == compiled[1].keys()
    for key, array in eager[1].items():
        np.testing.assert_array_equal(array, compiled[1][key], err_msg=key)


@pytest.mark.parametrize("name", ["adam", "sgd_momentum"])
def test_momenta_that_a_schedule_changes_are_run_time_numbers(name):
    cycles = []

    def one_cycle(module, params):
        optimizer = cases.OPTIMIZERS[name](module, params)
        cycles.append(optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=2 * STEPS))
        return optimizer

    def between(at, optimizer):
        cycles[-1].step()

    eager = train(one_cycle, compiled=False, schedule=False, between=between)
    compiled = train(one_cycle, compiled=True, schedule=False, between=between)
    same(eager, compiled)
    assert compiled[2] == 1


@pytest.mark.parametrize(
    "name", ["sgd", "sgd_momentum", "adam_amsgrad", "adamw", "adagrad", "rmsprop_centered", "groups"]
)
def test_compiled_steps_are_the_eager_ones_in_one_graph(name):
    eager = train(cases.OPTIMIZERS[name], compiled=False)
    compiled = train(cases.OPTIMIZERS[name], compiled=True)
    same(eager, compiled)
    assert compiled[2] == 1 and len(set(eager[0])) == STEPS


def test_switching_weight_decay_on_makes_a_second_graph():
    def switch(at, optimizer):
        if at == 2:
            optimizer.param_groups[0]["weight_decay"] = 0.1
        if at == 3:
            optimizer.param_groups[0]["weight_decay"] = 0.2

    eager = train(cases.OPTIMIZERS["sgd"], False, schedule=False, between=switch)
    compiled = train(cases.OPTIMIZERS["sgd"], True, schedule=False, between=switch)
    same(eager, compiled)
    assert compiled[2] == 2, "on and off are two programs; its value is a run-time number"


@pytest.mark.parametrize("fullgraph", [True, False])
def test_counts_of_steps_are_tensors_in_the_state_of_a_compiled_function(fullgraph: bool):
    weight = rl.ones(2, requires_grad=True)
    optimizer = optim.Adam([weight], lr=0.1)

    def step():
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
        return optimizer.state_dict()["state"][0]["step"]

    rl.compiler.reset()
    compiled = rl.compile(step, fullgraph=fullgraph)
    found = [compiled() for _ in range(10)]
    assert [(count.item(), count.dtype, count.shape) for count in found] == [
        (turn, rl.float32, ()) for turn in range(1, 11)
    ]
    assert rl.compiler.graph_count() <= 2


def test_an_optimizer_without_its_constructor_steps_in_a_compiled_function():
    class Wrapper(optim.Optimizer):
        def __init__(self, inner: optim.Optimizer) -> None:
            self.inner = inner

        def step(self, closure: object = None) -> None:
            self.inner.step()

    weight = rl.ones(2, requires_grad=True)
    wrapper = Wrapper(optim.SGD([weight], lr=0.25))

    @rl.compile
    def step():
        weight.sum().backward()
        wrapper.step()

    step()
    assert weight.tolist() == [0.75, 0.75]
