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
