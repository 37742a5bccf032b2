"""Distributions that are made before a graph break and used behind it, as in programs of reinforcement learning."""

from typing import Any

import pytest

import rushlight as rl
from rushlight.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Independent,
    Kumaraswamy,
    MixtureSameFamily,
    Normal,
    SigmoidTransform,
    TransformedDistribution,
)

MADE = {
    "Categorical": lambda x: Categorical(x.softmax(-1)),
    "Bernoulli": lambda x: Bernoulli(logits=x),
    "Normal": lambda x: Normal(x, x.exp()),
    "Independent": lambda x: Independent(Normal(x, x.exp()), 1),
}


@pytest.mark.parametrize("name", MADE)
def test_a_new_distribution_behind_a_break_makes_no_further_graphs(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = MADE[name]

    def program(x: rl.Tensor, value: rl.Tensor) -> rl.Tensor:
        found: Distribution = made(x)
        print("made")
        return found.log_prob(value)

    rl.compiler.reset()
    compiled = rl.compile(program)
    graphs = 0
    values = rl.tensor(1) if name == "Categorical" else rl.ones(3)
    for count in range(6):
        x = rl.randn(3, requires_grad=True)
        y = x.detach().requires_grad_()
        actual, expected = compiled(x, values), program(y, values)
        actual.sum().backward()
        expected.sum().backward()
        assert rl.equal(actual, expected)
        assert rl.equal(x.grad, y.grad)
        if count == 1:
            graphs = rl.compiler.graph_count()
    assert rl.compiler.graph_count() == graphs <= 3
    assert capsys.readouterr().out == "made\n" * 12


def test_actions_and_their_log_probabilities_are_kept_without_further_graphs() -> None:
    rl.compiler.reset()
    kept: list[rl.Tensor] = []

    @rl.compile
    def act(x: rl.Tensor) -> float:
        chances = Categorical(x.softmax(-1))
        action = chances.sample()
        kept.append(chances.log_prob(action))
        return action.item()

    for _ in range(10):
        act(rl.randn(3, requires_grad=True))
    assert rl.compiler.graph_count() <= 3
    assert len(kept) == 10
    assert all(one.requires_grad and one.item() < 0 for one in kept)


def test_shapes_behind_a_break_are_numbers_of_each_call() -> None:
    @rl.compile
    def shapes(x: rl.Tensor) -> tuple[object, ...]:
        found = Independent(Normal(x, x.exp()), 1)
        print(end="")
        return found.batch_shape, found.event_shape, found.base_dist.batch_shape, found.variance

    for rows in (4, 5, 6):
        batch, event, base, variance = shapes(rl.ones(rows, 3))
        assert (batch, event, base) == ((rows,), (3,), (rows, 3))
        assert all(type(size) is int for shape in (batch, event, base) for size in shape)
        assert variance.shape == (rows, 3)


def test_a_constraint_that_a_property_makes_is_new_in_each_graph():
    def told(distribution: Any, value: rl.Tensor) -> Any:
        return value + 1, distribution.support.base_constraint, repr(distribution.support)

    mixture = MixtureSameFamily(Categorical(logits=rl.tensor([0.1, 0.2])), Normal(rl.ones(2), 1))
    for fullgraph in (False, True):
        result, base, text = rl.compile(told, backend="eager", fullgraph=fullgraph)(mixture, rl.zeros(2))
        assert (result.tolist(), base, text) == ([1.0, 1.0], mixture.support.base_constraint, repr(mixture.support))


FILLED = {
    "chances of logits": lambda: Bernoulli(logits=rl.tensor([0.3, 0.4])),
    "chances of a mixture": lambda: MixtureSameFamily(Categorical(logits=rl.tensor([0.1, 0.2])), Normal(rl.ones(2), 1)),
    "a cached transform": lambda: TransformedDistribution(Normal(0.0, 1.0), [SigmoidTransform(cache_size=1)]),
    "inverses": lambda: Kumaraswamy(rl.tensor(0.5), rl.tensor(2.0)),
}


def used(distribution: Any, value: rl.Tensor) -> list[rl.Tensor]:
    """What a distribution keeps, and what it computes of that."""
    kept = [getattr(distribution, name) for name in ("probs", "logits") if hasattr(distribution, name)]
    return [distribution.log_prob(value), *kept]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", FILLED)
def test_what_a_distribution_computes_once_is_its_own_behind_a_graph(name: str, fullgraph: bool) -> None:
    value = rl.tensor([1.0, 0.0] if name == "chances of logits" else [0.5, 0.25])
    distribution, expected = FILLED[name](), used(FILLED[name](), value)
    compiled = rl.compile(used, backend="eager", fullgraph=fullgraph)
    for found in (compiled(distribution, value), used(distribution, value), compiled(distribution, value)):
        assert [one.tolist() for one in found] == [one.tolist() for one in expected]
