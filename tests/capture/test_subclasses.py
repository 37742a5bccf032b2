"""Tensors of subclasses in compiled functions, and modes around and within: as uncompiled, to the last bit."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.overrides import TorchFunctionMode, _disabled_torch_function_impl
from rushlight.support import events
from rushlight.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from rushlight.utils._pytree import tree_map

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LoggingMode: Any = example("logging_mode").LoggingMode
TwoTensor: Any = example("two_tensor").TwoTensor
int8_weights: Any = example("int8_weights")
Int8Weight: Any = int8_weights.Int8Weight


class Rounded(rl.Tensor):
    """A matrix in steps of `step` with a shape in its context, like packed weights: operators get it as floats."""

    __torch_function__ = _disabled_torch_function_impl

    @staticmethod
    def __new__(cls, steps: Any, step: float, shape: Any, requires_grad: bool = False) -> Any:
        return rl.Tensor._make_wrapper_subclass(cls, shape, dtype=rl.float32, requires_grad=requires_grad)

    def __init__(self, steps: Any, step: float, shape: Any, requires_grad: bool = False) -> None:
        assert self.sum  # attributes are not there yet
        self.steps, self.step, self.whole = steps, step, tuple(shape)

    def __tensor_flatten__(self) -> Any:
        return ["steps"], {"step": self.step, "shape": self.whole, "kind": "even"}

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Rounded(inner["steps"], context["step"], context["shape"])

    def floats(self) -> Any:
        return (self.steps.to(rl.float32) * self.step).reshape(self.whole)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("detach", "clone", "alias"):
            return cls(func(args[0].steps), args[0].step, args[0].whole)
        plain = tree_map(lambda one: one.floats() if isinstance(one, cls) else one, [list(args), kwargs or {}])
        return return_and_correct_aliasing(func, args, kwargs, func(*plain[0], **plain[1]))


class Named(rl.Tensor):
    """A subclass with elements of its own, and an attribute."""


def pair(requires_grad: bool = False, rows: int = 2) -> Any:
    a = rl.arange(rows * 3).reshape(rows, 3) / 4 + 0.5
    return TwoTensor(a, a * 10, requires_grad=requires_grad)


def plain(value: Any) -> Any:
    """What can be compared of a value: elements, strides, class."""
    if isinstance(value, TwoTensor):
        return "two", plain(value.a), plain(value.b), tuple(value.shape), value.stride()
    if isinstance(value, rl.Tensor):
        return type(value).__name__, value.tolist(), value.stride(), value.requires_grad
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return type(value)(map(plain, value)) if type(value) in (tuple, list) else value


def outcome(function: Any, trained: bool, make: Any = pair) -> Any:
    """What a function gives, what it leaves behind of its argument, and the gradient."""
    seen = []
    for _ in range(2):
        leaf = make(trained)
        x = leaf * 1 if trained else leaf
        result = function(x)
        first = result[0] if isinstance(result, (tuple, list)) else result
        if trained:
            (first * first).sum().backward()
        seen.append((plain(result), plain(x.detach()), x._version, plain(leaf.grad) if trained else None))
    return seen


def broken() -> list[str]:
    return [event.code for event in events.events("graph_break")]


PROGRAMS: dict[str, Any] = {
    "in place": lambda x: x.mul_(2).sin(),
    "view in place": lambda x: (x.view(-1).mul_(2), x.sin())[1],
    "view of a view in place": lambda x: (x.t()[1].mul_(x[0, 0]), x.exp())[1],
    "new dims in place": lambda x: (x * 1).transpose_(0, 1).sin(),
    "dims in place": lambda x: x.transpose_(0, 1).sin(),
    "product": lambda x: (x.t() @ x).relu().sum(0),
    "several": lambda x: [x.sum(0), {"all": x * 2}, x],
    "views": lambda x: (x.sin(), x.view(-1), x.t()),
    "with plain": lambda x: x * rl.ones(3).cumsum(0) + 1,
    "written and returned": lambda x: x.add_(1),
    "twice the same": lambda x: [x.sin()] * 2,
}
UNCOMPILED = {"dims in place"}  # a graph does not change the dims of what it is given


@pytest.mark.row("2.10")
@pytest.mark.parametrize("trained", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_two_tensors_do_what_they_do_uncompiled(name: str, trained: bool) -> None:
    events.reset()
    assert outcome(rl.compile(PROGRAMS[name]), trained) == outcome(PROGRAMS[name], trained)
    assert bool(broken()) == (name in UNCOMPILED)
    assert rl.compiler.graph_count() == (name not in UNCOMPILED)


@pytest.mark.row("2.10")
@pytest.mark.parametrize("trained", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("name", ["in place", "view in place", "dims in place", "product"])
def test_programs_on_packed_weights_do_what_they_do_uncompiled(name: str, trained: bool) -> None:
    def product(weight: Any, x: Any) -> Any:
        return PROGRAMS[name](x @ weight) * weight.sum()

    def run(function: Any) -> Any:
        weight = Rounded(rl.arange(6).to(rl.int8), 0.5, (2, 3), requires_grad=trained)
        x = rl.ones(4, 2, requires_grad=trained)
        result = function(weight, x)
        if trained:
            result.square().sum().backward()
        return plain(result), plain(x.grad), plain(weight.grad)

    assert run(rl.compile(product, fullgraph=True)) == run(product)


@pytest.mark.row("1.6")
def test_results_keep_their_identity() -> None:
    compiled = rl.compile(lambda x, y: (x, [x, y, y * 2], y), fullgraph=True)
    x, y = pair(), rl.ones(3)
    first, (second, third, new), last = compiled(x, y)
    assert first is x and second is x and third is y and last is y and new.tolist() == [2, 2, 2]
    once, again = rl.compile(lambda x: [x * 2] * 2, fullgraph=True)(x)
    assert once is again


def test_state_of_subclasses_is_taken_apart() -> None:
    module = nn.Linear(3, 2)
    module.weight = nn.Parameter(pair())

    def step(call: Any) -> Any:
        module.zero_grad()
        call(rl.ones(4, 3)).square().sum().backward(TwoTensor(rl.tensor(1.0), rl.tensor(2.0)))
        return plain(module.weight.grad)

    compiled = rl.compile(module, fullgraph=True)
    assert step(compiled) == step(module)
    rl.compiler.reset()
    step(compiled)
    with rl.no_grad():
        module.weight.a.add_(1)
    assert step(compiled) == step(module)
    assert rl.compiler.graph_count() == 1
    module.weight = nn.Parameter(pair() * 3)
    assert step(compiled) == step(module)


@pytest.mark.row("3.5")
def test_sizes_in_contexts_stay_open() -> None:
    compiled = rl.compile(lambda w, x: (x @ w).sin(), fullgraph=True)
    for size in (8, 16, 32):
        weight = Rounded(rl.arange(size * 2).to(rl.int8), 0.5, (size, 2))
        x = rl.ones(3, size)
        assert compiled(weight, x).tolist() == (x @ weight.floats()).sin().tolist()
    assert rl.compiler.graph_count() <= 2


@pytest.mark.row("3.5")
def test_wrappers_are_made_within_a_graph() -> None:
    def function(x: Any) -> Any:
        weight = Rounded((x * 2).to(rl.int8), 0.25, x.shape)
        return weight, weight + 1

    events.reset()
    compiled = rl.compile(function)
    for rows in (2, 3):
        given = rl.arange(rows * 2).reshape(rows, 2).float()
        made, result = compiled(given)
        assert type(made) is Rounded and made.whole == (rows, 2) and type(made.whole[0]) is int
        assert made.floats().tolist() == (given / 2).tolist() and result.tolist() == (given / 2 + 1).tolist()
    assert rl.compiler.graph_count() == 1 and not broken()


@pytest.mark.row("3.5")
def test_other_contexts_are_other_graphs() -> None:
    compiled = rl.compile(lambda w: w + 1, fullgraph=True)
    for step, kind in ((0.5, "even"), (0.25, "even"), (0.25, "odd")):
        weight = Rounded(rl.arange(6).to(rl.int8), step, (2, 3))
        flatten = Rounded.__tensor_flatten__
        context = {**flatten(weight)[1], "kind": kind}
        weight.__dict__["steps"] = weight.steps + (kind == "odd")
        Rounded.__tensor_flatten__ = lambda self, context=context: (["steps"], context)
        try:
            assert compiled(weight).tolist() == (weight.floats() + 1).tolist()
        finally:
            Rounded.__tensor_flatten__ = flatten
    assert rl.compiler.graph_count() == 2


def test_wrappers_of_wrappers_are_taken_apart() -> None:
    def nested(requires_grad: bool = False) -> Any:
        return TwoTensor(pair(), pair() * 3, requires_grad=requires_grad)

    function = PROGRAMS["product"]
    for trained in (False, True):
        assert outcome(rl.compile(function, fullgraph=True), trained, nested) == outcome(function, trained, nested)


def test_what_is_known_of_a_wrapper_is_not_taken_for_another_one() -> None:
    """Of the same forms: of plain tensors, of wrappers, with gradients, and described by other objects."""

    def doubled(one: Any, other: Any) -> Any:
        return one * 2 + other

    compiled = rl.compile(doubled, fullgraph=True)
    flatten, kinds = TwoTensor.__tensor_flatten__, [object(), object()]
    simple, other = pair(), pair() + 1
    nested = TwoTensor(simple, pair() * 3)
    assert simple.form is nested.form is nested.a.form is simple.a.form
    for _ in range(2):
        for one in (simple, nested, other, pair(requires_grad=True), nested, simple):
            assert plain(compiled(one, simple.a)) == plain(doubled(one, simple.a))
    count = rl.compiler.graph_count()
    try:
        for kind in (*kinds, *kinds):
            TwoTensor.__tensor_flatten__ = lambda self, kind=kind: (flatten(self)[0], kind)
            assert plain(compiled(simple, simple.a)) == plain(doubled(simple, simple.a))
    finally:
        TwoTensor.__tensor_flatten__ = flatten
    assert rl.compiler.graph_count() == count + len(kinds)


def test_subclasses_with_elements_are_kept() -> None:
    def named(requires_grad: bool = False) -> Any:
        result = rl.arange(6).reshape(2, 3).float().as_subclass(Named).requires_grad_(requires_grad)
        result.note = "n"
        return result

    for name, trained in itertools.product(["in place", "view in place", "product", "several"], [False, True]):
        function = PROGRAMS[name]
        compiled = rl.compile(function, fullgraph=True)
        assert outcome(compiled, trained, named) == outcome(function, trained, named)
    doubled = rl.compile(lambda x: (x * 2, x.note), fullgraph=True)
    x = named()
    for note in ("n", "m"):
        x.note = note
        assert doubled(x)[1] == note and type(doubled(x)[0]) is Named


def test_a_container_of_wrappers_may_change() -> None:
    def function(xs: Any, kept: Any) -> Any:
        xs.append(xs[0] * 2)
        kept["new"] = xs[0] + 1
        return len(xs)

    for run in (function, rl.compile(function)):
        for _ in range(2):
            xs, kept = [pair()], {}
            assert run(xs, kept) == 2
            assert plain(xs[1]) == plain(pair() * 2) and plain(kept["new"]) == plain(pair() + 1)


def test_what_a_graph_cannot_hold_is_an_error_of_one_graph() -> None:
    def leaf(x: Any) -> Any:
        return TwoTensor(x, x, requires_grad=True)

    def gradient(x: Any) -> Any:
        return x.grad

    with pytest.raises(rl.RushlightError) as caught:
        rl.compile(leaf, fullgraph=True)(rl.ones(2))
    assert caught.value.code == "C036"
    x = pair(requires_grad=True)
    x.sum().backward()
    with pytest.raises(rl.RushlightError) as caught:
        rl.compile(gradient, fullgraph=True)(x)
    assert caught.value.code == "C036"
    assert rl.compile(leaf)(rl.ones(2)).requires_grad
    assert rl.compile(gradient)(x) is x.grad


class Doubling(TorchDispatchMode):
    """Adds twice."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func.__name__ == "add" else result


