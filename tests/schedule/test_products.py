"""Products of all shapes and layouts, eager and compiled: the bits that the order of the sum says, on any path.

The same product may run as a generic loop, on edges of the template, with operands packed or in place, with its two
operands exchanged; nothing of that may be seen in the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.schedule.product_order import assert_same_bits, numpy_dtype, product_of_order

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.dtype import bfloat16
from rushlight.ir.graph import Graph
from rushlight.ir.kernel import Kernel, Loop, Statement
from rushlight.ir.plan import Launch
from rushlight.ir.target import Target
from rushlight.sym import optimization_hint

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
SIZES = (0, 1, 3, 40)
LAYOUTS = ("row", "column", "strided", "broadcast")


def laid_out(array: np.ndarray[Any, Any], layout: str) -> Any:
    """A tensor with an array's values; "broadcast" repeats the first row with a stride of 0."""
    if layout == "column":
        return rl.tensor(np.ascontiguousarray(array.T)).mT
    if layout == "strided":
        return rl.tensor(np.repeat(array, 2, axis=1))[:, ::2]
    if layout == "broadcast" and len(array):
        return rl.tensor(array[:1]).expand(*array.shape)
    return rl.tensor(array)


def matmul(a: Any, b: Any) -> Any:
    return a @ b


@pytest.mark.generated("dtype")
@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, LAYOUTS[:3])), ids="-".join)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_products_have_the_bits_of_the_order(dtype: str, layouts: tuple[str, str]) -> None:
    random = np.random.default_rng(7)
    for m, n, k in itertools.product(SIZES, SIZES, (0, 17, 257)):
        a, b = (
            laid_out(random.standard_normal(shape).astype(numpy_dtype(dtype)), layout)
            for shape, layout in zip(((m, k), (k, n)), layouts, strict=True)
        )
        assert_same_bits(a @ b, product_of_order(a.numpy(), b.numpy()))


@pytest.mark.generated("dtype", "transposed")
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 513, 600), (3, 255, 513), (16, 300, 700), (25, 96, 255), (300, 1, 513), (257, 3, 600), (1, 1, 700), (2, 9, 9)],
)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_few_rows_have_the_same_bits_whatever_is_known_of_sizes(
    m: int, n: int, k: int, dtype: str, transposed: bool, threads: int
) -> None:
    random = np.random.default_rng(8)
    a, b = (random.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in ((m, k), (k, n)))
    right = laid_out(b, "column" if transposed else "row")
    wanted = product_of_order(a, b)
    for function in (matmul, rl.compile(matmul), rl.compile(matmul, dynamic=False)):
        assert_same_bits(function(rl.tensor(a), right), wanted)
    compiled: Callable[..., Any] = rl.compile(lambda x, y: (-(-x @ y)).relu())
    assert_same_bits(compiled(rl.tensor(a), right), np.maximum(wanted, 0))
    if m == 1:
        assert_same_bits(rl.tensor(a[0]) @ right, wanted[0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_special_numbers_pass_through_few_rows(dtype: str) -> None:
    numbers = np.array([0.0, -0.0, 1.0, 1e-45, -1e-39, 3e38, np.inf, -np.inf, np.nan], numpy_dtype(dtype))
    random = np.random.default_rng(9)
    for count, m in itertools.product((6, 9), (1, 3, 14)):
        a, b = random.choice(numbers[:count], (m, 300)), random.choice(numbers[:count], (300, 40))
        for layout in ("row", "column"):
            assert_same_bits(rl.tensor(a) @ laid_out(b, layout), product_of_order(a, b))


def test_a_product_of_widened_elements_is_one_of_float32() -> None:
    random = np.random.default_rng(10)
    a, b = (random.standard_normal(shape).astype(bfloat16.numpy) for shape in ((20, 300), (300, 50)))
    wanted = product_of_order(a.astype(np.float32), b.astype(np.float32))
    for function in (rl.compile(lambda x, y: x.float() @ y.float()), lambda x, y: x.float() @ y.float()):
        assert_same_bits(function(rl.tensor(a), rl.tensor(b)), wanted)


def test_batches_of_bfloat16_have_the_bits_of_their_matrices() -> None:
    random = np.random.default_rng(11)
    a, b = (random.standard_normal(shape).astype(bfloat16.numpy) for shape in ((2, 3, 20, 70), (3, 70, 30)))
    found = (rl.tensor(a) @ rl.tensor(b)).numpy()
    for outer, inner in itertools.product(range(2), range(3)):
        assert_same_bits(rl.tensor(found[outer, inner]), product_of_order(a[outer, inner], b[inner]))


@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS[:3], LAYOUTS[:3])), ids="-".join)
def test_products_of_int8_are_exact(layouts: tuple[str, str], threads: int) -> None:
    random = np.random.default_rng(12)
    shapes = [(1, 1, 1), (3, 5, 0), (1, 300, 513), (300, 1, 257), (7, 16, 255), (13, 33, 1030), (130, 70, 258)]
    for m, n, k in shapes:
        a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
        wanted = a.astype(np.int32) @ b.astype(np.int32)
        left, right = laid_out(a, layouts[0]), laid_out(b, layouts[1])
        assert np.array_equal(rl._int_mm(left, right).numpy(), wanted)
        assert np.array_equal((left @ right).numpy(), wanted.astype(np.int8))
        assert np.array_equal((left @ right[:, 0]).numpy(), wanted[:, 0].astype(np.int8))


