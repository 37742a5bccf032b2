"""Globals that have the name of an attribute in the traced code are none of the program's variables."""

import sys
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


best: Any = 0.0
rates: Any = [1.0]
scale = 1.0


def noted(value):
    return value * scale


def of_parts(value):
    global best
    total = 0.0
    for row in value:
        print(end="")
        total += float(noted(row).sum())
    if total > best:
        best = total
    return total * rates[0]


def reset_behind_a_break(value):
    global best
    value = value * 2
    print(end="")
    best = None
    return value + 1


def mapped(value):
    print(end="")
    return rl.vmap(lambda row: row * scale)(value)


def by_name(value):
    print(end="")
    return value * vars(sys.modules[__name__])["scale"] + scale * 0


def sorted_by(value):
    print(end="")
    return value * sorted([3.0, 1.0], key=lambda number: number * scale)[0]


def within(value):
    held: Any = scale

    def show():
        print(end="")
        return value * held

    def change(number):
        nonlocal held
        held = number

    change(scale + 1)
    return show() + held


READERS = [of_parts, reset_behind_a_break, mapped, by_name, sorted_by, within]


@pytest.mark.parametrize("function", READERS)
def test_variables_behind_a_break_are_those_of_each_call(function, monkeypatch):
    compiled = rl.compile(function)
    for number in range(6):
        found = []
        for run in (compiled, function):
            monkeypatch.setitem(globals(), "best", None if number == 3 and function is not of_parts else float(number))
            monkeypatch.setitem(globals(), "rates", [float(number)])
            monkeypatch.setitem(globals(), "scale", float(1 - number))
            found.append((run(rl.full((2, 3), float(number))), best))
        (actual, left), (expected, wanted) = found
        assert left == wanted
        assert rl.equal(rl.as_tensor(actual), rl.as_tensor(expected))


def test_variables_that_only_a_later_part_reads_make_no_graphs_of_earlier_ones(monkeypatch):
    rl.compiler.reset()
    compiled = rl.compile(of_parts)
    counts = []
    for number in range(6):
        monkeypatch.setitem(globals(), "best", float(number))
        monkeypatch.setitem(globals(), "rates", [float(number)])
        compiled(rl.full((2, 3), float(number)))
        counts.append(rl.compiler.graph_count())
    assert len(set(counts[1:])) == 1


def trained():
    best, log = 0.0, []

    @rl.compile
    def epoch(rows):
        nonlocal best
        total = 0.0
        for row in rows:
            print(end="")
            total += float((row * 2).sum())
        best = max(best, total)
        log.append(total)
        return total

    counts = []
    for number in range(6):
        epoch(rl.full((2, 3), float(number)))
        counts.append(rl.compiler.graph_count())
    return best, log, counts


def test_variables_of_a_closure_are_those_of_each_call():
    rl.compiler.reset()
    best, log, counts = trained()
    assert best == 60.0
    assert log == [0.0, 12.0, 24.0, 36.0, 48.0, 60.0]
    assert len(set(counts[2:])) == 1


def test_the_globals_of_code_are_not_its_attributes():
    def code(value):
        global step
        step = value.rate
        value.count = len(optimizer.held)
        return range

    assert globals_in(code.__code__) == ("step", "len", "optimizer", "range")
