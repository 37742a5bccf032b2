"""Hooks run once and at the same moments in compiled functions as in eager code, whenever they are added or removed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd.graph import register_multi_grad_hook
from rushlight.support.errors import RushlightError
from tensors import same


def two_layers() -> Any:
    rl.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def halve(gradient: Any) -> Any:
    return gradient * 0.5


def nothing(gradient: Any) -> None:
    return None


def clamp_(parameter: Any) -> None:
    parameter.grad.mul_(0.25)


def halve_all(gradients: Any) -> None:
    for gradient in gradients:
        gradient.mul_(0.5)


def halve_inputs(module: Any, args: Any) -> Any:
    return (args[0] * 0.5,)


def double_output(module: Any, args: Any, output: Any) -> Any:
    return output * 2


def halve_grad_input(module: Any, grad_input: Any, grad_output: Any) -> Any:
    return (grad_input[0] * 0.5,)


def halve_grad_output(module: Any, grad_output: Any) -> Any:
    return (grad_output[0] * 0.5,)


KINDS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda model: model[0].weight.register_hook(halve),
    "tensor, returns None": lambda model: model[0].weight.register_hook(nothing),
    "post accumulate": lambda model: model[2].bias.register_post_accumulate_grad_hook(clamp_),
    "forward pre": lambda model: model[2].register_forward_pre_hook(halve_inputs),
    "forward": lambda model: model[0].register_forward_hook(double_output),
    "full backward": lambda model: model[2].register_full_backward_hook(halve_grad_input),
    "full backward pre": lambda model: model[2].register_full_backward_pre_hook(halve_grad_output),
    "forward, first": lambda model: model[0].register_forward_hook(double_output, prepend=True),
    "forward, always": lambda model: model[0].register_forward_hook(double_output, always_call=True),
    "forward with keywords": lambda model: model[0].register_forward_hook(
        lambda module, args, kwargs, output: output * 3, with_kwargs=True
    ),
    "forward pre with keywords": lambda model: model[2].register_forward_pre_hook(
        lambda module, args, kwargs: ((args[0] * 0.25,), kwargs), with_kwargs=True
    ),
    "of the model": lambda model: model.register_forward_hook(double_output),
    "several gradients": lambda model: register_multi_grad_hook((model[0].weight, model[2].bias), halve_all),
}


def outside(model: Any, wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A step whose forward pass is compiled."""
    forward = wrap(lambda x: model(x).square().sum())

    def step(x: Any) -> Any:
        forward(x).backward()

    return step


