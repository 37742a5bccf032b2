"""Loops over a module's parameters that break in each turn: what is in the module is another tensor in each one.

A graph of such a loop takes the parameter as an argument; that the module, or its optimizer, holds it too matters only
where the graph looks into these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

MOST_GRAPHS = 6  # for 12 parameters


class Training:
    """A net of 12 parameters with gradients, and an optimizer that has made a step."""

    def __init__(self) -> None:
        rl.manual_seed(0)
        self.net = rl.nn.Sequential(*[rl.nn.Linear(3, 3) for _ in range(6)])
        self.optimizer = rl.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.loss().square().backward()
        self.optimizer.step()

    def loss(self) -> Any:
        return self.net(rl.ones(2, 3)).sum()


def pause() -> None:
    """What no graph holds."""
    print(end="")


def norms(training: Training) -> Any:
    found = {}
    for name, parameter in training.net.named_parameters():
        found[name] = parameter.detach().norm().item()
        pause()
    return found


def gradient_norms(training: Training) -> Any:
    found = []
    for parameter in training.net.parameters():
        pause()
        found.append(parameter.grad.norm().item())
    return found


def scaled_gradients(training: Training) -> Any:
    for parameter in training.net.parameters():
        norm = parameter.grad.norm()
        pause()
        parameter.grad.mul_(1 / (norm.item() + 1))


def other_gradients(training: Training) -> Any:
    for parameter in training.net.parameters():
        pause()
        parameter.grad = parameter.detach() * 2


def no_gradients(training: Training) -> Any:
    count = 0
    for parameter in training.net.parameters():
        pause()
        if parameter.grad is not None and parameter.grad.sum() > 0:
            parameter.grad = None
            count += 1
    return count


def updates(training: Training) -> Any:
    with rl.no_grad():
        for parameter in training.net.parameters():
            pause()
            parameter.add_(parameter.grad, alpha=-0.1)


def data(training: Training) -> Any:
    for parameter in training.net.parameters():
        pause()
        parameter.data.mul_(0.5)


def with_one_of_the_net(training: Training) -> Any:
    total = 0.0
    for parameter in training.net.parameters():
        pause()
        total += (parameter.sum() * training.net[2].bias.sum()).item()
    return total


def writes_before_one_of_the_net_is_read(training: Training) -> Any:
    with rl.no_grad():
        for parameter in training.net.parameters():
            pause()
            parameter.mul_(0.5)
            parameter.add_(training.net[2].bias.sum())


def identities(training: Training) -> Any:
    found = []
    for parameter in training.net.parameters():
        pause()
        found.append(
            (parameter is training.net[3].weight, any(parameter is each for each in training.net.parameters()))
        )
    return found


def momenta(training: Training) -> Any:
    found = []
    for parameter in training.net.parameters():
        pause()
        found.append(training.optimizer.state[parameter]["momentum_buffer"].norm().item())
    return found


def penalty(training: Training) -> Any:
    total: Any = 0
    for parameter in training.net.parameters():
        pause()
        total = total + parameter.square().sum()
    total.backward()


def backward_of_each(training: Training) -> Any:
    for parameter in training.net.parameters():
        pause()
        parameter.square().sum().backward()


def backward_through_the_net(training: Training) -> Any:
    for parameter in training.net.parameters():
        pause()
        (training.loss() * parameter.sum()).backward()


def backward_through_what_was_computed(training: Training) -> Any:
    loss = training.loss()
    for parameter in training.net.parameters():
        pause()
        (loss * parameter.sum()).backward(retain_graph=True)


def gradients_that_a_backward_pass_adds_to(training: Training) -> Any:
    found = []
    for parameter in training.net.parameters():
        loss = training.loss()
        pause()
        before = parameter.grad
        loss.backward()
        found.append((before is parameter.grad, parameter.grad.sum().item()))
    return found


def steps(training: Training) -> Any:
    found = []
    for parameter in training.net.parameters():
        pause()
        before = parameter.sum()
        training.optimizer.step()
        found.append((parameter.sum() - before).item())
    return found


def loads(training: Training) -> Any:
    state = {name: value * 2 for name, value in training.net.state_dict().items()}
    found = []
    for parameter in training.net.parameters():
        pause()
        before = parameter.sum()
        training.net.load_state_dict(state)
        found.append((parameter.sum() - before).item())
    return found


def clips(training: Training) -> Any:
    found = []
    for parameter in training.net.parameters():
        pause()
        before = parameter.grad.norm()
        rl.nn.utils.clip_grad_norm_(training.net.parameters(), 0.5)
        found.append((before - parameter.grad.norm()).item())
    return found


def gradients_that_the_optimizer_takes_away(training: Training) -> Any:
    found = []
    for parameter in training.net.parameters():
        pause()
        before = parameter.grad
        training.optimizer.zero_grad()
        found.append((before is None, parameter.grad is None))
        parameter.grad = parameter.detach()
    return found


LOOPS = [
    norms,
    gradient_norms,
    scaled_gradients,
    other_gradients,
    no_gradients,
    updates,
    data,
    with_one_of_the_net,
    writes_before_one_of_the_net_is_read,
    identities,
    momenta,
    penalty,
    backward_of_each,
    backward_through_the_net,
    backward_through_what_was_computed,
    gradients_that_a_backward_pass_adds_to,
    steps,
    loads,
    clips,
    gradients_that_the_optimizer_takes_away,
]


current = Training()


def outcome(call: Callable[[], Any]) -> Any:
    """What two calls give, and leave behind."""
    global current
    current = Training()
    results = [call(), call()]
    parameters = [*current.net.parameters()]
    gradients = [None if each.grad is None else each.grad.tolist() for each in parameters]
    return results, [each.tolist() for each in parameters], gradients


@pytest.mark.parametrize("loop", LOOPS)
def test_a_graph_serves_all_parameters_of_an_argument(loop: Callable[..., Any]) -> None:
    compiled = rl.compile(loop, fullgraph=False, backend="eager")
    assert outcome(lambda: compiled(current)) == outcome(lambda: loop(current))
    assert len(compiled.traces()) <= MOST_GRAPHS


@pytest.mark.parametrize("loop", LOOPS)
def test_a_graph_serves_all_parameters_of_a_global(loop: Callable[..., Any]) -> None:
    compiled = rl.compile(lambda: loop(current), fullgraph=False, backend="eager")
    assert outcome(compiled) == outcome(lambda: loop(current))
    assert len(compiled.traces()) <= MOST_GRAPHS
