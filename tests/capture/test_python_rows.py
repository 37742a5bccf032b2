"""Dicts, iterators and truth values: what is interpreted, and compiled in parts, does what Python does."""

import collections
import itertools
import types

import pytest
from tests.capture.programs.slots.truth_table import TABLE

import rushlight as rl
from rushlight.capture.interpreter import interpret


def answer(ask, *args):
    """The result of a call, or its error's class and text."""
    try:
        return shown(ask(*args))
    except Exception as error:
        return type(error).__name__, str(error)


def shown(value):
    """A result with the classes of what it holds."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    if isinstance(value, dict):
        return type(value).__name__, [(shown(key), shown(item)) for key, item in value.items()]
    return type(value).__name__, value if isinstance(value, (int, float, str, bytes, type(None))) else None


class Keyed:
    """A mapping by its protocol alone."""

    def __init__(self, items):
        self.items_ = dict(items)

    def keys(self):
        return self.items_.keys()

    def __getitem__(self, key):
        return self.items_[key]


class Child(dict):
    """A subclass with a factory of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.made = True

    def __missing__(self, key):
        return key * 2


class Indexed:
    """An iterable by `__getitem__`."""

    def __getitem__(self, at):
        if at > 2:
            raise IndexError(at)
        return at * 10


class Countdown:
    """An iterator written in Python."""

    def __init__(self, start):
        self.left = start

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration("over")
        self.left -= 1
        return self.left


def counter():
    """A function for `iter(function, sentinel)`."""
    return itertools.count().__next__


def stopping():
    raise StopIteration(3)


def grown_dict():
    table = {1: 1}
    for key in table:
        table[key + 1] = 1


def shrunk_dict():
    table = {1: 1, 2: 2}
    for key in table:
        del table[key]


def changed_values():
    table = {1: 1, 2: 2}
    for key in table:
        table[key] = 5
    return table


def grown_list():
    values, seen = [1, 2], []
    for value in values:
        seen.append(value)
        if len(values) < 5:
            values.append(value * 2)
    return seen


def shrunk_list():
    values, seen = [1, 2, 3, 4], []
    for value in values:
        seen.append(value)
        values.remove(value)
    return seen, values


def exhausted():
    values = iter([1])
    return next(values), next(values, None), next(values, 3), list(values)


def advanced():
    values = iter([1, 2, 3, 4])
    return [(a, next(values, None)) for a in values]


def shared():
    values = iter(range(4))
    return list(zip(values, values, strict=True))


