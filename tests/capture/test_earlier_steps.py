"""A graph of a part runs no step of the tape that was recorded before it: that would free what the step has saved."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import rushlight as rl

STEP = [0]
X = rl.ones(3, 4)
OBJECT = SimpleNamespace()


class Keeping(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = rl.nn.Linear(4, 2)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        self.loss = self.layer(x).square().mean()
        return self.loss


def breaks() -> None:
    print(end="")


def in_a_global(net: Keeping) -> None:
    global loss
    loss = net.layer(X).square().mean()
    breaks()
    loss.backward()


def in_an_object(net: Keeping, held: Any = OBJECT) -> None:
    held.loss = net.layer(X).square().mean()
    breaks()
    held.loss.backward()


def in_a_dict(net: Keeping, held: dict[str, rl.Tensor] = {}) -> None:  # noqa: B006 - that it stays is the point
    held["loss"] = net.layer(X).square().mean()
    breaks()
    held["loss"].backward()


def in_the_module(net: Keeping) -> None:
    net(X)
    breaks()
    (net.loss * 2).backward()


def in_a_variable_of_a_closure(net: Keeping) -> None:
    kept: Any = None

    def compute() -> None:
        nonlocal kept
        kept = net(X)

    compute()
    breaks()
    kept.backward()


def with_other_results(net: Keeping) -> None:
    global loss, out
    out = net.layer(X)
    loss = out.square().mean()
    if STEP[0] % 3 == 0:
        breaks()
    net.zero_grad()
    loss.backward()
    STEP[0] += out.numel() - 5


PROGRAMS = (in_a_global, in_an_object, in_a_dict, in_the_module, in_a_variable_of_a_closure, with_other_results)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_loss_in_state_is_back_propagated_behind_a_break(program: Callable[[Keeping], None]) -> None:
    found = []
    for way in (lambda program: program, rl.compile):
        rl.manual_seed(0)
        globals().pop("loss", None)
        STEP[0] = 0
        net = Keeping()
        call = way(program)
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for _ in range(7):
            call(net)
            losses.append([parameter.grad.tolist() for parameter in net.parameters()])
            optimizer.step()
        found.append(losses)
    assert found[0] == found[1]
