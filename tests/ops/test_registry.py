"""Operators are registered and removed while a program runs; the order in which this happens changes nothing."""

import random

import pytest

import rushlight as rl
from rushlight.ops.record import OPERATORS, define, undefine

NAMES = [f"registry_{word}" for word in ("add", "mul", "sub", "neg", "relu", "exp", "abs", "sign")]


def register(name, factor):
    """An operator that multiplies by a number, by a decomposition."""
    operator = define(f"{name}(Tensor input, *, float scale=1.0) -> Tensor", "A multiple.", variants="function")
    operator.decompose(lambda input, scale: input * (factor * scale))
    return operator


def table():
    """What engines and generators read of the operators of this module, by name."""
    return {
        name: (str(op.schema), op.facts, op.dtypes, op.decompose_rule is not None, op.meta_rule, op.view_rule)
        for name, op in sorted(OPERATORS.items())
        if name in NAMES
    }


@pytest.mark.row("1.1")
def test_an_operator_comes_goes_and_comes_again_with_another_meaning():
    x = rl.tensor([1.0, -2.0], requires_grad=True)
    for factor in (3.0, 5.0):
        operator = register("registry_add", factor)
        try:
            result = operator(x, scale=2.0)
            assert result.tolist() == [2 * factor, -4 * factor]
            (gradient,) = rl.autograd.grad(result.sum(), x)
            assert gradient.tolist() == [2 * factor, 2 * factor]
            compiled = rl.compile(lambda x, op=operator: op(x, scale=2.0) + 1, fullgraph=True)
            assert compiled(x).tolist() == [2 * factor + 1, 1 - 4 * factor]
        finally:
            undefine("registry_add")
        assert "registry_add" not in OPERATORS
        with pytest.raises(KeyError, match="registry_add"):
            OPERATORS["registry_add"]


@pytest.mark.row("1.1")
def test_the_order_of_registration_leaves_the_same_table():
    order, tables = list(NAMES), []
    for seed in range(100):
        random.Random(seed).shuffle(order)
        for factor, name in enumerate(order):
            register(name, float(factor))
        tables.append(table())
        for name in reversed(order):
            undefine(name)
    assert len(tables[0]) == len(NAMES)
    assert all(one == tables[0] for one in tables)


def test_operators_are_registered_at_each_call_of_a_compiled_function():
    def registered(x: rl.Tensor) -> list[float]:
        operator = register("registry_neg", 3.0)
        try:
            return operator(x).tolist()
        finally:
            undefine("registry_neg")

    compiled = rl.compile(registered, backend="eager")
    assert [compiled(rl.ones(1)), compiled(rl.ones(1))] == [[3.0], [3.0]] and "registry_neg" not in OPERATORS
