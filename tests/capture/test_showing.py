"""Objects of C that were there before, and whatever else shows what changes between calls: each call sees it."""

from __future__ import annotations

import array
import collections
import contextvars
import csv
import ctypes
import decimal
import functools
import io
import itertools
import operator
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, get_type_hints
from xml.etree import ElementTree

import numpy as np
import pytest

import rushlight as rl
from rushlight.support.errors import CompileError

WAYS = {"parts": False, "whole": True}
_CALLS = 4
_VARIABLE = contextvars.ContextVar[int]("_VARIABLE")
shown = 0


class Plain:
    """An object of the program."""

    b = 0

    def __init__(self) -> None:
        self.a = 1


class Named(ElementTree.Element):
    """A class of the program's that derives from one of C."""


class Bytes(array.array):
    """Another one."""


class Record(ctypes.Structure):
    """And another one."""

    _fields_ = (("x", ctypes.c_int),)


KEPT: list[Any] = [Plain()]
LOG: dict[int, int] = {}


def counted(value: Any) -> None:
    Plain.b = value.get("b", 0) + 1


def element(kind: type[Any] = ElementTree.Element) -> Any:
    made = kind("a", k="2")
    made.text = "1"
    return made


def renamed(value: Any) -> None:
    value.__name__ += "x"


def documented(value: Any) -> None:
    value.__doc__ = f"{value.__doc__} more"


def annotated(value: Any) -> None:
    value.__annotations__[f"a{len(value.__annotations__)}"] = int


def deeper(value: Any) -> None:
    value.text = str(int(value.text) + 1)
    ElementTree.SubElement(value, "b")
    value.set("k", value.get("k") + "0")


def more(value: Any) -> None:
    value.append(1)


def greater(value: Any) -> None:
    value[0] += 1


def precise(value: Any) -> None:
    decimal.getcontext().prec += 1


def more_precise(value: Any) -> None:
    value.prec += 1


def set_variable(value: Any) -> None:
    value.run(lambda: _VARIABLE.set(value.get(_VARIABLE, 0) + 1))


def numbered() -> Any:
    yield from range(20)


def a_function() -> Any:
    def function(x: int = 1) -> int:
        return x

    return function


def cell() -> Any:
    value = 1

    def inner() -> int:
        return value

    return inner.__closure__[0]


def emptied(value: Any) -> None:
    value.cell_contents += 1


