"""Products whose sums have one step are pointwise, for all sizes, with the bits of the sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rushlight as rl

OUTER: dict[str, Callable[[rl.Tensor, rl.Tensor], rl.Tensor]] = {
    "matmul": lambda a, b: a[:, None] @ b[None],
    "outer": rl.outer,
    "batched": lambda a, b: a[None, :, None] @ b[None, None],
    "in the middle": lambda a, b: ((a[:, None] * 2) @ b[None]).relu() + 1,
    "einsum": lambda a, b: rl.einsum("ik,kj->ij", a[:, None], b[None]),
}


def kinds(function: Callable[..., rl.Tensor], *tensors: rl.Tensor) -> str:
    """The code of a first call."""
    return "\n".join(rl.compiler.run_and_get_code(rl.compile(function), *tensors)[1])


@pytest.mark.row("4.9")
@pytest.mark.parametrize("name", OUTER)
def test_one_pointwise_graph_serves_all_rows(name: str):
    function = OUTER[name]
    compiled = rl.compile(function)
    b = rl.randn(6)
    for rows in (3, 1, 0, 2, 5, 8, 13, 40, 100, 7):
        a = rl.randn(rows)
        assert compiled(a, b).numpy().tobytes() == function(a, b).numpy().tobytes()
    assert rl.compiler.report(compiled).graphs == 1
    assert "gemm" not in kinds(function, rl.randn(300), rl.randn(200))
    assert "gemm" in kinds(lambda a, b: a @ b, rl.randn(300, 2), rl.randn(2, 200))


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16])
def test_a_sum_of_one_product_begins_at_plus_zero(dtype: rl.dtype):
    a = rl.tensor([0.0, -0.0, 1.5, -2.0, float("inf"), float("nan")]).to(dtype)
    found = rl.compile(lambda a, b: a[:, None] @ b[None])(a, a).double().numpy()
    wide = a.double().numpy()
    with np.errstate(invalid="ignore"):
        expected = wide[:, None] * wide + 0.0
    np.testing.assert_array_equal(found, expected)
    assert not np.signbit(found[found == 0]).any()


def test_integers_and_gradients_are_those_of_the_sum():
    a, b = rl.tensor([3, -4]), rl.tensor([5, 7, -1])
    assert (a[:, None] @ b[None]).tolist() == [[15, 21, -3], [-20, -28, 4]]
    x, y = rl.randn(4, requires_grad=True), rl.randn(3, requires_grad=True)
    grads = rl.autograd.grad(rl.compile(OUTER["matmul"])(x, y).sum(), (x, y))
    assert rl.allclose(grads[0], y.sum().expand(4)) and rl.allclose(grads[1], x.sum().expand(3))
