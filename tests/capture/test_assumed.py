"""What a graph takes for granted of classes, functions, objects and names: each call sees what has become of them."""

from __future__ import annotations

import array
import collections
import functools
import io
import os
import types
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
from tests.capture.programs.comparison import Description

import rushlight as rl
from rushlight import nn

CALLS = 4
Case = Callable[[], tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]]
CASES: dict[str, Case] = {}
WAYS = {"whole": {"fullgraph": True}, "parts": {"fullgraph": False}}


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


def given(call: int) -> tuple[Any, ...]:
    return (rl.arange(4).float() + call,)


def outcomes(make: Case, options: dict[str, Any] | None) -> list[Any]:
    """What each call gives and prints, and its arguments afterwards."""
    function, arguments = make()
    run = function if options is None else rl.compile(function, **options)
    found: list[Any] = []
    for call in range(CALLS):
        args = arguments(call)
        described, printed = Description(), io.StringIO()
        with redirect_stdout(printed):
            result = run(*args)
        found.append((described.of("result", result), described.of("args", list(args)), printed.getvalue()))
    return found


@case
def class_attributes():
    class Base:
        scale = 1

    class Derived(Base):
        pass

    made = Derived()

    def arguments(call):
        owner = [None, Base, Derived, made][call]
        if owner is not None:
            owner.scale = call + 4
        return given(call)

    return lambda x: x * made.scale, arguments


@case
def methods():
    class Added:
        def run(self, x):
            return x + 1

    made = Added()

    def arguments(call):
        if call == 1:
            Added.run = lambda self, x: x + 5
        if call == 2:
            made.run = lambda x: x + 6
        if call == 3:
            del made.run
            Added.__getattribute__ = lambda self, name: lambda x: x + 9
        return given(call)

    return lambda x: made.run(x), arguments


@case
def descriptors_and_operators():
    class Many:
        @property
        def one(self):
            return 1

        @staticmethod
        def two():
            return 2

        @classmethod
        def three(cls):
            return 3

        def __call__(self, x):
            return x + self.one

        def __len__(self):
            return 4

        def __add__(self, other):
            return other + 10

    made = Many()

    def arguments(call):
        if call == 1:
            Many.one, Many.__len__ = property(lambda self: 11), lambda self: 44
        if call == 2:
            Many.two, Many.__add__ = staticmethod(lambda: 22), lambda self, other: other + 100
        if call == 3:
            Many.three, Many.__call__ = classmethod(lambda cls: 33), lambda self, x: x - 1
        return given(call)

    return lambda x: made(x) * made.two() + made.three() + len(made) + (made + x), arguments


@case
def bases_and_classes():
    class One:
        def run(self, x):
            return x + 1

    class Two:
        def run(self, x):
            return x + 2

    class Derived(One):
        pass

    class Other(Derived):
        def run(self, x):
            return x + 3

    made = Derived()

    def arguments(call):
        if call == 1:
            Derived.__bases__ = (Two,)
        if call == 2:
            made.__class__ = Other
        return given(call)

    return lambda x: (made.run(x), isinstance(made, Two), isinstance(made, Other)), arguments


@case
def forwards_of_modules():
    class Doubled(nn.Module):
        def forward(self, x):
            return x * 2

    class Fifth(Doubled):
        def forward(self, x):
            return x * 5

    module = Doubled()

    def arguments(call):
        if call == 1:
            Doubled.forward = lambda self, x: x * 3
        if call == 2:
            module.forward = lambda x: x * 4
        if call == 3:
            del module.forward
            module.__class__ = Fifth
        return given(call)

    return module, arguments


@case
def code_and_defaults():
    entries, ones = {"a": 1}, rl.ones(4)

    def called(x, factor=1, *, more=2, items=entries, base=ones):
        return x * factor + more + items["a"] + base

    def other(x, factor=1, *, more=2, items=entries, base=ones):
        return x - factor - more - items["a"] - base

    def arguments(call):
        if call == 1:
            called.__defaults__ = (5,)
            called.__kwdefaults__["items"]["a"] = 7
        if call == 2:
            called.__kwdefaults__["more"] = 9
            called.__kwdefaults__["base"].add_(1)
        if call == 3:
            called.__code__ = other.__code__
            called.__kwdefaults__ = {"more": 1, "items": {"a": 2}, "base": rl.zeros(4)}
        return given(call)

    return lambda x: called(x) * 2, arguments


@case
def attributes_of_functions():
    def called(x):
        return x * called.scale + len(called.items)

    called.scale, called.items = 1, []

    def arguments(call):
        called.scale = call
        called.items.append(1)
        return given(call)

    return lambda x: called(x), arguments


@case
def names_before_builtins():
    space = {"__name__": "a_module"}
    exec("def run(x): return x * len([1, 2])", space)

    def arguments(call):
        if call == 1:
            space["len"] = lambda values: 10
        if call == 2:
            del space["len"]
        return given(call)

    return space["run"], arguments


@case
def attributes_that_come():
    class Plain:
        pass

    class Slots:
        __slots__ = ("late", "number", "part")

    plain, slots = Plain(), Slots()
    slots.number, slots.part = 1, Slots()
    slots.part.number = [1]

    def arguments(call):
        if call == 1:
            plain.late = 5
        if call == 2:
            slots.late, slots.number = 7, 2
        if call == 3:
            slots.part.number.append(1)
            del plain.late
        return given(call)

    def run(x):
        y = x * getattr(plain, "late", 1) + slots.number + len(slots.part.number)
        return y * slots.late if hasattr(slots, "late") else y

    return run, arguments


