"""Attributes that a program gives to tensors, taken as a dict or copied: of arguments, of the state, and of results."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl


class Named(rl.Tensor):
    pass


HELD: Any = rl.ones(2)


def copied(x: Any) -> object:
    return copy.copy(x) + 1, getattr(copy.copy(x), "tag", None)


def deeply_copied(x: Any) -> object:
    made = copy.deepcopy([x, x])
    return made[0] + 1, made[0] is made[1], getattr(made[0], "tag", None)


def state_copied(x: Any) -> object:
    return x + 1, getattr(copy.copy(HELD), "tag", None), getattr(copy.deepcopy(HELD), "tag", None)


def taken_as_a_dict(x: Any) -> object:
    return x + 1, dict(vars(x)), "tag" in x.__dict__, dict(HELD.__dict__), hasattr(HELD, "tag")


def written_as_a_dict(x: Any) -> object:
    y = x + 1
    vars(y)["first"] = 1
    y.__dict__.update(second=2)
    return y.first, y


def set_and_copied(x: Any) -> object:
    y = (x + 1).as_subclass(Named)
    y.tag = ["a", 1]
    return copy.copy(y), copy.deepcopy(y), copy.copy(y).tag is y.tag


def shown(values: object) -> object:
    """Results with what their tensors have as attributes."""
    if isinstance(values, rl.Tensor):
        return type(values), values.tolist(), dict(vars(values))
    return list(map(shown, values)) if isinstance(values, tuple) else values


FUNCTIONS = [copied, deeply_copied, state_copied, taken_as_a_dict, written_as_a_dict, set_and_copied]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_they_are_those_of_each_call(function: Callable[..., object]):
    compiled = rl.compile(function, backend="eager")
    for tags in ([None], [None, 1, 2, None]):
        x: Any = rl.ones(2)
        for tag in tags:
            for tensor in (x, HELD):
                vars(tensor).clear()
                if tag is not None:
                    tensor.tag = tag
            assert shown(compiled(x)) == shown(function(x))
    vars(HELD).clear()


@pytest.mark.parametrize("function", [copied, deeply_copied, state_copied])
def test_copies_of_tensors_without_any_are_part_of_one_graph(function: Callable[..., object]):
    compiled = rl.compile(function, backend="eager", fullgraph=True)
    assert shown(compiled(rl.ones(2))) == shown(function(rl.ones(2)))
    assert rl.compiler.graph_count() == 1
    x: Any = rl.ones(2)
    x.tag = HELD.tag = 1
    with pytest.raises(rl.CompileError, match="attributes of a tensor"):
        compiled(x)
    vars(HELD).clear()
