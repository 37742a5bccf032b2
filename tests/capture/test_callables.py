"""Whatever can be called can be compiled: partial functions, methods, objects, classes, and what C calls."""

import functools
import itertools
import operator

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.ir.graph import GraphBuilder
from rushlight.nn import functional as F
from rushlight.support import events
from rushlight.support.errors import ArgumentValueError


def scaled(a, x, k=1):
    return (a * x).sin() * k


class Scale:
    def __init__(self, by=2.0):
        self.by = by

    def __call__(self, x):
        return (x * self.by).cos()

    def method(self, x):
        return (x * self.by).tan()

    @classmethod
    def of_class(cls, x):
        return x.exp() * 2

    later = functools.partialmethod(method)


class Block(nn.Module):
    def forward(self, x):
        return x.sin() * 2


CALLABLES = {
    "partial": functools.partial(scaled, 2.0),
    "partial with keywords": functools.partial(functools.partial(scaled, 2.0), k=3),
    "partial of our function": functools.partial(F.gelu, approximate="tanh"),
    "partial of an operator": functools.partial(rl.add, 1.0),
    "partial of a method": functools.partial(Scale().method),
    "partial of an object": functools.partial(Scale()),
    "partial of a module": functools.partial(Block()),
    "partial of a compiled function": functools.partial(rl.compile(scaled), 2.0),
    "method": Scale().method,
    "method of a class": Scale.of_class,
    "method of a module": Block().forward,
    "partial method": Scale().later,
    "object": Scale(),
    "operator": rl.sin,
    "caller of a method": operator.methodcaller("sin"),
    "compiled function": rl.compile(functools.partial(scaled, 3.0)),
}


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}], ids=str)
@pytest.mark.parametrize("name", CALLABLES)
def test_callables_are_compiled(name, options):
    called = CALLABLES[name]
    inputs = [rl.tensor(values) for values in ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])]
    expected = [called(x).tolist() for x in inputs]
    rl.compiler.reset()
    compiled = rl.compile(called, **options)
    assert [compiled(x).tolist() for x in inputs] == expected
    assert rl.compiler.graph_count() == 1


@pytest.mark.parametrize(
    "made", [functools.lru_cache(scaled), functools.singledispatch(scaled)], ids=["cache", "kinds"]
)
def test_what_no_graph_holds_of_a_callable_has_a_reason(made):
    events.reset()
    assert rl.compile(made)(2.0, rl.ones(2)).tolist() == made(2.0, rl.ones(2)).tolist()
    assert [event.code for event in events.events("graph_break")][:1] == ["B002"]


def test_a_generator_function_in_a_partial_runs_as_it_is_with_a_reason():
    def numbers(x):
        yield x * 2

    class Numbers:
        def __call__(self, x):
            yield x * 2

    events.reset()
    for made in (functools.partial(numbers), Numbers()):
        assert [row.item() for row in rl.compile(made)(rl.ones(()))] == [2.0]
    assert [event.code for event in events.events("graph_break")] == ["B008", "B008"]


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}], ids=str)
def test_a_class_stays_a_class_and_its_calls_are_compiled(options):
    @rl.compile(**options)
    class Module(nn.Module):
        def forward(self, x):
            return x.sin() * 2

    @rl.compile(**options)
    class Called:
        def __call__(self, x):
            return x.sin() * 2

    class Later(Module):
        def forward(self, x):
            return super().forward(x) + 1

    x = rl.tensor([0.1, 0.2])
    for made, expected in ((Module, x.sin() * 2), (Called, x.sin() * 2), (Later, x.sin() * 2 + 1)):
        rl.compiler.reset()
        one = made()
        assert one(x).tolist() == one(x).tolist() == expected.tolist()
        assert rl.compiler.graph_count() == 1
        assert isinstance(one, made)


def test_a_class_without_calls_makes_its_objects_in_graphs():
    class Own:
        def __init__(self, x):
            self.x = x.cos() * 2

    made = rl.compile(Own)
    rl.compiler.reset()
    assert made(rl.zeros(2)).x.tolist() == made(rl.zeros(2)).x.tolist() == [2.0, 2.0]
    assert rl.compiler.graph_count() == 1
    assert made is Own
    assert rl.compile(list)("ab") == ["a", "b"]  # a class of C


@pytest.mark.parametrize("given", [3, "text", rl.ones(2)], ids=["number", "text", "tensor"])
def test_what_cannot_be_called_is_an_error(given):
    with pytest.raises(ArgumentValueError, match="compile: a function, a module or a class is expected"):
        rl.compile(given)


def test_functions_of_c_that_c_calls_have_their_effects_at_each_call(capsys):
    def printed(x, number):
        doubled = x * 2
        return doubled + 1, list(map(print, [number])), list(itertools.starmap(print, [(number, 1)]))

    made = rl.compile(printed)
    for number in (2.5, 2.5, 3.5):
        made(rl.ones(2), number)
        assert capsys.readouterr().out == f"{number}\n{number} 1\n"


def test_functions_of_c_that_c_calls_get_no_numbers_of_the_trace():
    def computed(x, number):
        size = x.shape[0]
        arrays = list(map(np.array, [[number], (size, number)]))
        summed = functools.reduce(np.add, [number, size])
        kinds = list(map(type, [number, size]))
        return x * 2, [array.dtype for array in arrays], type(summed), sorted([number, size], key=np.array), kinds

    made = rl.compile(computed)
    for number in (2.5, 7, 0.5):
        found, expected = made(rl.ones(3), number), computed(rl.ones(3), number)
        assert found[1:] == expected[1:]
        assert found[0].tolist() == expected[0].tolist()


def test_objects_of_the_compiler_are_made_and_filled_outside_of_graphs():
    def built(x, names):
        builder = GraphBuilder("g")
        nodes = [builder.parameter(name, x.form) for name in names]
        y = x * 2
        print(end="")
        return y, len(builder.graph(nodes[:1]).parameters)

    made = rl.compile(built)
    for names in (["a"], ["a", "b"], ["a"]):
        assert made(rl.ones(2), names)[1] == len(names)