def inside(model: Any, wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A step that is compiled with its backward pass."""
    return wrap(lambda x: model(x).square().sum().backward())


def turns_of(register: Callable[[], Any], when: str) -> Iterator[int]:
    """Four turns; a hook is there in the first two and the last one ("first"), or in the second one alone ("later")."""
    handle = register() if when == "first" else None
    for turn in range(4):
        if turn == 1 and when == "later":
            handle = register()
        if turn == 2 and handle is not None:
            handle.remove()
        if turn == 3 and when == "first":
            register()
        yield turn


def run(kind: str, step_of: Any, wrap: Any, when: str) -> list[Any]:
    """The gradients after each of some steps, between which a hook is added and removed."""
    model = two_layers()
    step = step_of(model, wrap)
    found: list[Any] = []
    for _ in turns_of(lambda: KINDS[kind](model), when):
        model.zero_grad()
        step(rl.linspace(-1, 1, 6).reshape(2, 3))
        found.append([item.grad.clone() for item in model.parameters()])
    return found


@pytest.mark.generated("kind")
@pytest.mark.parametrize("when", ["first", "later"])
@pytest.mark.parametrize("step_of", [outside, inside])
@pytest.mark.parametrize("kind", KINDS)
def test_hooks_do_the_same_compiled(kind: str, step_of: Any, when: str) -> None:
    assert same(run(kind, step_of, rl.compile, when), run(kind, step_of, lambda function: function, when))


@pytest.mark.parametrize("step_of", [outside, inside])
def test_a_hook_changes_what_is_computed(step_of: Any) -> None:
    for kind in KINDS:
        steps = run(kind, step_of, rl.compile, "later")
        assert same(steps[0], steps[2])
        assert same(steps[0], steps[1]) == (kind == "tensor, returns None"), kind


def test_hooks_of_arguments_run_in_a_backward_pass_inside() -> None:
    def step(x: Any) -> None:
        (x * x).sum().backward()

    compiled = rl.compile(step)
    for call in (step, compiled, compiled):
        x = rl.arange(3.0).requires_grad_()
        handle = x.register_hook(halve)
        call(x)
        assert x.grad.tolist() == [0, 1, 2]
        handle.remove()
        x.grad = None
        call(x)
        assert x.grad.tolist() == [0, 2, 4]


def test_hooks_of_captured_tensors_run_once_and_in_order() -> None:
    log: list[str] = []
    w = rl.ones(3, requires_grad=True)
    w.register_hook(lambda gradient: log.append("leaf"))
    y = w * 2
    y.register_hook(lambda gradient: log.append("first"))
    y.register_hook(lambda gradient: log.append("second"))

    def function(x: Any) -> Any:
        return (x * y).sum()

    compiled = rl.compile(function)
    for call in (function, compiled, compiled):
        log.clear()
        w.grad = None
        call(rl.ones(3)).backward(retain_graph=True)
        assert log == ["first", "second", "leaf"]
        assert w.grad.tolist() == [2, 2, 2]


def code_of(function: Callable[[], Any]) -> str:
    with pytest.raises(RushlightError) as caught:
        function()
    return caught.value.code


WRONG: dict[str, tuple[Any, str]] = {
    "text": ("a", "A001"),
    "another shape": (rl.ones(1), "G007"),
    "another dtype": (rl.ones(3, dtype=rl.float64), "G007"),
}


@pytest.mark.parametrize("result", WRONG)
@pytest.mark.parametrize("wrap", [lambda function: function, rl.compile], ids=["eager", "compiled"])
def test_results_that_do_not_fit_are_registered_errors(wrap: Any, result: str) -> None:
    value, code = WRONG[result]
    x = rl.ones(3, requires_grad=True)
    x.register_hook(lambda gradient: value)
    y = wrap(lambda x: x * 2)(x)
    assert code_of(lambda: y.sum().backward()) == code
    assert x.grad is None


def test_results_of_other_hooks_that_do_not_fit_are_registered_errors() -> None:
    x = rl.ones(3, requires_grad=True)
    handle = x.register_post_accumulate_grad_hook(lambda parameter: parameter.grad)
    assert code_of(lambda: (x * 2).sum().backward()) == "A001"
    handle.remove()
    assert code_of(lambda: x.register_hook("no function")) == "A001"
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0][:1], *inputs[1:]))
    assert code_of(lambda: y.sum().backward()) == "G007"
    layer = nn.Linear(3, 1)
    layer.register_full_backward_hook(lambda module, inputs, outputs: (rl.ones(2), rl.ones(2)))
    assert code_of(lambda: layer(rl.ones(2, 3, requires_grad=True)).sum().backward()) == "G007"


@pytest.mark.parametrize("wrap", [lambda function: function, rl.compile], ids=["eager", "compiled"])
def test_an_exception_in_a_hook_leaves_what_was_there(wrap: Any) -> None:
    model = two_layers()
    function = wrap(lambda x: model(x).sum())
    function(rl.ones(2, 3)).backward()
    before = [item.grad.clone() for item in model.parameters()]

    def stop(gradient: Any) -> Any:
        raise ValueError("stop")

    handles = [item.register_hook(stop) for item in model.parameters()]
    with pytest.raises(ValueError, match="stop"):
        function(rl.ones(2, 3)).backward()
    assert same([item.grad for item in model.parameters()], before)
    for handle in handles:
        handle.remove()
    function(rl.ones(2, 3)).backward()
    assert same([item.grad for item in model.parameters()], [item * 2 for item in before])


def train(register: Callable[[Any, list[str]], Any], wrap: Any, when: str) -> list[Any]:
    """The parameters, and what a hook of the optimizer saw, after each of some compiled training steps."""
    model, seen = two_layers(), []
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    step = wrap(step)
    found: list[Any] = []
    for _ in turns_of(lambda: register(optimizer, seen), when):
        step(rl.linspace(-1, 1, 6).reshape(2, 3))
        found.append([*[item.detach().clone() for item in model.parameters()], rl.tensor(len(seen) > 0)])
    return found


def halve_gradients(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad.mul_(0.5)


OPTIMIZER_KINDS: dict[str, Callable[[Any, list[str]], Any]] = {
    "step pre": lambda optimizer, seen: optimizer.register_step_pre_hook(
        lambda optimizer, args, kwargs: (seen.append("pre"), halve_gradients(optimizer))[1]
    ),
    "step post": lambda optimizer, seen: optimizer.register_step_post_hook(
        lambda optimizer, args, kwargs: (seen.append("post"), halve_gradients(optimizer))[1]
    ),
}


@pytest.mark.parametrize("when", ["first", "later"])
@pytest.mark.parametrize("kind", OPTIMIZER_KINDS)
def test_hooks_of_optimizers_do_the_same_compiled(kind: str, when: str) -> None:
    register = OPTIMIZER_KINDS[kind]
    assert same(train(register, rl.compile, when), train(register, lambda function: function, when))


def test_hooks_of_nodes_do_the_same_compiled() -> None:
    def run(wrap: Any) -> list[Any]:
        x = rl.arange(3.0).requires_grad_()
        forward, found = wrap(lambda x: (x * x).sum()), []
        for register in ("register_prehook", "register_hook"):
            for kept in (False, True):
                y = forward(x)
                handle = getattr(y.grad_fn, register)(lambda *grads: found.append(len(grads)))
                if not kept:
                    handle.remove()
                x.grad = None
                y.backward()
                found.append(x.grad)
        return found

    assert same(run(rl.compile), run(lambda function: function))


# Where each way to register a hook is tried compiled, or why it does not concern compiled code.
COVERED = {
    "register_hook": "KINDS; test_hooks_of_nodes",
    "register_prehook": "test_hooks_of_nodes",
    "register_post_accumulate_grad_hook": "KINDS",
    "register_forward_pre_hook": "KINDS",
    "register_forward_hook": "KINDS",
    "register_full_backward_pre_hook": "KINDS",
    "register_full_backward_hook": "KINDS",
    "register_backward_hook": "the old name of register_full_backward_hook",
    "register_multi_grad_hook": "KINDS",
    "register_comm_hook": "what reduces gradients of ranks runs outside of compiled functions",
    "register_step_pre_hook": "OPTIMIZER_KINDS",
    "register_step_post_hook": "OPTIMIZER_KINDS",
    "register_state_dict_pre_hook": "saved; loaded",
    "register_state_dict_post_hook": "saved; loaded",
    "register_load_state_dict_pre_hook": "saved; loaded",
    "register_load_state_dict_post_hook": "saved; loaded",
}


def test_every_way_to_register_a_hook_is_covered() -> None:
    root = Path(rl.__file__).parent
    found = {
        node.name
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("register_") and node.name.endswith("hook")
    }
    assert found == set(COVERED)


class Doubled(nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, x):
        self.seen.append("forward")
        return x * 2


def applied(seen, x):
    rl.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    module.apply(lambda inner: seen.append(type(inner).__name__))
    return module(x)


def converted(seen, x):
    rl.manual_seed(0)
    module = nn.Linear(2, 2)
    module._apply(lambda tensor: [tensor * 2, seen.append("converted")][0])
    return module(x)


def scheduled(seen, x):
    optimizer = rl.optim.SGD(two_layers().parameters(), lr=0.1)
    schedule = rl.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: [1 / (epoch + 1), seen.append(epoch)][0])
    schedule.step()
    return x * optimizer.param_groups[0]["lr"]


def saved(seen, x):
    module = two_layers()
    module.register_state_dict_pre_hook(lambda *args: seen.append("before"))
    module.register_state_dict_post_hook(lambda *args: seen.append("after"))
    return x, len(module.state_dict())


def loaded(seen, x):
    module = two_layers()
    module.register_load_state_dict_pre_hook(lambda *args: seen.append("before"))
    module.register_load_state_dict_post_hook(lambda *args: seen.append("after"))
    module.load_state_dict(module.state_dict())
    return x


def parametrized(seen, x):
    module = nn.Linear(2, 2)
    nn.utils.parametrize.register_parametrization(module, "weight", Doubled(seen))
    rl.manual_seed(0)
    return x, module.weight.shape


def activated(seen, x):
    layer = nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, activation=lambda y: [y.relu(), seen.append("act")][0])
    layer.linear2.register_forward_hook(lambda *args: seen.append("inner"))
    return x, layer(x[None])


def watched(seen, x):
    module = nn.Linear(2, 2)
    module.register_full_backward_hook(lambda *args: seen.append("after"))
    module.register_full_backward_pre_hook(lambda *args: seen.append("before"))
    module.register_forward_hook(lambda *args: seen.append("forward"))
    module(x).sum().backward()
    return x, module.bias.grad


@pytest.mark.parametrize(
    "program",
    [applied, converted, scheduled, saved, loaded, parametrized, activated, watched],
    ids=lambda one: one.__name__,
)
def test_what_ours_calls_back_has_its_effects_once_at_each_call(program):
    compiled = rl.compile(program)
    for _ in range(3):
        seen, expected = [], []
        compiled(seen, rl.ones(2))
        program(expected, rl.ones(2))
        assert seen == expected != []


@pytest.mark.parametrize("kind", ["full_backward_hook", "full_backward_pre_hook", "forward_hook"])
def test_hooks_of_a_module_that_was_there_append_to_a_list_of_the_call(kind):
    def step(module, seen, x):
        module(x).sum().backward()
        return x * 2, len(seen)

    compiled = rl.compile(step)
    for _ in range(2):
        module, seen = nn.Linear(2, 2), []
        getattr(module, f"register_{kind}")(lambda *args, seen=seen: seen.append(1))
        assert [compiled(module, seen, rl.ones(2))[1] for _ in range(3)] == [1, 2, 3]


def test_effects_of_a_backward_hook_come_where_the_backward_pass_runs():
    module, seen = nn.Linear(2, 2), []
    module.register_full_backward_hook(lambda *args: seen.append(1))
    compiled = rl.compile(lambda x: module(x).sum())
    for count in range(3):
        loss = compiled(rl.ones(2, requires_grad=True))
        assert len(seen) == count
        loss.backward()
        assert len(seen) == count + 1


@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
def test_hooks_of_a_node_are_registered_once(kind: str) -> None:
    calls: list[str] = []

    def function(x: rl.Tensor) -> rl.Tensor:
        y = (x * 2).sin()
        getattr(y.grad_fn, kind)(lambda *gradients: calls.append(kind))
        (y * 3).sum().backward()
        return y

    compiled = rl.compile(function, backend="eager")
    for count in (1, 2, 3):
        x = rl.ones(2, requires_grad=True)
        compiled(x)
        assert calls == [kind] * count and rl.equal(x.grad, 6 * (rl.ones(2) * 2).cos())