@case
def bound_methods_and_partials():
    class Scaled:
        factor = 1

        def run(self, x, more=0):
            return x * self.factor + more

    made, entries = Scaled(), {"a": 1}
    bound, part, many, get = made.run, functools.partial(made.run, more=1), [made.run], entries.get

    def arguments(call):
        made.factor, entries["a"], part.keywords["more"] = call, call * 2, call * 3
        return given(call)

    return lambda x: (bound(x), part(x), many[0](x) + get("a")), arguments


@case
def objects_in_collections():
    class Scaled:
        factor = 1

    made = Scaled()
    queue, unordered, nested = collections.deque([made]), {made}, (1, (made,))
    shown = types.MappingProxyType({"a": made})

    def arguments(call):
        made.factor = call
        return given(call)

    def run(x):
        total = queue[0].factor + sum([one.factor for one in unordered])
        return x * total + nested[1][0].factor + shown["a"].factor

    return run, arguments


@case
def attributes_of_tensors():
    weight = rl.ones(4)
    weight.tag = 2

    def arguments(call):
        weight.tag = call
        return given(call)

    return lambda x: x * weight.tag + weight, arguments


@case
def gradients_that_are_wanted():
    weight, layer = rl.ones(4, requires_grad=True), nn.Linear(4, 2)

    def arguments(call):
        weight.requires_grad_(call % 2 == 0)
        for parameter in layer.parameters():
            parameter.requires_grad_(call < 2)
        return given(call)

    return lambda x: ((weight * x).requires_grad, layer(x).requires_grad), arguments


@case
def the_environment():
    def arguments(call):
        os.environ["RUSHLIGHT_NOT_A_SETTING"[10:]] = str(call)
        return given(call)

    return lambda x: x * int(os.environ.get("NOT_A_SETTING", "7")), arguments


@case
def arrays():
    numbers, words = np.arange(4, dtype=np.float32), array.array("i", [1, 2])

    def arguments(call):
        numbers[1] += 1
        words[0] = call
        return given(call)

    return lambda x: (x + rl.tensor(numbers), x * words[0] + len(words)), arguments


@case
def arguments_that_are_one():
    def run(one, other, entries):
        one.append(1)
        entries[0]["new"] = 1
        return one is other, len(other), entries[0] is entries[1], sorted(entries[1])

    def arguments(call):
        one, entry = [call], {"a": 1}
        return (one, one, [entry, entry]) if call % 2 else (one, [call], [entry, dict(entry)])

    return run, arguments


@case
def keys_that_are_equal():
    def arguments(call):
        return *given(call), [{1: 2}, {True: 3}, {1.0: 4}, {1: 5}][call]

    return lambda x, entries: (x * entries[1], list(entries)), arguments


@case
def none_in_place_of_an_object():
    class Scaled:
        factor = 3

        def __init__(self):
            self.pattern = iter([1])

    def run(x, made=None, names=None):
        if names is not None:
            x = x + len(names)
        return x * 2 if made is None else x * made.factor

    def arguments(call):
        return [(*given(0), Scaled(), {1}), given(1), (*given(2), None, {2, 3}), (*given(3), Scaled())][call]

    return run, arguments


@case
def decorated_by_a_scope():
    state, weight = {"count": 0}, rl.ones(4, requires_grad=True)

    @rl.no_grad()
    def updated(x):
        state["count"] += 1
        state[state["count"]] = x.clone()
        weight.mul_(0.5)
        return rl.is_grad_enabled()

    def run(x):
        y = (weight * x).sum()
        return updated(x), y.detach(), rl.is_grad_enabled(), state["count"], [*state]

    return run, given


@case
def optimizers_of_the_program():
    class Counting(rl.optim.Optimizer):
        def __init__(self, parameters, lr):
            super().__init__(parameters, {"lr": lr})
            self.calls = 0

        @rl.no_grad()
        def step(self, closure=None):
            self.calls += 1
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.add_(parameter.grad, alpha=-group["lr"] * self.calls)

    weight = rl.ones(4, requires_grad=True)
    optimizer = Counting([weight], 0.1)

    def run(x):
        optimizer.zero_grad()
        loss = (weight * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach(), optimizer.calls, weight.detach().clone()

    return run, given


@case
def numbers_in_errors_of_python():
    def run(x, number):
        try:
            return {}[number]
        except KeyError as error:
            return x * 2, error, error.args

    return run, lambda call: (*given(call), call)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_each_call_sees_what_has_changed(name: str, way: str) -> None:
    expected = outcomes(CASES[name], None)
    assert outcomes(CASES[name], WAYS[way]) == expected


def test_what_the_graph_does_not_read_makes_no_graph() -> None:
    class Scaled:
        factor, other = 2, 1

        def run(self, x: Any) -> Any:
            return x * self.factor

    made = Scaled()
    for way in WAYS.values():
        rl.compiler.reset()
        compiled = rl.compile(lambda x: made.run(x), **way)
        for call in range(CALLS):
            Scaled.other = made.another = call
            assert compiled(rl.ones(1)).item() == 2
        assert rl.compiler.graph_count() == 1
