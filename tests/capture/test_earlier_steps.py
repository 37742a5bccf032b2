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


def _made() -> tuple[rl.Tensor, rl.Tensor]:
    leaf = rl.tensor([1.0, 2.0, 3.0]).requires_grad_()
    return leaf, leaf * leaf


def only_unused(leaf: rl.Tensor, earlier: rl.Tensor) -> object:
    """Asks for what an argument was computed from, where nothing else leads there."""
    return rl.autograd.grad(earlier.sum(), leaf, allow_unused=True)[0]


def materialized(leaf: rl.Tensor, earlier: rl.Tensor) -> object:
    """As `only_unused`, with zeros where nothing leads there."""
    return rl.autograd.grad(earlier.sum(), leaf, materialize_grads=True)[0]


def both_ways(leaf: rl.Tensor, earlier: rl.Tensor) -> object:
    """One way leads through the graph, and one through the argument's history."""
    return rl.autograd.grad((earlier * leaf).sum(), leaf)[0]


def of_both(leaf: rl.Tensor, earlier: rl.Tensor) -> object:
    """Asks for the gradient of an argument and of what it was computed from."""
    return [g.tolist() for g in rl.autograd.grad((earlier * leaf).sum(), (leaf, earlier))]


def accumulated(leaf: rl.Tensor, earlier: rl.Tensor) -> object:
    """Has the gradient of one leaf accumulated."""
    (earlier * leaf).sum().backward(inputs=[leaf])
    return leaf.grad


def of_the_argument(leaf: rl.Tensor, earlier: rl.Tensor) -> object:
    """Asks for the gradient of the argument alone, behind which nothing is wanted."""
    return rl.autograd.grad((earlier.sin() * 2).sum(), earlier)[0]


@pytest.mark.parametrize("options", [{}, {"backend": "eager"}], ids=["compiled", "eager"])
@pytest.mark.parametrize(
    "function", [only_unused, materialized, both_ways, of_both, accumulated, of_the_argument], ids=lambda f: f.__name__
)
def test_gradients_lead_through_what_arguments_were_computed_from(
    function: Callable[[rl.Tensor, rl.Tensor], object], options: dict[str, Any]
) -> None:
    compiled = rl.compile(function, **options)
    for _ in range(3):
        found, expected = compiled(*_made()), function(*_made())
        assert str(found) == str(expected)
    whole = rl.compile(function, fullgraph=True, **options)
    if function is of_the_argument:
        assert str(whole(*_made())) == str(function(*_made()))
    else:
        with pytest.raises(rl.RushlightError) as error:
            whole(*_made())
        assert error.value.code == "G017"


def test_gradients_lead_through_earlier_graphs_to_leaves_of_the_function() -> None:
    def function() -> list[float]:
        leaf = rl.ones(3).requires_grad_()
        earlier = leaf * leaf
        float(earlier.detach().sum())  # ends a graph
        return rl.autograd.grad([earlier.sum()], [leaf], allow_unused=True)[0].tolist()

    assert rl.compile(function, backend="eager")() == function()