# How an object is made, what is read of it, and what changes it.
CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], float], Callable[[Any], Any]]] = {
    "text of an element": (element, lambda o: float(o.text), deeper),
    "length of an element": (element, len, deeper),
    "truth of an element": (lambda: Named("a"), bool, lambda o: ElementTree.SubElement(o, "b")),
    "dict of an element": (element, lambda o: float(o.attrib["k"]), deeper),
    "method of an element": (element, lambda o: float(o.get("k")), deeper),
    "iterator of an element": (element, lambda o: len([part.tag for part in o]), deeper),
    "text of a subclass": (lambda: element(Named), lambda o: float(o.text), deeper),
    "item of an array": (lambda: array.array("d", [1, 2]), operator.itemgetter(0), greater),
    "length of an array": (lambda: array.array("d", [1, 2]), len, more),
    "sum of an array": (lambda: array.array("d", [1, 2]), sum, more),
    "item of a subclass": (lambda: Bytes("d", [1, 2]), operator.itemgetter(0), greater),
    "bytes in a view": (lambda: memoryview(bytearray(b"ab")), operator.itemgetter(0), greater),
    "form of numpy's": (lambda: np.zeros(4), lambda o: o.ndim, lambda o: setattr(o, "shape", (2, 2))),
    "flags of numpy's": (lambda: np.zeros(4), lambda o: o.flags.writeable, lambda o: o.setflags(write=False)),
    "record of numpy's": (lambda: np.zeros(1, dtype="i4,i4")[0], operator.itemgetter(0), greater),
    "subclass of numpy's": (lambda: np.zeros(2).view(np.recarray), operator.itemgetter(0), greater),
    "state of a generator": (
        lambda: np.random.default_rng(0),
        lambda o: o.bit_generator.state["state"]["state"] % 1000,
        lambda o: o.random(),
    ),
    "random numbers": (lambda: random.Random(0), lambda o: o.random(), lambda o: o.random()),
    "text of a counter": (itertools.count, lambda o: len(repr(o)), lambda o: [next(o) for _ in range(20)]),
    "line of a reader": (lambda: csv.reader("abcdef"), lambda o: o.line_num, next),
    "whether a lock is taken": (threading.Lock, lambda o: o.locked(), lambda o: o.acquire(blocking=False)),
    "whether a stream is closed": (io.StringIO, lambda o: o.closed, lambda o: o.close()),
    "context of decimals": (
        lambda: decimal.Context(prec=3),
        lambda o: o.prec,
        more_precise,
    ),
    "quotients of decimals": (
        lambda: decimal.Decimal(1),
        lambda o: float(o / 3) * 1e6 % 1,
        precise,
    ),
    "a context variable": (contextvars.Context, lambda o: o.get(_VARIABLE, 0), set_variable),
    "variables in a context": (contextvars.Context, len, set_variable),
    "number of C's": (lambda: ctypes.c_int(1), lambda o: o.value, lambda o: setattr(o, "value", o.value + 1)),
    "field of a structure": (lambda: Record(1), lambda o: o.x, lambda o: setattr(o, "x", o.x + 1)),
    "item of C's": (lambda: (ctypes.c_int * 2)(1, 2), operator.itemgetter(0), greater),
    "where a pointer leads": (
        lambda: ctypes.pointer(ctypes.c_int(1)),
        lambda o: o.contents.value,
        lambda o: setattr(o.contents, "value", o[0] + 1),
    ),
    "through a proxy": (
        lambda: weakref.proxy(KEPT[0]),
        lambda o: o.a,
        lambda o: setattr(KEPT[0], "a", KEPT[0].a + 1),
    ),
    "text of a namespace": (
        lambda: types.SimpleNamespace(a=1),
        lambda o: len(repr(o)),
        lambda o: setattr(o, "a", o.a * 10),
    ),
    "a namespace as a dict": (lambda: types.SimpleNamespace(a=1), lambda o: vars(o)["a"], lambda o: setattr(o, "a", 5)),
    "views of a dict": (LOG.values, sum, lambda o: LOG.update({len(LOG): 1})),
    "view of a class": (lambda: vars(Plain), lambda o: o.get("b", 0), counted),
    "classes below": (
        lambda: type("K", (), {}),
        lambda o: len(o.__subclasses__()),
        lambda o: KEPT.append(type("L", (o,), {})),
    ),
    "name of a class": (lambda: type("K", (), {}), lambda o: len(o.__name__), renamed),
    "annotations of a class": (lambda: type("K", (), {}), lambda o: len(o.__annotations__), annotated),
    "name of a function": (a_function, lambda o: len(o.__name__), renamed),
    "text of a function": (a_function, lambda o: len(o.__doc__ or ""), documented),
    "annotations of a function": (a_function, lambda o: len(o.__annotations__), annotated),
    "a cell": (cell, lambda o: o.cell_contents, emptied),
    "whether a generator waits": (numbered, lambda o: o.gi_suspended, next),
    "list in a slice": (lambda: slice([1], 2), lambda o: len(o.start), lambda o: o.start.append(1)),
    "method of a list": (lambda: [1].__len__, lambda o: o(), lambda o: o.__self__.append(1)),
}


def in_a_closure(value: Any, read: Callable[[Any], float]) -> Callable[..., Any]:
    return lambda x, given: x * float(read(value))


def in_the_arguments(value: Any, read: Callable[[Any], float]) -> Callable[..., Any]:
    return lambda x, given: x * float(read(given))


def in_an_object(value: Any, read: Callable[[Any], float]) -> Callable[..., Any]:
    held = Plain()
    held.a = value
    return lambda x, given: x * float(read(held.a))


HOLDERS = {"closure": in_a_closure, "arguments": in_the_arguments, "object": in_an_object}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("held", HOLDERS)
@pytest.mark.parametrize("name", CASES)
def test_each_call_sees_what_c_holds(name: str, held: str, way: str) -> None:
    make, read, change = CASES[name]

    def seen(compiled: bool) -> list[float]:
        found = []
        with decimal.localcontext(decimal.Context(prec=8)):
            KEPT[0].a = 1
            LOG.clear()
            Plain.b = 0
            value = make()
            function = HOLDERS[held](value, read)
            called = rl.compile(function, backend="eager", fullgraph=WAYS[way]) if compiled else function
            for _ in range(_CALLS):
                found.append(called(rl.ones(()), value).item())
                change(value)
        return found

    expected = seen(False)
    try:
        assert seen(True) == expected
    except CompileError as refused:
        assert way == "whole" and refused.code in ("C002", "C003")


