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

import rushlight as rl
from rushlight.ir.interpret import fold_products
from rushlight.ir.scalar import BLOCKED

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


def product_of_order(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The product as the order defines it, in numpy."""
    left, right = np.broadcast_arrays(a[:, None, :], b.T[None, :, :])
    with np.errstate(all="ignore"):
        return fold_products(left, right, BLOCKED)


def assert_same_bits(got: Any, wanted: np.ndarray[Any, Any]) -> None:
    found = got.numpy()
    words = np.dtype(f"u{found.dtype.itemsize}")
    same = (np.ascontiguousarray(found).view(words) == np.ascontiguousarray(wanted).view(words)) | (
        np.isnan(found) & np.isnan(wanted)
    )
    assert same.all(), f"{(~same).sum()} of {same.size} differ, first at {np.argwhere(~same)[0]}"


def matmul(a: Any, b: Any) -> Any:
    return a @ b


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest) -> Any:
    before = rl.get_num_threads()
    rl.set_num_threads(request.param)
    yield request.param
    rl.set_num_threads(before)


@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, LAYOUTS[:3])), ids="-".join)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_have_the_bits_of_the_order(dtype: str, layouts: tuple[str, str]) -> None:
    random = np.random.default_rng(7)
    for m, n, k in itertools.product(SIZES, SIZES, (0, 17, 257)):
        a, b = (
            laid_out(random.standard_normal(shape).astype(dtype), layout)
            for shape, layout in zip(((m, k), (k, n)), layouts, strict=True)
        )
        assert_same_bits(a @ b, product_of_order(a.numpy(), b.numpy()))


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 513, 600), (3, 255, 513), (16, 300, 700), (25, 96, 255), (300, 1, 513), (257, 3, 600), (1, 1, 700), (2, 9, 9)],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_few_rows_have_the_same_bits_whatever_is_known_of_sizes(
    m: int, n: int, k: int, transposed: bool, threads: int
) -> None:
    random = np.random.default_rng(8)
    a, b = random.standard_normal((m, k)).astype("float32"), random.standard_normal((k, n)).astype("float32")
    right = laid_out(b, "column" if transposed else "row")
    wanted = product_of_order(a, b)
    for function in (matmul, rl.compile(matmul), rl.compile(matmul, dynamic=False)):
        assert_same_bits(function(rl.tensor(a), right), wanted)
    compiled: Callable[..., Any] = rl.compile(lambda x, y: (x @ y).relu() - 1)
    assert_same_bits(compiled(rl.tensor(a), right), np.maximum(wanted, 0) - np.float32(1))
    if m == 1:
        assert_same_bits(rl.tensor(a[0]) @ right, wanted[0])


def test_special_numbers_pass_through_few_rows() -> None:
    numbers = np.array([0.0, -0.0, 1.0, 1e-45, -1e-40, 3e38, np.inf, -np.inf, np.nan], np.float32)
    random = np.random.default_rng(9)
    for count, m in itertools.product((6, 9), (1, 3, 14)):
        a, b = random.choice(numbers[:count], (m, 300)), random.choice(numbers[:count], (300, 40))
        for layout in ("row", "column"):
            assert_same_bits(rl.tensor(a) @ laid_out(b, layout), product_of_order(a, b))
