"""Gradients of compiled functions have the bits of eager ones: one artifact for all sizes, 0 and 1 among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import rushlight as rl
from rushlight.compiler import graph_count
from rushlight.nn import functional as F
from tensors import same


def drawn(*shape: int, seed: int = 0) -> Any:
    return rl.randn(*shape, generator=rl.Generator().manual_seed(seed))


def gradients(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    """The inputs' gradients, of all results weighted by chance."""
    leaves = [item.clone().requires_grad_() for item in inputs]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    total = sum([(item * drawn(*item.shape, seed=place)).sum() for place, item in enumerate(results)])
    total.backward()
    return [leaf.grad for leaf in leaves]


def check(function: Callable[..., Any], inputs: Sequence[Any], compiled: Callable[..., Any]) -> None:
    expected, actual = gradients(function, inputs), gradients(compiled, inputs)
    for one, other in zip(actual, expected, strict=True):
        assert same(one, other)


BROADCASTS = {
    "rows": [((100, 7), (1, 7)), ((100, 1), (1, 1)), ((1, 7), (1, 7)), ((1, 1), (1, 1)), ((0, 7), (1, 7))],
    "columns": [((9, 700), (9, 1)), ((9, 1), (9, 1)), ((1, 700), (1, 1)), ((9, 0), (9, 1))],
    "channels": [
        ((5, 3, 4, 5), (1, 3, 1, 1)),
        ((200, 3, 1, 1), (1, 3, 1, 1)),
        ((200, 3, 1, 5), (1, 3, 1, 1)),
        ((200, 3, 5, 1), (1, 3, 1, 1)),
        ((1, 3, 50, 1), (1, 3, 1, 1)),
        ((2, 3, 40, 50), (1, 3, 1, 1)),
        ((2, 3, 0, 1), (1, 3, 1, 1)),
        ((2, 3, 1, 0), (1, 3, 1, 1)),
    ],
    "one": [((20, 30), (1, 1)), ((200, 1), (1, 1)), ((1, 200), (1, 1)), ((1, 1), (1, 1)), ((80, 80), (1, 1))],
    "scalar": [((20, 30), ()), ((200, 1), ()), ((1, 200), ()), ((1, 1), ())],
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_sums_of_broadcast_gradients_do_not_depend_on_dims_of_size_one(name: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return x * y

    compiled = rl.compile(function)
    for shapes in BROADCASTS[name]:
        check(function, [drawn(*shape, seed=place) for place, shape in enumerate(shapes)], compiled)
    assert graph_count() == 1


def test_a_gradient_of_negative_zero_keeps_its_sign_where_a_sum_has_one_element() -> None:
    def function(x: Any, y: Any) -> Any:
        return x + y

    compiled = rl.compile(function)
    for rows in (3, 1):
        found: list[float] = []
        for call in (function, compiled):
            y = rl.ones(1, 2).requires_grad_()
            call(rl.ones(rows, 2), y).backward(rl.full((rows, 2), -0.0))
            found.append(rl.copysign(rl.ones(1, 2), y.grad).tolist())
        assert found == [[[-1.0, -1.0]], [[-1.0, -1.0]]], rows
    assert graph_count() == 1


@pytest.mark.parametrize("shape", [(8, 1), (1, 8), (1, 1), (7, 9)])
@pytest.mark.parametrize("name", ["var", "std", "norm", "softmax", "logsumexp"])
def test_moments_and_norms_over_dims_of_size_one(name: str, shape: tuple[int, ...]) -> None:
    operations: dict[str, Callable[[Any], Any]] = {
        "var": lambda x: rl.var(x, correction=0),
        "std": lambda x: rl.std(x, (0, 1), keepdim=True, correction=0),
        "norm": lambda x: x.norm(),
        "softmax": lambda x: F.softmax(x, -1),
        "logsumexp": lambda x: rl.logsumexp(x, (0, 1)),
    }
    check(operations[name], [drawn(*shape)], rl.compile(operations[name]))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_on_images_of_any_size(training: bool) -> None:
    norm = rl.nn.BatchNorm2d(8).train(training)

    def function(x: Any, weight: Any, bias: Any) -> Any:
        return F.batch_norm(x, norm.running_mean.clone(), norm.running_var.clone(), weight, bias, training)

    compiled = rl.compile(function)
    for shape in ((4, 8, 1, 1), (4, 8, 3, 2), (70, 8, 1, 1), (4, 8, 1, 2), (4, 8, 2, 1)):
        check(function, [drawn(*shape), drawn(8, seed=1), drawn(8, seed=2)], compiled)
    assert graph_count() == 1


def test_several_gradients_of_one_value_are_added_as_in_eager_code() -> None:
    """A compiled function continues the sum that those have begun who used its inputs after it."""
    functions: dict[str, Callable[[Any], Any]] = {
        "view after": lambda x: (x * x, x[32:]),
        "view before": lambda x: (x[32:], x * x),
        "view between": lambda x: (x.exp(), x[:40].unsqueeze(0), x * 3 + x.sin()),
        "view and copy": lambda x: (x.reshape(8, 8).t(), x * x, x),
        "itself": lambda x: (x, x * x + x),
        "view of an intermediate": lambda x: (lambda y: (y[3:], y * y, y))(x * 2),
        "tile": lambda x: (lambda y: (y, F.softsign(y)))(x.tile((2, 1))),
        "unbind": lambda x: (*x.reshape(4, 16).unbind(0), x * x * x),
    }
    for function in functions.values():
        compiled = rl.compile(function)
        for size in (64, 64):
            check(function, [drawn(size)], compiled)


def test_sums_continue_over_calls_and_uses_outside() -> None:
    w, inputs = drawn(33, seed=5), [drawn(33, seed=seed) for seed in range(3)]

    def function(x: Any, w: Any) -> Any:
        return (x * w).sin() + w * w, w * 0.3

    def loss(call: Callable[..., Any]) -> list[Any]:
        leaf = w.clone().requires_grad_()
        middle = leaf * 1.1  # no leaf: its gradients meet at a node
        total = (middle.cos() * drawn(33, seed=7)).sum()
        for x in inputs:
            one, other = call(x, middle)
            total = total + (one * drawn(33, seed=8)).sum() + (other * middle).sum()
        total.backward()
        return [leaf.grad]

    compiled = rl.compile(function)
    assert same(loss(compiled), loss(function))
    assert same(loss(compiled), loss(function))


def test_results_without_a_gradient_leave_none_as_in_eager_code() -> None:
    a, b, c = (rl.nn.Linear(4, 4) for _ in range(3))

    def function(x: Any) -> Any:
        h = a(x).tanh()
        return b(h), h, c(h) * x, x[1:]

    compiled = rl.compile(function)
    for used in ((0,), (1,), (2,), (0, 2), (3,), (1, 3), (0, 1, 2, 3), (0,)):
        found: list[Any] = []
        for call in (function, compiled):
            x = drawn(3, 4).requires_grad_()
            results = call(x)
            sum([(results[place] * 1.25).sum() for place in used]).backward()
            found.append([x.grad, *[item.grad for layer in (a, b, c) for item in layer.parameters()]])
            for layer in (a, b, c):
                layer.zero_grad()
        assert [item is None for item in found[0]] == [item is None for item in found[1]], used
        assert same(*[[item for item in row if item is not None] for row in found]), used
    assert graph_count() == 1


def test_an_optimizer_leaves_alone_what_no_result_in_the_loss_reads() -> None:
    results: list[Any] = []
    for wrap in (lambda function: function, rl.compile):
        rl.manual_seed(0)
        a, b = rl.nn.Linear(2, 2), rl.nn.Linear(2, 2)
        optimizer = rl.optim.AdamW([*a.parameters(), *b.parameters()], weight_decay=0.5)
        wrap(lambda x, a=a, b=b: (a(x), b(x)))(rl.ones(1, 2))[0].sum().backward()
        before = b.weight.detach().clone()
        optimizer.step()
        assert same(b.weight.detach(), before)
        results.append([item.detach() for item in a.parameters()])
    assert same(*results)


def test_gradients_reach_tensors_that_are_captured_and_no_leaves() -> None:
    w = drawn(3).requires_grad_()
    state = {"y": w * 2}

    def function(x: Any) -> Any:
        return (x * y).sum() + y[1:].square().sum()

    y = state["y"]
    compiled = rl.compile(function)
    found: list[Any] = []
    for call in (function, compiled, compiled):
        w.grad = None
        call(drawn(3, seed=1)).backward(retain_graph=True)
        found.append(w.grad)
    assert same(found[1], found[0])
    assert same(found[2], found[0])


def test_views_among_results_stay_views() -> None:
    compiled = rl.compile(lambda x: (x * x, x[1:]))
    base = drawn(4).requires_grad_() * 1
    _, view = compiled(base)
    view.mul_(3.0)
    assert same(base.detach()[1:], view.detach())
    base.sum().backward()


def test_the_gradient_of_what_a_write_broadcasts_is_summed() -> None:
    base, end = drawn(1, 2), drawn(1, seed=1)

    def function(w: Any) -> Any:
        return base.clone().lerp_(end, w), rl.zeros(2, 3).copy_(w)

    check(function, [drawn(1, 1, seed=2)], rl.compile(function))


def test_another_derivative_finds_what_is_kept_although_it_asks_again() -> None:
    inputs = [drawn(3, 4), drawn(5, 4, seed=1), drawn(5, 2, seed=2)]

    def function(q: Any, k: Any, v: Any) -> Any:
        h = F.scaled_dot_product_attention(q, k, v)
        return [h.acos()], F.layer_norm(h, h.shape[-1:])

    compiled = rl.compile(function)
    found: list[Any] = []
    for call in (function, compiled):
        leaves = [item.clone().requires_grad_() for item in inputs]
        call(*leaves)[1].sum().backward()
        found.append([leaf.grad for leaf in leaves])
    assert same(*found)


def test_gradients_that_are_zeros_are_made_again_from_what_makes_them() -> None:
    def function(x: Any) -> Any:
        return rl.where(x > 0.5, x - 0.5, rl.where(x < -0.5, x + 0.5, 0.0)).div(2.0, rounding_mode="trunc")

    found: list[Any] = []
    for call in (function, rl.compile(function)):
        leaf = drawn(3, 4).requires_grad_()
        results = call(leaf), leaf * 0.5  # the uses outside begin the sum, so that the parts are wanted
        rl.autograd.backward(results, [drawn(3, 4, seed=1), drawn(3, 4, seed=2)])
        found.append(leaf.grad)
    assert same(*found)


@pytest.mark.parametrize("part", [0, 1])
def test_a_gradient_of_one_factor_alone_reads_what_both_keep(part: int) -> None:
    found: list[Any] = []
    for call in (rl.linalg.qr, rl.compile(rl.linalg.qr)):
        leaf = drawn(2, 3).requires_grad_()
        found.append(rl.autograd.grad([call(leaf)[part].sum()], [leaf])[0])
    assert same(*found)


def test_a_sum_of_losses_that_were_back_propagated_keeps_its_history() -> None:
    x, y = drawn(4, 3), drawn(4, 3, seed=1)
    found = []
    for wrap in (lambda step: step, rl.compile):
        w = rl.ones(3, requires_grad=True)

        def step(x: Any, y: Any, w: Any = w) -> Any:
            first = (x @ w).square().mean()
            first.backward()
            second = (y @ w).sigmoid().mean()
            second.backward()
            return first + second, first * w.exp(), w.tanh()

        total, mixed, kept = wrap(step)(x, y)
        found.append([w.grad.tolist(), total.item(), mixed.tolist()])
        kept.sum().backward()
        found[-1].append(w.grad.tolist())
    assert found[0] == found[1]
    assert total.requires_grad and mixed.requires_grad
    with pytest.raises(rl.RushlightError) as caught:
        total.backward()
    assert caught.value.code == "G001"
