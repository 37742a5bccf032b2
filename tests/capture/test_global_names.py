"""Globals that have the name of an attribute in the traced code are none of the program's variables."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

import rushlight as rl
from rushlight.capture.code.instructions import globals_in

step: Any = 0
x: Any = None
rate = 1.0
Pair = namedtuple("Pair", "x y")


class Optimizer:
    def step(self, value: rl.Tensor) -> rl.Tensor:
        return value * 2


@dataclass
class Held:
    x: rl.Tensor


optimizer = Optimizer()


def stepped(value):
    return optimizer.step(value)


def through_another(value):
    return stepped(value) + 1


def of_data(value):
    held = Held(value * 2)
    print(end="")
    return held.x + 1


def of_a_named_tuple(value):
    pair = Pair(value * 2, value)
    print(end="")
    return pair.x + pair.y


def of_a_result(value):
    largest = value.max(0)
    print(end="")
    return largest.values + largest.indices


@pytest.mark.parametrize("function", [stepped, through_another, of_data, of_a_named_tuple, of_a_result])
@pytest.mark.parametrize("of", [int, lambda number: rl.full((3,), float(number))])
def test_globals_named_like_attributes_are_not_guarded(function, of, monkeypatch):
    rl.compiler.reset()
    compiled = rl.compile(function)
    counts = []
    for number in range(5):
        monkeypatch.setitem(globals(), "step", of(number))
        monkeypatch.setitem(globals(), "x", of(number))
        value = rl.randn(3)
        assert rl.equal(compiled(value), function(value))
        counts.append(rl.compiler.graph_count())
    assert len(set(counts[1:])) == 1


def in_a_comprehension(value):
    return sum([value * rate for _ in range(2)])


def in_an_inner_function(value):
    def inner():
        return value * rate

    return inner()


def in_a_class_body(value):
    class Inner:
        scale = rate

    return value * Inner.scale


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("function", [in_a_comprehension, in_an_inner_function, in_a_class_body])
def test_globals_that_inner_code_reads_are_those_of_each_call(function, fullgraph, monkeypatch):
    compiled = rl.compile(function, fullgraph=fullgraph and function is not in_a_class_body)
    for number in range(3):
        monkeypatch.setitem(globals(), "rate", float(number))
        value = rl.randn(3)
        assert rl.equal(compiled(value), function(value))


def test_the_globals_of_code_are_not_its_attributes():
    def code(value):
        global step
        step = value.rate
        value.count = len(optimizer.held)
        return range

    assert globals_in(code.__code__) == ("step", "len", "optimizer", "range")
