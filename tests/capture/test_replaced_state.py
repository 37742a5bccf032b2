"""State that a program reads and puts other tensors in the place of is what it is at each call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from tensors import same

Run = Callable[[Any], Any]
shown: Any = None


class Recurrent(nn.Module):
    """A module with state."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.h: Any = rl.zeros(3)
        self.other: Any = self.h
        self.log: dict[str, Any] = {"h": rl.zeros(3)}
        self.items = [rl.zeros(3)]
        self.w = rl.linspace(1, 2, 3).requires_grad_()

    def forward(self, x: Any) -> Any:
        return KINDS[self.kind](self, x)


def attribute(net: Recurrent, x: Any) -> Any:
    net.h = net.h * 0.5 + x
    return net.h * 2


def entry(net: Recurrent, x: Any) -> Any:
    net.log["h"] = net.log["h"] + x
    return net.log["h"] * 2


def item(net: Recurrent, x: Any) -> Any:
    net.items[0] = net.items[0] + x
    return net.items[0] * 2


def old_value(net: Recurrent, x: Any) -> Any:
    old = net.h
    net.h = x * 1
    return old


def view_of_old(net: Recurrent, x: Any) -> Any:
    old = net.h
    net.h = x * 1
    return old[1:]


def swapped(net: Recurrent, x: Any) -> Any:
    net.h, net.log["h"] = net.log["h"], net.h + x
    return net.h * 1


def also_written(net: Recurrent, x: Any) -> Any:
    net.h.add_(x)
    net.h = net.h * 2
    return net.h * 1


def kept_beside(net: Recurrent, x: Any) -> Any:
    net.other = net.h
    net.h = net.h + x
    return net.other * 1


def asked_for_its_form(net: Recurrent, x: Any) -> Any:
    net.h = x * 1 if net.h.dtype is not x.dtype or net.h.shape[0] < 4 else rl.zeros(3)
    return net.h * 1 if net.h.shape[0] < 4 else net.h * 2


def grown(net: Recurrent, x: Any) -> Any:
    net.h = rl.cat([net.h, x])[:9]
    return net.h * 2


def with_gradient(net: Recurrent, x: Any) -> Any:
    net.h = (net.h * net.w + x).detach()
    return net.h * net.w


def argument_is_kept(net: Recurrent, x: Any) -> Any:
    y = net.h + x
    net.h = x
    return y


KINDS: dict[str, Callable[[Recurrent, Any], Any]] = {
    function.__name__: function
    for function in (
        attribute,
        entry,
        item,
        old_value,
        view_of_old,
        swapped,
        also_written,
        kept_beside,
        asked_for_its_form,
        grown,
        with_gradient,
        argument_is_kept,
    )
}
# Of four calls, where it is said: one more where the tensor is found in two places at first.
GRAPHS = {"attribute": 2, "entry": 1, "item": 1, "old_value": 2, "with_gradient": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_read_at_each_call(kind: str) -> None:
    rl.compiler.reset()
    found: list[Any] = []
    for wrap in (lambda net: net, rl.compile):
        net = Recurrent(kind)
        run = wrap(net)
        for number in range(4):
            result = run(rl.full((3,), number + 1.0))
            found.append([result.detach().clone(), net.h.clone(), net.log["h"].clone(), net.items[0].clone()])
    half = len(found) // 2
    for eager, compiled in zip(found[:half], found[half:], strict=True):
        assert same(eager, compiled)
    assert rl.compiler.graph_count() == GRAPHS.get(kind, rl.compiler.graph_count())


def test_variables_are_read_at_each_call() -> None:
    total = rl.zeros(3)

    def step(x: Any) -> None:
        global shown
        nonlocal total
        total = total + x
        shown = total if shown is None else shown + x

    compiled = rl.compile(step)
    for number in range(1, 5):
        compiled(rl.full((3,), number))
        assert total.tolist() == [number * (number + 1) / 2] * 3
        assert shown.tolist() == total.tolist()


def test_an_argument_may_share_memory_with_what_was_kept() -> None:
    net = Recurrent("argument_is_kept")

    def step(x: Any) -> Any:
        y = net.h + x
        x.add_(1)
        net.h = x
        return y

    compiled = rl.compile(step)
    x, other = rl.zeros(3), rl.ones(3)
    assert compiled(x).tolist() == [0.0] * 3
    assert compiled(other).tolist() == [2.0] * 3
    assert compiled(other).tolist() == [4.0] * 3  # the state is the argument
    assert compiled(x).tolist() == [4.0] * 3
    assert net.h is x and x.tolist() == [2.0] * 3


def batch(turn: int) -> Any:
    return rl.tensor(np.random.default_rng(turn).standard_normal((4, 3)).astype(np.float32))


OF_SCHEDULES: dict[str, Callable[[Any], object]] = {
    "method of ours": lambda held: held[0].get_last_lr()[0],
    "attribute": lambda held: list(held[0]._last_lr),
    "variables": lambda held: [*held[0].__dict__["_last_lr"]],
    "copy": lambda held: copy.copy(held[0])._last_lr,
}


@pytest.mark.parametrize("what", OF_SCHEDULES)
def test_rates_of_schedules_are_those_of_each_turn(what: str) -> None:
    read = OF_SCHEDULES[what]

    def train(turns: int) -> list[object]:
        weight = nn.Parameter(rl.ones(3))
        optimizer = rl.optim.SGD([weight], lr=0.05)
        held = [rl.optim.lr_scheduler.StepLR(optimizer, 2), rl.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)]
        seen: list[object] = []
        for turn in range(turns):
            loss = (batch(turn) * weight).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for schedule in held:
                schedule.step()
            seen.append((loss.item(), read(held)))
        return seen

    assert rl.compile(train, backend="eager")(13) == train(13)


def test_a_group_of_an_optimizer_may_have_another_name_at_each_turn() -> None:
    def train(turns: int) -> list[object]:
        weight = nn.Parameter(rl.ones(3))
        optimizer = rl.optim.SGD([weight], lr=0.05)
        seen: list[object] = []
        for turn in range(turns):
            optimizer.param_groups[0]["name"] = f"turn {turn}"
            loss = (batch(turn) * weight).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append((loss.item(), optimizer.param_groups[0]["name"]))
        return seen

    assert rl.compile(train, backend="eager")(13) == train(13)
