"""Products of long sums and few results: threads share the steps of k, and the bits stay those of the order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.schedule.product_order import assert_same_bits, product_of_order

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.kernel import GemmKernel
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target
from rushlight.nn import functional as F

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
THREADS = (1, 2, 3, 8)


def on_all_threads(function: Callable[[], rl.Tensor]) -> rl.Tensor:
    """The result, which must be the same bits on any number of threads, several times over."""
    before = rl.get_num_threads()
    found = []
    try:
        for threads in (*THREADS, *THREADS, *THREADS):
            rl.set_num_threads(threads)
            found.append(function())
    finally:
        rl.set_num_threads(before)
    for other in found:
        bits = [item.float().numpy().view(np.uint32) for item in (other, found[0])]
        np.testing.assert_array_equal(*bits)
    return found[0]


@pytest.mark.row("6.6")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 8192), (2, 3, 40001), (40, 30, 2049), (5, 24, 20000)])
def test_bits_are_those_of_the_order(m: int, n: int, k: int, transposed: bool) -> None:
    rl.manual_seed(m)
    a, b = rl.randn(m, k), rl.randn(n, k).mT if transposed else rl.randn(k, n)
    wanted = product_of_order(a.numpy(), np.ascontiguousarray(b.numpy()))
    assert_same_bits(on_all_threads(lambda: a @ b), wanted)
    biased = rl.compile(lambda a, b: F.relu(a @ b + 1))
    assert_same_bits(on_all_threads(lambda: biased(a, b)), np.maximum(wanted + np.float32(1), np.float32(0)))


def test_batches_have_parts() -> None:
    a, b = rl.randn(3, 4, 9000), rl.randn(3, 9000, 4)
    got = on_all_threads(lambda: a @ b)
    for place in range(3):
        assert_same_bits(got[place], product_of_order(a[place].numpy(), b[place].numpy()))


def test_gradients_of_a_convolution_have_parts() -> None:
    """Of few channels and many pixels: the gradient of the weights is a sum over all of these."""
    rl.manual_seed(0)
    x, w, given = rl.randn(4, 3, 60, 61), rl.randn(8, 3, 3, 3), rl.randn(4, 8, 60, 61)

    def gradient(x: rl.Tensor, w: rl.Tensor, given: rl.Tensor) -> rl.Tensor:
        w = w.detach().requires_grad_()
        return rl.autograd.grad(F.conv2d(x, w, padding=1), w, given)[0]

    compiled = rl.compile(gradient)
    got = on_all_threads(lambda: compiled(x, w, given))
    assert rl.equal(on_all_threads(lambda: gradient(x, w, given)), got)
    padded = np.pad(x.double().numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (60, 61), (2, 3))
    np.testing.assert_allclose(got.numpy(), np.einsum("bcuvhw,bohw->ocuv", windows, given.double().numpy()), atol=1e-3)


@pytest.mark.parametrize("dtype", [rl.int8, rl.bfloat16], ids=str)
def test_narrow_products_have_parts(dtype: rl.dtype) -> None:
    rl.manual_seed(1)
    a, b = (rl.randint(-3, 4, shape).to(dtype) for shape in ((7, 40000), (40000, 9)))
    wanted = a.double().numpy() @ b.double().numpy()  # exact in any order
    multiply = rl._int_mm if dtype is rl.int8 else rl.matmul
    got = on_all_threads(lambda: multiply(a, b))
    assert rl.equal(got, rl.from_numpy(wanted).to(got.dtype))


def kernels_of(graph: Graph) -> list[GemmKernel]:
    plan: Plan = run_passes(graph, TARGET, until="07-tiled.ir")
    return [kernel for kernel in plan.kernels if isinstance(kernel, GemmKernel)]


def test_only_sums_that_may_be_long_have_parts(captured: Callable[..., Graph]) -> None:
    def parts(function: Callable[..., Any], *args: Any, **options: Any) -> list[bool]:
        return [kernel.split_k for kernel in kernels_of(captured(function, *args, **options))]

    weight = rl.nn.Parameter(rl.randn(256, 256))
    assert parts(lambda a, b: a @ b, rl.randn(40, 50), rl.randn(50, 30)) == [True]
    assert parts(lambda x: F.linear(x, weight), rl.randn(20, 256)) == [False]
    assert parts(lambda a, b: a @ b, rl.randn(64, 1000), rl.randn(1000, 64), dynamic=False) == [False]
    assert parts(lambda a, b: a @ b, rl.randn(64, 9000), rl.randn(9000, 64), dynamic=False) == [True]
    assert parts(lambda a, b: a @ b, rl.randn(512, 20000), rl.randn(20000, 64), dynamic=False) == [False]