@pytest.mark.parametrize("way", WAYS)
def test_what_c_holds_is_part_of_one_graph(way: str) -> None:
    """Plain attributes of an object of C are compared."""
    stream, context, local = io.StringIO(), decimal.Context(prec=7), threading.local()
    local.scale = 2.0

    def function(x: rl.Tensor) -> rl.Tensor:
        return x if stream.closed else x * context.prec * local.scale

    rl.compiler.reset()
    compiled = rl.compile(function, backend="eager", fullgraph=WAYS[way])
    for _ in range(3):
        assert compiled(rl.ones(())).item() == 14
    assert rl.compiler.graph_count() == 1
    local.scale = 3.0
    assert compiled(rl.ones(())).item() == 21
    stream.close()
    assert compiled(rl.ones(())).item() == 1


def imported(held: Plain) -> int:
    from tests.capture.test_showing import shown

    return shown


DICTS: dict[str, Callable[[Plain], Any]] = {
    "vars": lambda held: vars(held)["a"],
    "dict": lambda held: held.__dict__["a"],
    "values": lambda held: next(iter(vars(held).values())),
    "length": lambda held: len(vars(held)),
    "get": lambda held: held.__dict__.get("b", 7) + held.a,
    "both": lambda held: held.a * 100 + len(held.__dict__),
    "globals": lambda held: operator.getitem(globals(), "shown"),
    "absent": lambda held: 5 if "absent" in globals() else 6,
    "names": lambda held: len(dir(held)),
    "names in a module": lambda held: "absent" in dir(sys.modules[__name__]),
    "imported": imported,
    "of a module": lambda held: vars(sys.modules[__name__])["shown"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DICTS)
def test_variables_that_are_read_as_a_dict_are_those_of_the_call(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, read = Plain(), DICTS[name]
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "shown", 1)
    compiled = rl.compile(lambda x: x * read(held), backend="eager", fullgraph=WAYS[way])
    for call in range(6):
        try:
            assert compiled(rl.ones(())).item() == read(held)
        except CompileError:
            assert way == "whole" and name in ("globals", "absent", "names in a module", "of a module")
        held.a += 1
        monkeypatch.setattr(module, "shown", call)
        if call == 2:
            vars(held)["b"] = 3
            monkeypatch.setattr(module, "absent", 3, raising=False)


class Reading:
    """What holds others at each call, and how it is read."""

    def __init__(self, name: str) -> None:
        self.a: Any = {"list": [None], "dict": {0: None}, "counter": collections.Counter({0: 1})}.get(name)

    def put(self, value: Any) -> None:
        self.a[0] = value


CHANGING: dict[str, Callable[[int], Any]] = {
    "text": lambda call: "a" * call,
    "tuple": lambda call: (call, "a" * call),
    "list": lambda call: [call] * call,
    "deque": lambda call: collections.deque([call] * call),
    "object": lambda call: [Plain()] * call,
    "function": lambda call: [a_function()] * call,
}
ITEMS: dict[str, Callable[[Any], Any]] = {
    "item": lambda a: a[0],
    "copy": lambda a: a.copy()[0],
    "values": lambda a: next(iter(a.values() if isinstance(a, dict) else a)),
    "partial": lambda a: functools.partial(lambda a: a[0], a)(),
}


@pytest.mark.parametrize("kind", ["list", "dict"])
@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("read", ITEMS)
def test_items_that_are_others_at_each_call_are_those_of_the_call(kind: str, name: str, read: str) -> None:
    held = Reading(kind)
    compiled = rl.compile(lambda x: x * len(ITEMS[read](held.a)), backend="eager")
    for call in [*range(1, 16), 3, 4]:
        held.put(CHANGING[name](call))
        assert compiled(rl.ones(())).item() == len(ITEMS[read](held.a)), call


@pytest.mark.parametrize("name", ["text", "list", "object"])
def test_attributes_of_modules_that_are_others_at_each_call_are_those_of_the_call(name: str) -> None:
    class Held(rl.nn.Module):
        value: Any = None

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return x * len(self.value)

    module = Held()
    compiled = rl.compile(module, backend="eager")
    for call in range(1, 16):
        module.value = CHANGING[name](call)
        assert compiled(rl.ones(())).item() == call


FORMS: dict[str, Callable[[Any], float]] = {
    "size": lambda t: t.shape[0],
    "length": len,
    "dims": lambda t: t.dim(),
    "stride": lambda t: t.stride()[0],
    "dtype": lambda t: 1 if t.dtype is rl.float32 else 2,
    "like it": lambda t: rl.ones_like(t).sum(),
    "in its dtype": lambda t: rl.full((), 1 / 3).to(t.dtype).double(),
    "requires a gradient": lambda t: t.requires_grad,
    "has an attribute": lambda t: hasattr(t, "tag"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("held", ["list", "object"])
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_tensors_that_no_operator_is_given_are_those_of_the_call(name: str, held: str, way: str) -> None:
    tensor, holder, read = rl.ones(2), Plain(), FORMS[name]
    values = [tensor]
    holder.a = tensor  # pyright: ignore[reportAttributeAccessIssue]

    def function(x: rl.Tensor) -> rl.Tensor:
        return x * read(values[0] if held == "list" else holder.a)

    compiled = rl.compile(function, backend="eager", fullgraph=WAYS[way])
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: tensor.requires_grad_(True),
        lambda: tensor.requires_grad_(False),
        lambda: setattr(tensor, "data", rl.ones(5, 3)),
        lambda: setattr(tensor, "data", rl.ones(3, 4, dtype=rl.float64)),
        lambda: setattr(tensor, "data", rl.ones(4, 4).T),
        lambda: setattr(tensor, "tag", 1),
    ]
    for change in changes:
        change()
        assert compiled(rl.ones(())).item() == function(rl.ones(())).item()


class Table:
    """A class that is asked for items, and has a factor which objects may have too."""

    items = {"a": 1}
    factor = 0

    def __class_getitem__(cls, key: str) -> int:
        return cls.items[key]

    def __enter__(self) -> Table:
        self.factor += 1
        return self

    def __exit__(self, *error: object) -> None:
        self.factor += 10


@pytest.mark.parametrize("way", WAYS)
def test_items_of_a_class_are_those_of_the_call(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = rl.compile(lambda x: x * Table["a"], backend="eager", fullgraph=WAYS[way])  # pyright: ignore[reportInvalidTypeArguments]
    for value in (1, 1, 2, 3):
        monkeypatch.setitem(Table.items, "a", value)
        assert compiled(rl.ones(())).item() == value


@pytest.mark.parametrize("way", WAYS)
def test_an_attribute_that_the_trace_sets_first_is_no_condition(way: str) -> None:
    table = Table()

    def function(x: rl.Tensor) -> rl.Tensor:
        with table as entered:
            return x * entered.factor

    compiled = rl.compile(function, backend="eager", fullgraph=WAYS[way])
    for call in range(4):
        assert compiled(rl.ones(())).item() == (1 if call == 0 else call + 1)
        assert table.factor == (11 if call == 0 else call + 11)
        table.factor = call + 1


@pytest.mark.parametrize("way", WAYS)
def test_code_that_is_read_of_a_function_is_that_of_the_call(way: str) -> None:
    asked = a_function()
    codes = [asked.__code__, (lambda x, y, z: None).__code__]
    compiled = rl.compile(lambda x: x * asked.__code__.co_argcount, backend="eager", fullgraph=WAYS[way])
    for call in range(4):
        asked.__code__ = codes[call % 2]
        assert compiled(rl.ones(())).item() == codes[call % 2].co_argcount


def test_lists_in_tuples_that_grow_at_each_call_are_those_of_the_call() -> None:
    held: tuple[list[int], int] = ([1], 2)
    compiled = rl.compile(lambda x: x * len(held[0]), backend="eager")
    for call in range(1, 12):
        assert compiled(rl.ones(())).item() == call
        held[0].append(call)


def test_keys_that_are_equal_are_told_apart() -> None:
    held: dict[object, int] = {1: 1}
    compiled = rl.compile(lambda x: x * (2 if next(iter(held)) is True else 3), backend="eager")
    for key in (1, True, 1, True):
        held.clear()
        held[key] = 1
        assert compiled(rl.ones(())).item() == (2 if key is True else 3)


@pytest.mark.parametrize("way", WAYS)
def test_a_module_that_is_imported_is_that_of_the_call(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: rl.Tensor) -> rl.Tensor:
        import a_module_of_tests  # pyright: ignore[reportMissingImports]

        return x * a_module_of_tests.factor

    compiled = rl.compile(function, backend="eager", fullgraph=WAYS[way])
    for value in (1, 2, 3):
        module = types.ModuleType("a_module_of_tests")
        module.__dict__["factor"] = value
        monkeypatch.setitem(sys.modules, "a_module_of_tests", module)
        assert compiled(rl.ones(())).item() == value


@pytest.mark.parametrize("way", WAYS)
def test_containers_in_a_class_that_is_shown_are_those_of_the_call(way: str) -> None:
    class Hinted:
        a: int

    compiled = rl.compile(lambda x: x * len(get_type_hints(Hinted)), backend="eager", fullgraph=WAYS[way])
    for call in range(1, 5):
        assert compiled(rl.ones(())).item() == call
        Hinted.__annotations__[f"b{call}"] = int
