"""Two axes in blocks: operands that are contiguous along different axes, read a few lines at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.kernel import Kernel
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target

Array = np.ndarray[Any, Any]
TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
SHAPES = [(0, 5), (5, 0), (1, 1), (1, 300), (300, 1), (7, 9), (8, 64), (63, 65), (64, 64), (129, 257), (70, 1030)]
DTYPES = ["float32", "float64", "float16", "int8", "int64", "bool", "complex64"]


def elements(*shape: int, dtype: str = "float32") -> Array:
    values = np.random.default_rng(5).integers(-99, 99, shape)
    return (values > 0 if dtype == "bool" else values + 1j * values[::-1] if "complex" in dtype else values).astype(
        dtype
    )


def both(function: Callable[..., Any], *arrays: Array) -> list[Array]:
    """Eager and compiled."""
    return [found(*map(rl.from_numpy, arrays)).numpy() for found in (function, rl.compile(function))]


@pytest.mark.generated("dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_transposed_copies(shape: tuple[int, int], dtype: str):
    array = elements(*shape, dtype=dtype)
    for found in both(lambda x: x.t().contiguous(), array):
        np.testing.assert_array_equal(found, array.T)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("order", [(2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1), (1, 0, 2)])
def test_permuted_copies(order: tuple[int, ...]):
    array = elements(19, 70, 133)
    for found in both(lambda x: x.permute(order).contiguous(), array):
        np.testing.assert_array_equal(found, array.transpose(order))


@pytest.mark.parametrize("shape", SHAPES)
def test_pointwise_results_of_transposed_operands(shape: tuple[int, int]):
    a, b = elements(*shape), elements(*shape[::-1])
    for found in both(lambda a, b: (a.t() * b + a.t()[:, :1], a.t() - 2.0)[0], a, b):
        np.testing.assert_array_equal(found, a.T * b + a.T[:, :1])


def test_more_terms_than_are_written_out():
    a, b = elements(130, 77), elements(77, 130)
    many = lambda a, b: sum((a.t() * number + b / (number + 1) for number in range(20)), b)  # noqa: E731
    eager, compiled = both(many, a, b)
    np.testing.assert_array_equal(eager, compiled)


def test_gaps_and_negative_places_of_operands():
    array = elements(300, 260)
    for found in both(lambda x: x[3::2, 1::3][:, :86].t().contiguous() + x[::2, ::3].flip(0)[:149, :86].t(), array):
        np.testing.assert_array_equal(found, array[3::2, 1::3][:, :86].T + array[::2, ::3][::-1][:149, :86].T)


def test_joined_and_padded_operands():
    array = elements(90, 70)
    joined = lambda x: rl.cat([x.t(), rl.nn.functional.pad(x, (1, 2)).t()], 0).contiguous()  # noqa: E731
    want = np.concatenate([array.T, np.pad(array, ((0, 0), (1, 2))).T])
    for found in both(joined, array):
        np.testing.assert_array_equal(found, want)


def test_a_sum_keeps_its_order():
    array = elements(300, 200)
    for found in both(lambda x: x.t().cumsum(0), array):
        np.testing.assert_array_equal(found, array.T.cumsum(0))


def test_only_crossing_operands_are_read_in_blocks(captured: Callable[..., Graph]):
    a, b = rl.ones(40, 30), rl.ones(30, 40)
    assert in_squares(captured(lambda a, b: a.t() * b, a, b))
    assert in_squares(captured(lambda a: a.t().contiguous(), a))
    assert not in_squares(captured(lambda a: a.t() * 2.0, a))
    assert not in_squares(captured(lambda a, b: a * a[:, :1] + b.sum(), a, b))


def in_squares(graph: Graph) -> bool:
    """Whether a kernel of the graph's plan has an axis of blocks of eight."""
    plan = run_passes(graph, TARGET, until="07-tiled.ir")
    assert isinstance(plan, Plan)
    return any("//8 {" in kernel_text(kernel) for kernel in plan.kernels if isinstance(kernel, Kernel))
