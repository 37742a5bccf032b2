"""Which tensor is which, in dicts, sets and comparisons of a compiled function: the answers are eager code's."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.support.errors import CompileError

FIRST, SECOND = rl.ones(2), rl.zeros(2)
TABLE = {FIRST: 5}
HELD = {FIRST}


def looked_up(x: Any, table: Any) -> Any:
    return x + TABLE.get(x, 0) + table.get(x, 0)


def found(x: Any, table: Any) -> Any:
    return x + (1 if x in TABLE else 0) + (2 if x in HELD else 0) + (4 if x in table else 0)


def in_tuples(x: Any, table: Any) -> Any:
    return x + (1 if (x, 1) in {(FIRST, 1): 2} else 0)


def gathered(x: Any, table: Any) -> Any:
    kept = set(filter(lambda value: value is not None, [x, FIRST]))
    return x + len({*table, x}) + len(kept) + len(dict(zip([x, SECOND], "ab", strict=True)))


def put(x: Any, table: Any) -> Any:
    table[x * 1] = 1
    table.setdefault(x, 7)
    return x + len(table)


def intersected(x: Any, table: Any) -> Any:
    return x + len(HELD.intersection([x])) + len(HELD | set(table))


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()


@pytest.mark.parametrize("function", [looked_up, found, in_tuples, gathered, put, intersected])
def test_keys_are_found_as_in_eager_code(function):
    compiled = rl.compile(function, fullgraph=False)
    for x in (SECOND, FIRST, SECOND):
        for key in (FIRST, SECOND):
            mine, expected = {key: 9}, {key: 9}
            assert compiled(x, mine).tolist() == function(x, expected).tolist()
            assert len(mine) == len(expected)


@pytest.mark.parametrize("function", [looked_up, found])
def test_one_graph_refuses_to_look_an_argument_up_in_what_was_there_before(function):
    with pytest.raises(CompileError, match="a tensor is a key"):
        rl.compile(function, fullgraph=True)(rl.ones(2), {SECOND: 1})


def alike(x, y, z):
    if x is y and y is z:
        return x * 3
    return x + y if y is z else x - y * z


def distinct(x, y, z):
    seen, kept = set(), []
    for value in (x, y, z):
        if value not in seen:
            seen.add(value)
            kept.append(value * 2)
    return sum(kept) + len(kept)


def numbered(x, y, z):
    table = {x: 1.0, (y, 2): 2.0, z: 4.0}
    return x + sum(table.values()) + table[x] + ((z, 2) in table)


def from_outside(x, y, z):
    return x + (1 if x is FIRST else 2) + {FIRST: 3, x: 4}.get(y, 5) + z


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("function", [alike, distinct, numbered, from_outside])
def test_arguments_are_told_from_each_other_in_one_graph(function, full):
    compiled = rl.compile(function, fullgraph=full)
    a, b, c = rl.ones(2), rl.ones(2) * 2, rl.ones(2) * 3
    first = [(a, b, c), (c, a, b), (b, c, a)]
    for given in first:
        assert compiled(*given).tolist() == function(*given).tolist()
    assert rl.compiler.graph_count() == 1
    for given in [(a, a, a), (a, b, b), (a, a, b), (FIRST, a, b), (a, FIRST, b), (FIRST, FIRST, a), *first]:
        assert compiled(*given).tolist() == function(*given).tolist()


@pytest.mark.parametrize("full", [True, False])
def test_what_a_function_computes_is_a_key_of_its_own(full):
    def keyed(x):
        y, z = x + 0, x + 1
        table = {y: 1, z: 2}
        return x + table[y] + table.get(z) + len({y, z, y}) + (y in {z})

    compiled = rl.compile(keyed, fullgraph=full)
    assert compiled(FIRST).tolist() == keyed(FIRST).tolist()
    assert rl.compiler.graph_count() == 1


class Momentum:
    """An optimizer as users write it, with a dict of buffers by parameter."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.state: dict[Any, Any] = {}

    def step(self):
        with rl.no_grad():
            for parameter in self.parameters:
                if parameter not in self.state:
                    self.state[parameter] = rl.zeros_like(parameter)
                buffer = self.state[parameter]
                buffer.mul_(0.9).add_(parameter.grad)
                parameter.sub_(buffer * 0.1)
                parameter.grad = None


def trained(compiles: bool) -> list[Any]:
    rl.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = Momentum(model.parameters())

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = rl.compile(step, fullgraph=True) if compiles else step
    losses = [run(rl.full((4, 3), 1.0 + turn)).item() for turn in range(4)]
    return [losses, *[parameter.tolist() for parameter in model.parameters()], len(optimizer.state)]


def test_an_optimizer_with_buffers_by_parameter_is_in_the_graph():
    assert trained(True) == trained(False)
    assert rl.compiler.graph_count() == 2  # with and without the buffers


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = rl.zeros(2)
        self.first = self.h
        self.table = {self.h: 1}

    def forward(self, x):
        known = (10 if self.h is self.first else 20) + self.table.get(self.h, 0)
        self.h = self.h + x
        return self.h + known


@pytest.mark.parametrize("full", [True, False])
def test_a_tensor_that_is_replaced_is_told_from_what_it_was(full):
    model, expected = Recurrent(), Recurrent()
    compiled = rl.compile(model, fullgraph=full)
    for _ in range(3):
        assert compiled(FIRST).tolist() == expected(FIRST).tolist()
