"""Errors of operators that the program handles: a graph holds the handler, and texts have the sizes of the call."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

import rushlight as rl
from rushlight.support.errors import CompileError

WAYS = pytest.mark.parametrize("options", [{"fullgraph": True}, {"fullgraph": False}, {"dynamic": False}])


@pytest.fixture(autouse=True)
def fresh():
    rl.compiler.reset()


def added(x: Any, y: Any) -> Any:
    try:
        return x + y
    except RuntimeError as error:
        return str(error), type(error).__name__, x * 2


def indexed(x: Any, at: int) -> Any:
    try:
        y = x * 2
        return y[at]
    except IndexError as error:
        return str(error), y


def multiplied(x: Any, y: Any) -> Any:
    def product(*operands: Any) -> Any:
        return [left @ y for left in operands]

    try:
        return product(x, x.mT)
    except (RuntimeError, ValueError) as error:
        return str(error), x.sum()


def cleaned(x: Any, y: Any, log: list[str]) -> Any:
    try:
        with rl.no_grad():
            return x + y
    except Exception as error:
        log.append(str(error))
        return x - 1
    finally:
        log.append("end")


def asked(x: Any) -> Any:
    try:
        return 1 if x else 2
    except RuntimeError as error:
        return str(error), -x


def wrong_dtype(x: Any) -> Any:
    try:
        return x.to(rl.int64) & x
    except (RuntimeError, TypeError) as error:
        return str(error), x


def described(value: Any) -> Any:
    if isinstance(value, rl.Tensor):
        return value.tolist()
    return [described(part) for part in value] if isinstance(value, (tuple, list)) else value


CALLS = [
    (added, [(rl.ones(4), rl.ones(3)), (rl.ones(5), rl.ones(2)), (rl.ones(4), rl.ones(4)), (rl.ones(4), rl.ones(3))]),
    (multiplied, [(rl.ones(2, 3), rl.ones(3, 2)), (rl.ones(2, 2), rl.ones(2, 2)), (rl.ones(4, 3), rl.ones(3, 1))]),
    (asked, [(rl.ones(3),), (rl.ones(0),), (rl.ones(2),)]),
    (wrong_dtype, [(rl.ones(3),), (rl.ones(2),)]),
]


@WAYS
@pytest.mark.parametrize(("function", "calls"), CALLS)
def test_handlers_get_the_text_of_eager_code(function, calls, options):
    compiled = rl.compile(function, **options)
    for args in calls:
        assert described(compiled(*args)) == described(function(*args))


def test_an_index_that_is_out_of_range_later_goes_to_the_handler_in_parts():
    compiled = rl.compile(indexed, fullgraph=False)
    for args in [(rl.ones(4), 9), (rl.ones(4), 3), (rl.ones(2), 9), (rl.ones(2), -7), (rl.ones(4), 9)]:
        assert described(compiled(*args)) == described(indexed(*args))


@WAYS
def test_scopes_and_ends_around_an_error_run_once(options):
    compiled = rl.compile(cleaned, **options)
    for sizes in ((4, 3), (5, 2), (4, 4), (4, 3)):
        log: list[str] = []
        expected: list[str] = []
        args = [rl.ones(size) for size in sizes]
        assert described(compiled(*args, log)) == described(cleaned(*args, expected))
        assert log == expected


@pytest.mark.parametrize("function", [added, asked])
def test_a_handled_error_is_part_of_one_graph(function):
    compiled = rl.compile(function, fullgraph=False)
    args = (rl.ones(4), rl.ones(3))[: function.__code__.co_argcount]
    compiled(*args)
    assert rl.compiler.graph_count() == 1
    assert not rl.compiler.explain(function)(*args).breaks


def test_every_way_to_ask_for_the_text_is_part_of_a_graph():
    def written(x, y):
        try:
            return x + y
        except RuntimeError as error:
            return str(error), f"{error}", "{}".format(error), error.__str__(), repr(error), x * 2  # noqa: UP032

    compiled = rl.compile(written, fullgraph=True)
    for args in ((rl.ones(4), rl.ones(3)), (rl.ones(5), rl.ones(2)), (rl.ones(4), rl.ones(4))):
        assert described(compiled(*args)) == described(written(*args))


def test_sizes_stay_open_where_nothing_fails():
    compiled = rl.compile(added, fullgraph=True)
    for size in (2, 3, 5):
        compiled(rl.ones(size), rl.ones(size))
    assert rl.compiler.graph_count() == 1
    compiled(rl.ones(4), rl.ones(3))  # a graph for these sizes alone
    compiled(rl.ones(7), rl.ones(7))
    assert rl.compiler.graph_count() == 2


def test_an_error_that_no_handler_takes_is_that_of_eager_code():
    def unhandled(x, y):
        try:
            return x + y
        except KeyError:
            return x

    compiled = rl.compile(unhandled, fullgraph=False)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shapes do not broadcast"):
            compiled(rl.ones(4), rl.ones(3))
    assert compiled(rl.ones(3), rl.ones(3)).tolist() == [2.0] * 3


class Unwilling:
    def __add__(self, other):
        return NotImplemented

    __radd__ = __add__


OF_NUMBERS = {
    "added": lambda n: n + Unwilling(),
    "added from the right": lambda n: Unwilling() + n,
    "joined": lambda n: "a" + n,
    "ordered": lambda n: n < Unwilling(),
    "measured": lambda n: len(n),
    "called": lambda n: n(),
    "an item": lambda n: n[0],
    "iterated": lambda n: [*n],
    "multiplied as a matrix": lambda n: n @ 2,
    "times a list": lambda n: [1] * (n + 0.5),
}


@pytest.mark.parametrize("number", [3, 2.5])
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_errors_name_the_class_of_a_number_of_the_run_time(name, number):
    ask = OF_NUMBERS[name]

    def program(x, n):
        return x * n, ask(n)

    texts = []
    for run in (program, rl.compile(program, fullgraph=True), rl.compile(program, fullgraph=False)):
        with pytest.raises(TypeError) as raised:
            run(rl.ones(1), number)
        texts.append(str(raised.value))
    assert texts[0] == texts[1] == texts[2]


class Told(Exception):
    def __str__(self):
        return "told " + super().__str__()


HELD = {"plain": ValueError("first"), "told": Told("first"), "key": KeyError("first"), "system": OSError(2, "first")}


def noted(x):
    HELD["plain"].add_note("again")
    return x * 2, len(HELD["plain"].__notes__)


def changed(x):
    HELD["plain"].args = (HELD["plain"].args[0] + "!",)
    return x * 2, str(HELD["plain"])


def raised(x):
    try:
        raise HELD["told"]
    except Told as error:
        return x * 2, f"{error}"


READS = {
    "text": lambda x: (x * 2, str(HELD["plain"]), f"{HELD['told']}", "{}".format(HELD["key"])),
    "representation": lambda x: (x * 2, repr(HELD["plain"]), [repr(one) for one in HELD.values()]),
    "arguments": lambda x: (x * 2, HELD["plain"].args, HELD["system"].errno, HELD["system"].strerror),
    "in a list": lambda x: (x * 2, str(list(HELD.values()))),
    "noted": noted,
    "changed": changed,
    "raised": raised,
}


@pytest.mark.parametrize("name", READS)
def test_an_exception_that_was_there_before_is_read_at_each_call(name):
    def seen(function):
        found = []
        for text in ("first", "first", "second", "second", "third"):
            for error in HELD.values():
                error.args = (text,)
            HELD["system"].errno, HELD["system"].strerror = len(text), text
            found.append(function(rl.ones(2))[1:])
        vars(HELD["plain"]).pop("__notes__", None)
        return found

    expected = seen(READS[name])
    assert seen(rl.compile(READS[name])) == expected
    with pytest.raises(CompileError, match="one graph cannot hold this"):
        rl.compile(READS[name], fullgraph=True)(rl.ones(2))


def test_a_view_of_a_dict_is_read_at_each_call():
    held = {"a": 1.0}
    shown = MappingProxyType(held)
    compiled = rl.compile(lambda x: x * shown["a"])
    for value in (1.0, 2.0, 3.0):
        held["a"] = value
        assert compiled(rl.ones(())).item() == value
