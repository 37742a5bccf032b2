"""Sums of rows: the order of the sum is kept to the bit, whatever goes on at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.schedule.loops.row_sums import STRIPE

BLOCK, CHAIN = 256, 32


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = rl.get_num_threads()
    rl.set_num_threads(request.param)
    yield request.param
    rl.set_num_threads(before)


def total_in_order(rows: np.ndarray[Any, Any], combine: Any = np.add) -> np.ndarray[Any, Any]:
    """Blocks of 256 rows, made of chains of 32, block after block in twice the width of float32."""
    wide = np.float64 if rows.dtype == np.float32 else rows.dtype
    total = np.full(rows.shape[1:], combine.identity, wide)
    for first in range(0, len(rows), BLOCK):
        block = np.full(rows.shape[1:], combine.identity, rows.dtype)
        for start in range(first, min(first + BLOCK, len(rows)), CHAIN):
            chain = np.full(rows.shape[1:], combine.identity, rows.dtype)
            for row in rows[start : min(start + CHAIN, first + BLOCK)]:
                chain = combine(chain, row)
            block = combine(block, chain)
        total = combine(total, block)
    return total


def in_order(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return total_in_order(rows).astype(rows.dtype)


def both(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Eager and compiled."""
    return [found(*map(rl.from_numpy, arrays)).numpy() for found in (function, rl.compile(function))]


def normal(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


SHAPES = [(0, 4), (4, 0), (1, 1), (3, 5), (256, 64), (257, 65), (1030, 3), (2049, 130), (300, STRIPE), (5, STRIPE + 1)]


@pytest.mark.generated("dtype")
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [*SHAPES, (600, 2 * STRIPE + 17)])
def test_rows_are_summed_in_order(shape: tuple[int, int], dtype: str):
    array = normal(*shape, dtype=dtype)
    for found in both(lambda x: x.sum(0), array):
        np.testing.assert_array_equal(found, in_order(array))


def test_constant_sizes_give_the_same_bits():
    weights = normal(700, 96)
    held = rl.from_numpy(weights)
    found = rl.compile(lambda x: (held * 1.0).sum(0) + x)(rl.zeros(96))
    np.testing.assert_array_equal(found.numpy(), in_order(weights))


@pytest.mark.usefixtures("threads")
def test_other_dims_stay_or_are_summed_too():
    array = normal(7, 300, 40)
    for found in both(lambda x: x.sum(1), array):
        np.testing.assert_array_equal(found, np.stack([in_order(part) for part in array]))
    for found in both(lambda x: x.sum((0, 1)), array):
        np.testing.assert_array_equal(found, in_order(array.reshape(2100, 40)))
    for found in both(lambda x: x.sum(0), array):
        np.testing.assert_array_equal(found, in_order(array))


def test_what_is_made_of_sums_and_what_they_are_made_of():
    x, y = normal(1000, 70), normal(1000, 70)
    for found in both(lambda x, y: (x * y).sum(0) * 2.0 + (x + y).mean(0), x, y):
        np.testing.assert_array_equal(
            found, in_order(x * y) * np.float32(2) + (total_in_order(x + y) / 1000).astype(np.float32)
        )
    for found in both(lambda x: x / x.sum(0), x):
        np.testing.assert_array_equal(found, x / in_order(x))


def test_a_mean_over_everything_is_the_sum_by_the_count():
    for shape in [(3, 5), (700, 97), (100_003,)]:
        array = normal(*shape)
        for mean, total in zip(both(lambda x: x.mean(), array), both(lambda x: x.sum(), array), strict=True):
            np.testing.assert_array_max_ulp(mean, total / np.float32(array.size), 1)


def test_sums_of_some_rows_only():
    array = normal(300, 33)
    for found in both(lambda x: x.cumsum(0), array):
        np.testing.assert_array_equal(found[:2], [array[0], array[0] + array[1]])

    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_()
        x.cumsum(0).sum().backward()
        return x.grad

    for found in both(gradient, array):
        np.testing.assert_array_equal(found, np.repeat(np.arange(300.0, 0.0, -1.0)[:, None], 33, 1))


def test_views_that_are_no_matrices():
    array = normal(900, 131)
    for found in both(lambda x: x[:, 1:].sum(0), array):
        np.testing.assert_array_equal(found, in_order(array[:, 1:]))
    for found in both(lambda x: x[::3, ::2].sum(0), array):
        np.testing.assert_array_equal(found, in_order(array[::3, ::2]))
    for found in both(lambda x: x.T.sum(0), normal(131, 900)):
        np.testing.assert_array_equal(found, in_order(normal(131, 900).T))


def test_sums_of_zeros_and_of_none_are_plus_zero():
    for rows in (0, 1, 600):
        for found in both(lambda x: x.sum(0), np.full((rows, 33), -0.0, np.float32)):
            assert not np.signbit(found).any()
            assert not found.any()


def test_infinities_and_nans_stay_in_their_columns():
    array = normal(600, 80)
    array[10, 3], array[300, 3], array[599, 5], array[0, 79] = np.inf, -np.inf, np.nan, np.inf
    with np.errstate(invalid="ignore"):
        wanted = in_order(array)
    for found in both(lambda x: x.sum(0), array):
        np.testing.assert_array_equal(found, wanted)


def test_integers_products_and_halves():
    numbers = np.random.default_rng(3).integers(-9, 9, (1025, 37))
    for found in both(lambda x: x.sum(0), numbers):
        np.testing.assert_array_equal(found, numbers.sum(0))
    near_one = (1 + normal(600, 37) / 100).astype("float64")
    for found in both(lambda x: x.prod(0), near_one):
        np.testing.assert_array_equal(found, total_in_order(near_one, np.multiply))
    half = normal(600, 37)
    rounded = rl.from_numpy(half).bfloat16().float().numpy()
    wanted = rl.from_numpy(in_order(rounded)).bfloat16().float().numpy()
    for found in both(lambda x: x.bfloat16().sum(0).float(), half):
        np.testing.assert_array_equal(found, wanted)


def test_gradients_of_a_bias_and_of_a_norm_agree_with_eager():
    def gradients(x: Any, w: Any, b: Any) -> Any:
        w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
        out = rl.nn.functional.layer_norm(x, (70,), w, b)
        (out * out).sum().backward()
        return rl.cat([w.grad, b.grad])

    one, other = both(gradients, normal(1000, 70), normal(70), normal(70))
    np.testing.assert_array_equal(one, other)