class Names(TorchFunctionMode):
    """Writes down what is called."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def under_a_new_mode(x: Any) -> Any:
    with Doubling():
        y = x + 1
    return y * 3


MODE = Doubling()


def under_a_mode_from_before(x: Any) -> Any:
    y = x * 2
    with MODE:
        y = y + 1
    return y.sin()


@pytest.mark.row("1.6")
@pytest.mark.parametrize("fullgraph", [None, False], ids=["default", "in parts"])
@pytest.mark.parametrize("function", [under_a_new_mode, under_a_mode_from_before], ids=lambda one: one.__name__)
def test_modes_within_act_at_each_call(function: Any, fullgraph: bool | None) -> None:
    events.reset()
    compiled = rl.compile(function, fullgraph=fullgraph)
    for size in (2, 3):
        assert compiled(rl.ones(size)).tolist() == function(rl.ones(size)).tolist()
    assert "B024" in broken()


@pytest.mark.row("1.6")
@pytest.mark.parametrize("fullgraph", [None, False, True], ids=["default", "in parts", "one graph"])
def test_modes_around_see_each_operator_of_each_call(fullgraph: bool | None) -> None:
    def function(x: Any) -> Any:
        return ((x * 2).sin() + 1).sum()

    compiled = rl.compile(function, fullgraph=fullgraph)
    x = rl.ones(3, requires_grad=True)
    compiled(x)
    events.reset()
    logs = []
    for run in (function, compiled, compiled):
        x.grad = None
        with LoggingMode() as mode:
            run(x).backward()
        with Names() as names:
            run(x)
        logs.append((mode.lines, names.names))
    assert logs[0] == logs[1] == logs[2] and len(logs[0][0]) > 8
    assert broken() == ["B024", "B024"]  # once for each kind of mode
    assert compiled(x).item() == function(x).item()


@pytest.mark.parametrize("case", ["argument", "weights", "result"])
def test_programs_with_subclasses_are_not_exported(case: str) -> None:
    class Function(nn.Module):
        def forward(self, x: Any) -> Any:
            return TwoTensor(x, x) if case == "result" else x * 2

    module = int8_weights.quantize(nn.Sequential(nn.Linear(2, 2))) if case == "weights" else Function()
    with pytest.raises(rl.RushlightError) as caught:
        rl.export.export(module, (pair() if case == "argument" else rl.ones(2, 2),))
    assert caught.value.code == "C036" and "export a function of the tensors that it holds" in str(caught.value)


@pytest.mark.row("1.6")
@pytest.mark.parametrize("name", ["logging_mode", "two_tensor", "int8_weights"])
def test_examples_run_and_are_short(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example(name).main()
    assert len(capsys.readouterr().out) > 30
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 120


def test_int8_weights_have_the_bits_of_uncompiled_ones() -> None:
    rl.manual_seed(0)
    model = int8_weights.quantize(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)))
    x = rl.randn(5, 8, requires_grad=True)
    compiled = rl.compile(model, fullgraph=True)

    def run(call: Any) -> Any:
        x.grad = None
        model.zero_grad()
        result = call(x)
        result.square().sum().backward()
        return result.tolist(), x.grad.tolist(), [plain(parameter.grad) for parameter in model.parameters()]

    assert run(compiled) == run(model)
    assert rl.compiler.graph_count() == 1


class Noted(rl.Tensor):
    """Writes down what it is asked for."""

    asked: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


NOTED = rl.arange(3.0).as_subclass(Noted)
OF_VIEWS: dict[str, Callable[[], Any]] = {
    "a view": lambda: NOTED.view(1, 3),
    "a place": lambda: NOTED[1],
    "of a view": lambda: NOTED.view(3) * 2,
    "a function of a view": lambda: F.interpolate(NOTED[None, None], size=6),
    "a layer of a view": lambda: F.layer_norm(NOTED.view(3), (3,)),
    "of a result": lambda: (NOTED * 2).view(3).exp(),
}


@pytest.mark.parametrize("name", OF_VIEWS)
def test_views_of_subclasses_are_of_their_class_and_each_call_is_asked_once(name: str) -> None:
    function, found = OF_VIEWS[name], list[Any]()
    for call in (function, rl.compile(function)):
        for _ in range(2):
            Noted.asked.clear()
            result = call()
            found.append((type(result), [*Noted.asked], result.tolist()))
    assert found[:2] == found[2:] and found[0][0] is Noted
    assert type(rl.compile(function, fullgraph=True)()) is Noted
