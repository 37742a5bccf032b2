"""Classes that a compiled function makes: a graph holds them as long as nothing of them outlives it."""

import functools

import pytest

import rushlight as rl
from rushlight.support import events


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()
    events.reset()


def codes():
    return {event.code for event in events.events("graph_break")}


def test_a_class_that_stays_inside_is_part_of_one_graph():
    def applies(x):
        class Scale:
            factor = 2

            def __init__(self, bias):
                self.bias = bias

            def __call__(self, y):
                return y * self.factor + self.bias

            def __bool__(self):
                return self.factor > 1

        scale = Scale(x)
        y = scale(x) if scale else x
        Scale.factor = 0
        return y - 1 if scale else y + 100

    compiled = rl.compile(applies, fullgraph=False)
    for value in (1.0, 2.0, 3.0):
        x = rl.full((3,), value)
        assert compiled(x).equal(applies(x))
    assert rl.compiler.graph_count() == 1 and not codes()


def test_an_exception_class_of_the_function_is_raised_and_caught():
    def catches(x):
        class Stop(Exception):
            pass

        try:
            raise Stop(3)
        except Stop as stop:
            return x * stop.args[0]

    compiled = rl.compile(catches, fullgraph=False)
    assert compiled(rl.ones(2)).tolist() == [3.0, 3.0]
    assert rl.compiler.graph_count() == 1 and not codes()


def as_itself(made):
    return made


def as_instance(made):
    return made()


def as_method(made):
    return made().method


def as_function(made):
    return made.method


def as_builtin(made):
    return made.mro


def in_a_list(made):
    return [made()]


@pytest.mark.parametrize(
    "kept", [as_itself, as_instance, as_method, as_function, as_builtin, in_a_list], ids=lambda kept: kept.__name__
)
def test_a_class_that_is_kept_is_another_one_at_each_call(kept):
    def makes(x):
        class Made:
            def method(self):
                return __class__

        return x + 1, Made, kept(Made)

    def classes_of(value):
        for one in value if type(value) is list else [value]:
            owner = getattr(one, "__self__", one)
            if type(owner) is type(makes):
                yield owner(None)
            else:
                yield owner if isinstance(owner, type) else type(owner)

    compiled = rl.compile(makes, fullgraph=False)
    seen = []
    for _ in range(3):
        y, made, result = compiled(rl.ones(2))
        assert y.tolist() == [2.0, 2.0] and list(classes_of(result)) == [made]
        seen.append(made)
    assert len(set(seen)) == 3 and "B009" in codes()


def test_a_base_is_told_of_each_class():
    told = []

    class Base:
        def __init_subclass__(cls, **kwargs):
            told.append(cls.__name__)

    def derives(x):
        class Derived(Base):
            pass

        return x + len(Base.__subclasses__()) * 0

    compiled = rl.compile(derives, fullgraph=False)
    for _ in range(3):
        compiled(rl.ones(2))
    assert told == ["Derived"] * 3


def test_attributes_are_told_their_names_at_each_call():
    told = []

    class Named:
        def __set_name__(self, owner, name):
            told.append(name)

    def makes(x):
        class Made:
            attribute = Named()

        return x + 1

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        compiled(rl.ones(2))
    assert told == ["attribute"] * 3


def test_constructors_that_c_calls_happen_at_each_call():
    log = []

    def makes(x):
        class Partial:
            __init__ = functools.partial(log.append)

        class Static:
            @staticmethod
            def __init__(*args):
                log.append(len(args))

        Partial("partial")
        Static(1, 2)
        return x + 1

    compiled = rl.compile(makes, fullgraph=False)
    for _ in range(3):
        compiled(rl.ones(2))
    assert log == ["partial", 2] * 3


def test_classes_and_objects_that_c_calls_back_happen_at_each_call():
    log = []

    class Key:
        def __init__(self, value):
            log.append(value)
            self.value = value

        def __lt__(self, other):
            return self.value < other.value

    class Negated:
        def __call__(self, value):
            log.append(-value)
            return -value

    def sorts(x):
        return x * min([3, 1], key=Key) + sorted([1, 2], key=Negated())[0]

    compiled = rl.compile(sorts, fullgraph=False)
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [3.0, 3.0]
    assert log == [3, 1, -1, -2] * 3