@pytest.mark.parametrize("dynamic", [None, False], ids=["open", "constant"])
def test_small_products_of_a_batch_have_the_bits_of_their_matrices(dynamic: bool | None, threads: int) -> None:
    random = np.random.default_rng(13)
    for m, n, k in itertools.product((1, 4), (1, 2, 4, 7, 8, 9), (0, 1, 32, 70, 257)):
        a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((5, m, k), (5, n, k)))
        run = rl.compile(lambda x, y: (x @ y.mT).relu(), dynamic=dynamic)
        found = run(*[with_open_batch(array) for array in (a, b)])
        wanted = np.stack([product_of_order(*pair) for pair in zip(a, b.transpose(0, 2, 1), strict=True)])
        assert_same_bits(found, np.maximum(wanted, 0))


def with_open_batch(array: np.ndarray[Any, Any]) -> Any:
    """A tensor of whose sizes only the first may be a symbol."""
    tensor = rl.tensor(array)
    for dim in range(1, array.ndim):
        rl.compiler.mark_static(tensor, dim)
    return tensor


@pytest.mark.parametrize("dynamic", [None, False], ids=["open", "constant"])
def test_single_chains_of_integers_over_a_short_axis_share_a_loop(
    dynamic: bool | None, captured: Callable[..., Graph]
) -> None:
    def launch_of(columns: int) -> tuple[Kernel, Launch, int]:
        x, y = (with_open_batch(np.ones((300, n, 32), np.int32)) for n in (4, columns))
        plan = run_passes(captured(lambda x, y: x @ y.mT, x, y, dynamic=dynamic), TARGET, until="07-tiled.ir")
        (kernel,), (launch,) = plan.kernels, plan.launches
        assert isinstance(kernel, Kernel)
        return kernel, launch, optimization_hint(launch.count)

    (kernel, launch, count), (single, one_by_one, count_one_by_one) = launch_of(4), launch_of(9)
    assert [len(loop_body(kernel)), len(loop_body(single))] == [4, 1]
    assert [count, count_one_by_one] == [4 * 300, 36 * 300]
    assert isinstance(launch.grain, int)
    assert isinstance(one_by_one.grain, int)
    assert 3 * launch.grain < one_by_one.grain  # a share of its own is worth as much work


def loop_body(kernel: Kernel) -> tuple[Statement, ...]:
    """The statements inside all loops."""
    body = kernel.body
    while isinstance(body[0], Loop):
        body = body[0].body
    return body