FORMS = {
    "dict()": lambda: dict(),
    "dict of keywords": lambda: dict(a=1, b=2),
    "dict of pairs": lambda: dict([(1, 2), ("a", "b")]),
    "dict of pairs and keywords": lambda: dict([("a", 1)], a=2, c=3),
    "dict of texts as pairs": lambda: dict(["ab", "cd"]),
    "dict of a dict": lambda: dict({1: 2}, x=1),
    "dict of a mapping": lambda: dict(Keyed({"a": 1}), b=2),
    "dict of a generator": lambda: dict((i, i * i) for i in range(3)),
    "dict of zip": lambda: dict(zip("ab", (1, 2), strict=True)),
    "dict of enumerate": lambda: dict(enumerate("ab")),
    "dict of items": lambda: dict({"a": 1}.items()),
    "dict of None": lambda: dict(None),
    "dict of a number": lambda: dict(3),
    "dict of single values": lambda: dict([1, 2]),
    "dict of a triple": lambda: dict([(1, 2, 3)]),
    "dict of a list as key": lambda: dict([([], 1)]),
    "dict of two": lambda: dict({}, {}),
    "dict display": lambda: {**{"a": 1}, "b": 2, **dict(c=3)},
    "dict display of a mapping": lambda: {**Keyed({"a": 1})},
    "dict display of a list": lambda: {**[1]},
    "keywords twice": lambda: dict(**{"a": 1}, **{"a": 2}),
    "keywords that are no texts": lambda: dict(**{1: 2}),
    "fromkeys": lambda: dict.fromkeys("aba"),
    "fromkeys with a value": lambda: dict.fromkeys([1, 2], []),
    "fromkeys of an instance": lambda: {5: 6}.fromkeys(range(2), 7),
    "fromkeys of a subclass": lambda: (Child.fromkeys("ab", 1), Child.fromkeys("a").made),
    "fromkeys of a generator": lambda: dict.fromkeys(i % 2 for i in range(5)),
    "fromkeys of a list as key": lambda: dict.fromkeys([[]]),
    "fromkeys of a number": lambda: dict.fromkeys(1),
    "fromkeys of nothing": lambda: dict.fromkeys(),
    "a missing key": lambda: {}["a"],
    "a key that a subclass makes": lambda: (Child()["ab"], Child().get("ab"), "ab" in Child()),
    "get": lambda: ({1: 2}.get(1), {1: 2}.get(2), {}.get(3, 4)),
    "setdefault": lambda: (lambda d: (d.setdefault("a", 1), d.setdefault("a", 2), d))({}),
    "pop": lambda: (lambda d: (d.pop(1), d.pop(1, 5), d))({1: 2}),
    "pop of nothing": lambda: {}.pop(1),
    "popitem": lambda: (lambda d: (d.popitem(), d))({1: 2, 3: 4}),
    "popitem of nothing": lambda: {}.popitem(),
    "update": lambda: (lambda d: (d.update([(1, 2)], a=3), d))({}),
    "update by a mapping": lambda: (lambda d: (d.update(Keyed({"k": 1})), d))({}),
    "union": lambda: ({1: 2, 3: 4} | {3: 5}, Child(a=1) | {"b": 2}),
    "union with a list": lambda: {} | [],
    "union in place": lambda: (lambda d: d.__ior__([(1, 2)]))({}),
    "order": lambda: list(reversed({"b": 1, "a": 2} | {"b": 3})),
    "equal keys": lambda: {1: "a", True: "b", 1.0: "c"},
    "views": lambda: ({1: 2}.keys() & {1, 3}, {1: 2}.items() - {(1, 2)}, 2 in {1: 2}.values()),
    "defaultdict": lambda: (lambda d: (d["a"], d))(collections.defaultdict(int)),
    "ordered": lambda: (lambda d: (d.move_to_end("a"), list(d)))(collections.OrderedDict(a=1, b=2)),
    "counter": lambda: collections.Counter("abca").most_common(1),
    "chain map": lambda: dict(collections.ChainMap({"a": 1}, {"a": 2, "b": 3})),
    "proxy": lambda: dict(types.MappingProxyType({"a": 1})),
    "iter()": lambda: iter(),
    "iter of a list": lambda: list(iter([1, 2])),
    "iter of a dict": lambda: list(iter({"a": 1})),
    "iter of an iterator": lambda: (lambda it: iter(it) is it)(iter([])),
    "iter of a generator": lambda: list(iter(i for i in range(3))),
    "iter by items": lambda: list(iter(Indexed())),
    "iter of ours": lambda: list(iter(Countdown(3))),
    "iter of a number": lambda: iter(1),
    "iter of three": lambda: iter(counter(), 3, 4),
    "iter with a sentinel": lambda: list(iter(counter(), 3)),
    "iter with a sentinel of no function": lambda: iter([], 3),
    "iter of a function that stops": lambda: list(iter(stopping, 3)),
    "next at the end": lambda: next(iter(())),
    "next of no iterator": lambda: next([]),
    "next of ours at the end": lambda: next(Countdown(0)),
    "length hint": lambda: iter([1, 2, 3]).__length_hint__(),
    "reversed": lambda: (list(reversed([1, 2])), list(reversed(range(3)))),
    "reversed of a set": lambda: reversed({1}),
    "dir": lambda: [name for name in dir(1) if name == "real"],
    "a dict that grows": grown_dict,
    "a dict that shrinks": shrunk_dict,
    "a dict whose values change": changed_values,
    "a list that grows": grown_list,
    "a list that shrinks": shrunk_list,
    "an iterator at its end": exhausted,
    "an iterator in its loop": advanced,
    "an iterator that is shared": shared,
}


@pytest.mark.row("3.2")
def test_dicts_and_iterators_are_those_of_python():
    assert len(FORMS) >= 60
    expected = {name: answer(form) for name, form in FORMS.items()}
    assert {name: answer(interpret, form) for name, form in FORMS.items()} == expected
    compiled = {name: rl.compile(form, fullgraph=False) for name, form in FORMS.items()}
    for _ in range(2):  # the first call traces
        assert {name: answer(form) for name, form in compiled.items()} == expected


def truths(value):
    """The three questions; an error is an answer too."""
    answers = []
    try:
        answers.append(bool(value))
    except Exception as error:
        answers.append((type(error).__name__, str(error)))
    try:
        answers.append(not value)
    except Exception as error:
        answers.append((type(error).__name__, str(error)))
    try:
        answers.append("yes" if value else "no")
    except Exception as error:
        answers.append((type(error).__name__, str(error)))
    return answers


@pytest.mark.row("3.3")
def test_two_hundred_objects_have_the_truth_of_python():
    assert len(TABLE) >= 200
    x = rl.tensor([1.0, 2.0, 3.0, 4.0])
    objects = {name: make(x) for name, make in TABLE.items()}
    expected = {name: truths(value) for name, value in objects.items()}
    assert {name: interpret(truths, (value,)) for name, value in objects.items()} == expected
    compiled = rl.compile(truths, fullgraph=False)
    assert {name: compiled(value) for name, value in objects.items()} == expected
