"""Adaptive pooling at sizes of every kind: the same bits with open and known sizes, gradients that are its adjoint."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.harness.tensors import data, same

import rushlight as rl
from opcheck import refused
from rushlight.nn import functional as F
from rushlight.ops.pool.pool_nd import widest, window_range
from rushlight.ops.record import OPERATORS

OUTPUTS = [(1, 1), (7, 5), (3, 8), (20, 33), (0, 2)]
INPUTS = [(16, 16), (7, 5), (33, 10), (1, 64)]


def pool_to(size: tuple[int, int]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Means over as many windows, and their gradient."""

    def pooled(x: Any, g: Any) -> tuple[Any, Any]:
        means = F.adaptive_avg_pool2d(x, size)
        return means, rl.autograd.grad(means, (x,), g)[0]

    return pooled


def shares(space: int, count: int) -> np.ndarray[Any, Any]:
    """(count, space): what each element adds to each mean along a dim."""
    found = np.zeros((count, space))
    for place in range(count):
        start, end = place * space // count, -(-(place + 1) * space // count)
        found[place, start:end] = 1 / max(end - start, 1)
    return found


@pytest.mark.parametrize("size", OUTPUTS, ids=str)
def test_open_and_known_sizes_give_the_bits_of_eager(size: tuple[int, int]) -> None:
    pooled = pool_to(size)
    is_open = rl.compile(pooled)
    for space in INPUTS:
        x, g = data(2, 3, *space).requires_grad_(), data(2, 3, *size)
        wanted = pooled(x, g)
        assert same(is_open(x, g), wanted)
        assert same(rl.compile(pooled, dynamic=False)(x, g), wanted)


@pytest.mark.parametrize("size", OUTPUTS, ids=str)
@pytest.mark.parametrize("space", INPUTS, ids=str)
def test_means_and_gradients_are_products_with_shares(size: tuple[int, int], space: tuple[int, int]) -> None:
    x, g = data(2, 3, *space).requires_grad_(), data(2, 3, *size)
    means, grad = pool_to(size)(x, g)
    rows, columns = (shares(*pair) for pair in zip(space, size, strict=True))
    np.testing.assert_allclose(means.detach().numpy(), rows @ x.detach().numpy() @ columns.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grad.numpy(), rows.T @ g.numpy() @ columns, rtol=1e-5, atol=1e-5)


def test_loops_over_windows_are_as_long_as_the_widest() -> None:
    for size, count in itertools.product(range(40), range(1, 40)):
        ranges = (window_range(place, size, count) for place in range(count))
        assert widest(size, count) == max([end - start for start, end in ranges])


@pytest.mark.parametrize("dynamic", [True, False, None], ids=["open", "known", "eager"])
def test_means_of_no_elements_are_no_numbers_and_have_no_gradient(dynamic: bool | None) -> None:
    pooled = pool_to((2, 3))
    run = pooled if dynamic is None else rl.compile(pooled, dynamic=dynamic)
    means, grad = run(rl.zeros(2, 3, 0, 3).requires_grad_(), data(2, 3, 2, 3))
    assert bool(means.isnan().all())
    assert (means.shape, grad.shape) == ((2, 3, 2, 3), (2, 3, 0, 3))


def test_means_over_no_dims_are_refused() -> None:
    for call in (
        lambda x: OPERATORS["adaptive_avg_pool"](x, ()),
        lambda x: OPERATORS["adaptive_avg_pool"](x, (1,) * 4),
    ):
        for function in (call, rl.compile(call)):
            with refused("S002"):
                function(rl.ones(1, 2, 4))
