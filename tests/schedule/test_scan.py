"""Running reductions: a step for each element, in the order of a plain chain, whatever is fused with them."""

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
SHAPES = [(0,), (1,), (5,), (700,), (0, 4), (4, 0), (1, 5), (5, 1), (3, 7), (9, 300), (300, 9), (65, 130), (2, 70, 66)]
DTYPES = ["float32", "float64", "float16", "int8", "int64", "bool"]


def elements(*shape: int, dtype: str = "float32") -> Array:
    return (np.random.default_rng(3).standard_normal(shape) * 5).astype(dtype)


def chain(array: Array, dim: int, function: Any = np.cumsum) -> Array:
    """Its elements folded one after the other: float32 in float64, float16 in float32, integers in int64."""
    dtype = array.dtype
    if dtype.kind in "bi":
        return function(array, dim, dtype=np.int64)
    return function(array.astype(np.float32 if dtype == np.float16 else np.float64), dim).astype(dtype)


def both(function: Callable[..., Any], *arrays: Array) -> list[Array]:
    """Eager and compiled."""
    return [found(*map(rl.from_numpy, arrays)).numpy() for found in (function, rl.compile(function))]


@pytest.mark.generated("dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_running_sums_are_plain_chains(shape: tuple[int, ...], dtype: str):
    array = elements(*shape, dtype=dtype)
    for dim in range(array.ndim):
        for found in both(lambda x, dim=dim: x.cumsum(dim), array):
            np.testing.assert_array_equal(found, chain(array, dim))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_operands_in_other_orders(dim: int):
    array = elements(19, 70, 37)
    for found in both(lambda x: x.permute(2, 0, 1)[:, ::2].cumsum(dim), array):
        np.testing.assert_array_equal(found, chain(array.transpose(2, 0, 1)[:, ::2], dim))


@pytest.mark.parametrize("dim", [0, 1])
def test_chains_from_the_end(dim: int):
    array = elements(40, 90)
    for found in both(lambda x: x.flip(dim).cumsum(dim).flip(dim) * 2, array):
        np.testing.assert_array_equal(found, np.flip(chain(np.flip(array, dim), dim), dim) * 2)


@pytest.mark.parametrize("dim", [0, 1])
def test_what_is_computed_for_each_element_is_computed_in_the_chain(dim: int):
    x, y = elements(30, 50), elements(50)
    for found in both(lambda x, y: (x * y + 1.0).cumsum(dim) - x, x, y):
        np.testing.assert_array_equal(found, chain(x * y + np.float32(1), dim) - x)


def test_products_run_too():
    array = elements(7, 33) / 5
    for found in both(lambda x: rl.cumprod(x, 1), array):
        np.testing.assert_array_equal(found, chain(array, 1, np.cumprod))


def test_two_directions_and_two_dims_in_one_program():
    array = elements(40, 33)
    for found in both(lambda x: x.cumsum(1) + x.flip(1).cumsum(1).flip(1) + x.cumsum(0), array):
        want = chain(array, 1) + chain(array[:, ::-1], 1)[:, ::-1] + chain(array, 0)
        np.testing.assert_array_equal(found, want)


def test_sums_and_running_sums_of_the_same_rows():
    array = elements(40, 1000)
    eager, compiled = both(lambda x: x.cumsum(1) / x.sum(1, keepdim=True), array)
    np.testing.assert_array_equal(eager, compiled)
    np.testing.assert_allclose(compiled, chain(array, 1) / array.sum(1, keepdims=True), rtol=1e-2)


def test_padded_joined_and_shifted_results():
    array = elements(9, 60)
    whole = chain(array, 1)
    pad = rl.nn.functional.pad
    for found in both(lambda x: rl.cat([pad(x.cumsum(1), (1, 0))[:, :-1], x, x.cumsum(1)[:, 3:]], 1), array):
        want = np.concatenate([np.pad(whole, ((0, 0), (1, 0)))[:, :-1], array, whole[:, 3:]], 1)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("shape", [(300_000,), (2, 150_000), (150_000, 2)])
def test_as_many_steps_as_elements(shape: tuple[int, ...]):
    """One by one, results would take 10 to the 10 steps and more."""
    array = elements(*shape)
    dim = int(np.argmax(shape))
    for found in both(lambda x: x.flip(dim).cumsum(dim).flip(dim).cumsum(dim), array):
        np.testing.assert_array_equal(found, chain(np.flip(chain(np.flip(array, dim), dim), dim), dim))


def test_gradients_of_running_sums():
    array = elements(6, 40)

    def gradient(x: Any) -> Any:
        x = x.detach().requires_grad_(True)
        y = x.cumsum(1)
        return rl.autograd.grad((y * y).sum(), [x])[0]

    want = chain(2 * chain(array, 1)[:, ::-1], 1)[:, ::-1]
    for found in both(gradient, array):
        np.testing.assert_array_equal(found, want)


def test_rows_side_by_side_lie_in_lanes(captured: Callable[..., Graph]):
    x = rl.ones(40, 30)
    assert loops(captured(lambda x: x.cumsum(0), x)) == ["vector", "serial"]
    assert loops(captured(lambda x: x.cumsum(1), x)) == ["parallel", "serial", "serial", "serial", "serial"]
    assert loops(captured(lambda x: x.flatten().cumsum(0), x)) == ["serial"]


def loops(graph: Graph) -> list[str]:
    """The loops of the only kernel, their blocks left out."""
    plan = run_passes(graph, TARGET, until="07-tiled.ir")
    assert isinstance(plan, Plan)
    (kernel,) = plan.kernels
    assert isinstance(kernel, Kernel)
    words = [line.split()[0] for line in kernel_text(kernel).splitlines() if line.endswith("{")]
    found = [word for word in words if word in ("vector", "serial", "parallel")]
    return found[1:] if "vector" in found else found
