"""The comparison of outcomes finds each kind of difference, and nothing where there is none."""

import collections
import types
from unittest.mock import Mock

import pytest
from tests.capture.programs.comparison import Description, differences, native, outcome

import rushlight as rl


def shown(program):
    return outcome(native, program)


def text(value):
    return Description().of("value", value)


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("left", "right")


class Secretive:
    """An object whose own code must not run."""

    def __getattribute__(self, name):
        raise AssertionError(name)

    __eq__ = __hash__ = __repr__ = __reduce_ex__ = __getattribute__


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Numbers(list):
    def __iter__(self):
        raise AssertionError


def shared_list():
    inner = []
    return [inner, inner]


def marked(value, **attributes):
    for name, part in attributes.items():
        setattr(value, name, part)
    return value


def generator(turns):
    def count():
        yield 1
        yield 2

    started = count()
    for _ in range(turns):
        next(started, None)
    return started


def advanced(iterator, turns):
    for _ in range(turns):
        next(iterator)
    return iterator


def counters(shared):
    def make():
        count = 0

        def up():
            nonlocal count
            count += 1

        def read():
            return count

        return up, read

    return make() if shared else (make()[0], make()[1])


def defined(base=object, **attributes):
    class Made(base):
        pass

    return marked(Made, **attributes)


ONE, OTHER = defined(), defined()

PAIRS = {
    "kind of number": (1, 1.0),
    "kind of truth": (1, True),
    "sign of zero": (0.0, -0.0),
    "kind of sequence": ([1], (1,)),
    "identity": (shared_list(), [[], []]),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "keys": ({1: 0}, {"1": 0}),
    "members": ({1, 2}, {1, 3}),
    "frozen": ({1}, frozenset({1})),
    "attributes": (Plain(a=1), Plain(a=2)),
    "order of attributes": (Plain(a=1, b=2), Plain(b=2, a=1)),
    "slots": (marked(Slotted(), left=1), marked(Slotted(), right=1)),
    "attributes of tuples": (marked(Pair(1, 2), note=1), Pair(1, 2)),
    "subclass": (Pair(1, 2), (1, 2)),
    "class": (Plain(), types.SimpleNamespace()),
    "length at most": (collections.deque([1], 2), collections.deque([1])),
    "default": (collections.defaultdict(int), collections.defaultdict(list)),
    "class made by a function": ([ONE(), ONE()], [ONE(), OTHER()]),
    "base": (defined(Plain), defined(Slotted)),
    "attributes of a class": (defined(a=1), defined(a=2)),
    "cells": (counters(True), counters(False)),
    "defaults": (lambda a=1: a, lambda a=2: a),
    "bound to": ([].append, [1].append),
    "state of a generator": (generator(0), generator(1)),
    "turn of a generator": (generator(1), generator(2)),
    "end of a generator": (generator(2), generator(3)),
    "position of an iterator": (iter([1, 2, 3]), advanced(iter([1, 2, 3]), 1)),
    "position of an enumeration": (advanced(enumerate("abc"), 1), advanced(enumerate("abc"), 2)),
    "arguments of an exception": (ValueError(1), ValueError(2)),
    "class of an exception": (KeyError(1), IndexError(1)),
    "value at the end": (StopIteration(1), StopIteration(2)),
    "members of a group": (ExceptionGroup("g", [ValueError()]), ExceptionGroup("g", [KeyError()])),
    "notes": (marked(ValueError(), __notes__=["a"]), ValueError()),
    "cause": (marked(ValueError(), __cause__=KeyError()), marked(ValueError(), __context__=KeyError())),
    "bits of a tensor": (rl.tensor([0.0]), rl.tensor([-0.0])),
    "dtype of a tensor": (rl.tensor([1.0]), rl.tensor([1])),
    "shape of a tensor": (rl.ones(2, 1), rl.ones(1, 2)),
    "gradient of a tensor": (rl.ones(1, requires_grad=True), rl.ones(1)),
}


@pytest.mark.parametrize("what", PAIRS)
def test_two_values_differ(what):
    one, other = PAIRS[what]
    assert text(one) == text(one)
    assert text(one) != text(other)


def test_equal_values_do_not_differ():
    assert text([float("nan"), 257, "ab", {}]) == text([-float("nan"), int("257"), "a" + "b", {}])
    assert text(generator(1)) == text(generator(1))
    assert text(defined(a=1)) == text(defined(a=1))


def test_an_object_that_contains_itself_is_described():
    ring = []
    ring.append(ring)
    assert text(ring) == (("value", "list"), ("value[0]", "is value"))


def test_describing_runs_no_code_of_the_object():
    assert text(Secretive())[0] == ("value", "Secretive")
    assert text(Numbers([1]))[1] == ("value[0]", "1")


def chained(env, *, suppressed=False, note=""):
    try:
        env.items[9]
    except IndexError:
        error = ValueError("bad" + note)
        error.__suppress_context__ = suppressed
        raise error  # noqa: B904 - the context is what is compared


def program_of_one_line(x, env):
    raise ValueError("bad")


def program_of_another_line(x, env):
    env = env
    raise ValueError("bad")


program_of_another_line.__code__ = program_of_another_line.__code__.replace(
    co_name="program_of_one_line", co_qualname="program_of_one_line"
)


@pytest.mark.parametrize(
    ("one", "other", "line"),
    [
        (lambda x, env: x, lambda x, env: x * 1, "env.x: is result, but rushlight"),
        (
            lambda x, env: env.log.append(env.items),
            lambda x, env: env.log.append([1, 2, 3]),
            "env.items: is env.log[0], but list",
        ),
        (lambda x, env: print("a"), lambda x, env: print("b"), "stdout: 'a\\n', but 'b"),
        (
            lambda x, env: chained(env),
            lambda x, env: chained(env, suppressed=True),
            "raised.__suppress_context__: False, but True",
        ),
        (lambda x, env: chained(env), lambda x, env: chained(env, note="!"), "raised.args[0]: 'bad', but 'bad!'"),
        (lambda x, env: chained(env), program_of_one_line, "raised.__context__: IndexError, but None"),
        (program_of_one_line, program_of_another_line, "raised.__traceback__: program_of_one_line:"),
        (lambda x, env: setattr(env, "count", 1), lambda x, env: None, "env.count: 1, but 0"),
        (lambda x, env: 1, program_of_one_line, "- result 1"),
    ],
)
def test_two_programs_differ(one, other, line):
    found = differences(shown(one), shown(other))
    assert any(entry.startswith(line) for entry in found), "\n".join(found)
    assert differences(shown(one), shown(one)) == []


def test_the_order_of_lines_is_a_difference():
    one, other = shown(lambda x, env: {1: 0, 2: 0}), shown(lambda x, env: {2: 0, 1: 0})
    assert differences(one, other)[0].startswith("the order: result ")


def test_an_interpreter_takes_the_place_of_python():
    run = Mock(side_effect=native)
    assert differences(outcome(run, program_of_one_line), shown(program_of_one_line)) == []
    function, args, kwargs = run.call_args.args
    assert (function, len(args), kwargs) == (program_of_one_line, 2, {})
