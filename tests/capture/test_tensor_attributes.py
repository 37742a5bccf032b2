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


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor


def number(x: Any) -> object:
    return x * x.tag


def text(x: Any) -> object:
    return x * 2 if x.tag == "double" else x + 1


def tensor(x: Any) -> object:
    return x * x.tag


def containers(x: Any) -> object:
    return x * x.tag[0] + x.tag[1]["more"]


def an_object(x: Any) -> object:
    return x * x.tag.factor


def itself(x: Any) -> object:
    return x * 2 if x.tag is x else x + 1


def absent(x: Any) -> object:
    return x * 3 if hasattr(x, "tag") else x * getattr(x, "tag", 7)


def with_tag(turn: int, tag: object = None) -> Any:
    x: Any = rl.full((2,), float(turn))
    x.tag = x if tag is None else tag
    return x


READ: dict[str, tuple[Callable[[Any], object], Callable[[int], Any]]] = {
    "number": (number, lambda turn: with_tag(turn, 2.0 + turn)),
    "text": (text, lambda turn: with_tag(turn, "double" if turn < 2 else "not")),
    "tensor": (tensor, lambda turn: with_tag(turn, rl.full((2,), 3.0 + turn))),
    "containers": (containers, lambda turn: with_tag(turn, [turn, {"more": rl.ones(2) * turn}])),
    "object": (an_object, lambda turn: with_tag(turn, Scale(turn + 1.0))),
    "itself": (itself, lambda turn: with_tag(turn, None if turn < 2 else rl.ones(2))),
    "absent": (absent, lambda turn: with_tag(turn, 1) if turn == 1 else rl.full((2,), float(turn))),
}


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", READ)
def test_those_of_arguments_are_read_in_one_graph(name: str, *, full: bool):
    function, make = READ[name]
    compiled = rl.compile(function, fullgraph=True) if full else rl.compile(function)
    for turn in range(4):
        assert shown(compiled(make(turn))) == shown(function(make(turn)))
    if name in ("number", "tensor", "containers"):
        assert rl.compiler.graph_count() == 1


def refusal(call: Callable[[], object]) -> str | None:
    """The code of the error of a call."""
    try:
        call()
    except rl.RushlightError as error:
        return error.code
    return None


FACTS: dict[str, Callable[[Any], object]] = {
    "shared memory": lambda x: ((y := x * 1).share_memory_(), y.is_shared())[1],
    "the same memory": lambda x: (x.is_set_to(x), (y := x * 1).is_set_to(y), x.is_set_to(y)),
    "an address": lambda x: (x.const_data_ptr() == x.data_ptr(), x.const_data_ptr() > 0),
    "by a method that is kept": lambda x: ((ask := x.is_set_to)(x), (shared := x.is_shared)(), ask(x), shared()),
    "the order of dims": lambda x: (x.dim_order(), x.t().dim_order(), (x * 1).dim_order(ambiguity_check=True)),
    "an element of several": lambda x: refusal(x.item),
    "a detached view": lambda x: (refusal(x.detach_), refusal((x * 1).detach_), refusal(x[0].detach_)),
    "a page": lambda x: (x * 1)._repr_html_(),
    "bytes": lambda x: (x.nbytes, (x * 1).nbytes, type(x.nbytes)),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_of_memory_and_elements_are_those_of_each_call(name: str):
    compiled = rl.compile(FACTS[name], backend="eager")
    for size in (2, 2, 3):
        assert compiled(rl.arange(2.0 * size).view(2, size)) == FACTS[name](rl.arange(2.0 * size).view(2, size))


def test_an_argument_is_detached_in_place():
    def detached(x: Any) -> Any:
        y = (x * 2).detach_()
        return x.detach_() is x, x.requires_grad, y.requires_grad, x.is_leaf

    compiled = rl.compile(detached, fullgraph=False, backend="eager")
    for make in (
        lambda: rl.ones(2, requires_grad=True),
        lambda: rl.ones(2, requires_grad=True) * 2,
        lambda: rl.ones(2),
    ):
        x = make()
        assert compiled(x) == detached(make()) and not x.requires_grad
