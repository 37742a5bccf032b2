"""Gradients that arrive at results of a compiled function, of which others are computed: in eager's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

import rushlight as rl

MODES: dict[str, Callable[[Any], Any]] = {
    "whole": lambda function: rl.compile(function, fullgraph=True),
    "parts": lambda function: rl.compile(function, fullgraph=False),
}
modes = pytest.mark.parametrize("mode", MODES)


def chain(x: Any, w: Any) -> Any:
    """Results that the others are computed from; `x` is read on both sides of each."""
    u = x * 1.3
    h = x.sin() * u
    k = h.exp() + h * x
    return h, k, (k * w + h * u).tanh()


def bits(tensors: Sequence[Any]) -> list[Any]:
    return [None if tensor is None else (tensor.shape, tensor.detach().numpy().tobytes()) for tensor in tensors]


def made() -> tuple[Any, Any]:
    return rl.linspace(-1, 1, 7).requires_grad_(), rl.linspace(2, 3, 7).requires_grad_()


def hooked(function: Any) -> list[Any]:
    x, w = made()
    log: list[Any] = []
    for name, leaf in (("x", x), ("w", w)):
        leaf.register_hook(lambda g, name=name: log.append((name, bits([g]))))
    h, k, y = function(x, w)
    before = h * 0.7
    h.register_hook(lambda g: log.append(("h", bits([g]))) or g * 0.3)
    k.register_hook(lambda g: log.append(("k", bits([g]))) or g * 3)
    (before.sum() + (h * k).sum() + y.sum() + (x * 5).sum()).backward()
    return [*bits([x.grad, w.grad]), log]


def kept(function: Any) -> list[Any]:
    x, w = made()
    h, k, y = function(x, w)
    h.retain_grad()
    k.retain_grad()
    (y.sum() + (h * 1.1).sum()).backward()
    return bits([x.grad, w.grad, h.grad, k.grad])


def wanted(function: Any) -> list[Any]:
    x, w = made()
    h, k, y = function(x, w)
    return bits(rl.autograd.grad([y.sum(), (h * k).sum()], [h, k, x, w]))


def wanted_alone(function: Any) -> list[Any]:
    x, w = made()
    h, _, y = function(x, w)
    return bits(rl.autograd.grad(y.sum() + h.sum(), [h]))


def not_used(function: Any) -> list[Any]:
    x, w = made()
    h, k, y = function(x, w)
    return bits(rl.autograd.grad(h.sum(), [y, k, x, w], allow_unused=True))


def left_in_inputs(function: Any) -> list[Any]:
    x, w = made()
    h, _, y = function(x, w)
    rl.autograd.backward([y.sum(), h.sum()], inputs=[h, w])
    return bits([x.grad, w.grad, h.grad])


def hook_of_the_last(function: Any) -> list[Any]:
    x, w = made()
    _, k, y = function(x, w)
    y.register_hook(lambda g: g * 0.1)
    (y.sum() + k.sum() * 0.3).backward()
    return bits([x.grad, w.grad])


def nothing_above(function: Any) -> list[Any]:
    x, w = made()
    h, k, _ = function(x, w)
    h.register_hook(lambda g: g * 0.1)
    k.sum().backward()
    return bits([x.grad, w.grad])


def from_steps(function: Any) -> list[Any]:
    """Hooks on the step of a result see its gradient alone."""
    x, w = made()
    log: list[Any] = []
    h, _, y = function(x, w)
    h.grad_fn.register_prehook(lambda given: log.append(bits(given)))
    (y.sum() + h.sum()).backward()
    return [*bits([x.grad, w.grad]), log]


def twice(function: Any) -> list[Any]:
    x, w = made()
    h, _, y = function(x, w)
    loss = y.sum() + h.sum()
    loss.backward(retain_graph=True)
    handle = h.register_hook(lambda g: g * 0.5)
    loss.backward(retain_graph=True)
    handle.remove()
    loss.backward()
    return bits([x.grad, w.grad])


def freed(function: Any) -> list[Any]:
    """A pass frees the steps that it went through, and no others."""
    x, w = made()
    h, _, y = function(x, w)
    (first,) = rl.autograd.grad(y.sum(), [h])
    h.sum().backward()
    with pytest.raises(rl.RushlightError, match="freed"):
        y.sum().backward()
    return bits([first, x.grad, w.grad])


USES = [
    hooked,
    kept,
    wanted,
    wanted_alone,
    not_used,
    left_in_inputs,
    hook_of_the_last,
    nothing_above,
    from_steps,
    twice,
    freed,
]


@modes
@pytest.mark.parametrize("use", USES)
def test_who_asks_for_the_gradient_of_a_result_gets_all_of_it(use: Callable[[Any], list[Any]], mode: str) -> None:
    compiled = MODES[mode](chain)
    for _ in range(2):
        assert use(compiled) == use(chain)


def test_a_hook_between_graphs_sees_what_comes_of_graphs_before_and_after() -> None:
    log: list[Any] = []

    def function(x: Any) -> Any:
        h = x.sin()
        early = h * 2
        h.register_hook(lambda g: log.append(bits([g])) or g * 0.5)
        late = h.exp()
        return early.sum() + late.sum() + (early * h).sum()

    gradients: list[Any] = []
    for call in (function, rl.compile(function, fullgraph=False)):
        x: Any = rl.linspace(-1, 1, 7).requires_grad_()
        call(x).backward()
        gradients += bits([x.grad])
    assert gradients[0] == gradients[1]
    assert log[0] == log[1] and len(log) == 2


def test_what_nobody_asks_for_runs_as_one_graph() -> None:
    compiled: Any = rl.compile(chain, fullgraph=True)
    x, w = made()
    h, k, y = compiled(x, w)
    part = y.grad_fn.part
    (h.sum() + k.sum() + y.sum()).backward(retain_graph=True)
    assert len(part.order._variants) == 1
    h.register_hook(lambda g: None)
    (h.sum() + k.sum() + y.sum()).backward()
    assert len(part.order._variants) == 4  # one for each segment
    assert h.grad_fn is not y.grad_fn


OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a * b,
    lambda a, b: a + b * 0.7,
    lambda a, b: a.sin() - b,
    lambda a, b: (a * 0.5).tanh() * b,
]


def program(random: Random, count: int) -> Callable[..., tuple[Any, ...]]:
    """A function of values that returns some of those that it computes of them."""
    steps = [(random.choice(OPERATORS), random.random(), random.random()) for _ in range(count)]
    kept = random.sample(range(count), random.randrange(2, 5))

    def run(*given: Any) -> tuple[Any, ...]:
        values = list(given)
        for operator, one, other in steps:
            values.append(operator(values[int(one * len(values))], values[int(other * len(values))]))
        return tuple([values[len(given) + at] for at in kept])

    return run


def differentiated(first: Any, second: Any, seed: int) -> list[Any]:
    random = Random(seed)
    log: list[Any] = []
    seen: dict[str, Any] = {}  # by leaves, whose order follows from what is differentiated of a whole graph
    leaves = [rl.linspace(-1 + at, 1, 3).requires_grad_() for at in range(3)]

    def watch(value: Any, name: str) -> None:
        factor = random.choice([None, 0.5, 3.0])
        value.register_hook(lambda g: log.append((name, bits([g]))) or (None if factor is None else g * factor))

    for at, leaf in enumerate(leaves):
        leaf.register_hook(lambda g, name=f"leaf {at}": seen.update({name: bits([g])}))
    inputs = [leaf * 1.1 for leaf in leaves] if random.random() < 0.5 else leaves
    early = [value.cos() for value in inputs if random.random() < 0.3]
    one = first(*inputs)
    kept: list[Any] = []
    for at, value in enumerate(one):
        if random.random() < 0.4:
            watch(value, f"first {at}")
        if random.random() < 0.3:
            value.retain_grad()
            kept.append(value)
    between = [value * 0.9 for value in one if random.random() < 0.5]
    two = second(*one[:2], inputs[0])
    for at, value in enumerate(two):
        if random.random() < 0.3:
            watch(value, f"second {at}")
    roots = [value.sum() for value in (*early, *between, *two, *one) if random.random() < 0.8] or [two[0].sum()]
    asked = [value for value in (*one, *leaves) if random.random() < 0.3]
    if asked and random.random() < 0.5:
        return [*bits(rl.autograd.grad(roots, asked, allow_unused=True)), log, seen]
    rl.autograd.backward(roots)
    return [*bits([value.grad for value in (*leaves, *kept)]), log, seen]


@pytest.mark.generated("mode")
@modes
@pytest.mark.parametrize("seed", range(25))
def test_gradients_and_hooks_of_two_functions_are_those_of_eager_code(seed: int, mode: str) -> None:
    functions = program(Random(2 * seed), 8), program(Random(2 * seed + 1), 6)
    first, second = [rl.compile(one, fullgraph=mode == "whole", backend="eager") for one in functions]
    assert differentiated(first, second, seed) == differentiated(*functions, seed)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_region_that_records_within_one_that_does_not(fullgraph):
    def squared(x):
        with rl.enable_grad():
            y = x * x
        return y, x * 3

    compiled = rl.compile(squared, fullgraph=fullgraph)
    for given in (rl.ones(3), rl.ones(3, requires_grad=True)):
        with rl.no_grad():
            results, expected = compiled(given), squared(given)
        assert [one.requires_grad for one in results] == [one.requires_grad for one in expected]
    results[0].sum().backward()
    assert given.grad.tolist() == [2, 2, 2]


def passed(x: Any, w: Any) -> Any:
    """A pass within the function, whose steps have saved nothing."""
    y = (x * 2).sum()
    y.backward()
    return y


def spent(x: Any, w: Any) -> Any:
    """A pass that frees what is saved."""
    y = (x * w).sum()
    y.backward()
    return y


def spent_in_part(x: Any, w: Any) -> Any:
    y = (x * w).sum()
    y.backward()
    return y + w.sum()


def spent_through_a_view(x: Any, w: Any) -> Any:
    y = rl.zeros(3)
    y[1:] = (x * w)[:2]
    y.sum().backward()
    return y


@modes
@pytest.mark.parametrize("function", [passed, spent, spent_in_part, spent_through_a_view])
def test_results_that_were_back_propagated_keep_their_history(function: Any, mode: str) -> None:
    """A pass through what is freed is an error, and gradients that eager code gives are not lost."""
    found: list[Any] = []
    for call in (function, MODES[mode](function)):
        x, w, v = (rl.linspace(start, 1, 3).requires_grad_() for start in (-1, 0.5, 0.25))
        y = call(x, w)
        seen: list[Any] = [y.requires_grad, y.grad_fn is None]
        for use in (
            lambda y=y, v=v: (y * v).sum().backward(),
            lambda y=y, w=w: rl.autograd.grad((y * 3).sum(), [w], allow_unused=True),
            lambda y=y, v=v: rl.autograd.grad((y * v).sum(), [v]),
        ):
            try:
                seen.append(bits(use() or []))
            except rl.RushlightError as error:
                seen.append(error.code)
        found.append([*seen, bits([x.grad, w.grad, v.grad])])
    assert found[0] == found[1]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_tensors_that_a_custom_forward_does_not_read_have_gradients(fullgraph):
    class Fixed(rl.autograd.Function):
        @staticmethod
        def forward(ctx, first, second):
            ctx.save_for_backward(first, second)
            return rl.zeros(2)

        @staticmethod
        def backward(ctx, gradient):
            first, second = ctx.saved_tensors
            return rl.full_like(first, 2.0), gradient + rl.full_like(second, 3.0)

    x, y = rl.ones(2, requires_grad=True), rl.ones(2, requires_grad=True)
    compiled = rl.compile(lambda: Fixed.apply(x, y), fullgraph=fullgraph)
    for _ in range(2):
        x.grad = y.grad = None
        compiled().sum().backward()
        assert x.grad.tolist() == [2.0, 2.0] and y.grad.tolist() == [4.0, 4.0]
