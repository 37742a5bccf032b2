"""What is computed of 16-bit floats is rounded once; results of some operators lie row by row, or as their operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError

F: Any = rl.nn.functional
HALVES = pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16], ids=["float16", "bfloat16"])


def exact(tensor: Any) -> Any:
    """The elements in float64."""
    return tensor.double().numpy()


def drawn(dtype: rl.DType, *shape: int) -> Any:
    """Multiples of 1/8, whose products and sums float32 holds."""
    return rl.tensor(np.random.default_rng(len(shape)).integers(-40, 40, shape) / 8).to(dtype)


def rounded(values: Any, dtype: rl.DType) -> list[Any]:
    return rl.tensor(values).to(dtype).tolist()


@HALVES
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, -1.5)])
def test_sums_with_products_round_once(dtype: rl.DType, beta: float, alpha: float) -> None:
    a, b, c, v = drawn(dtype, 5, 7), drawn(dtype, 7, 6), drawn(dtype, 5, 6), drawn(dtype, 7)
    wanted = beta * exact(c) + alpha * (exact(a) @ exact(b))
    calls: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = [
        (rl.addmm, (c, a, b), wanted),
        (rl.baddbmm, (c[None], a[None], b[None]), wanted[None]),
        (rl.addbmm, (c, a[None].expand(2, 5, 7), b[None].expand(2, 7, 6)), wanted + alpha * (exact(a) @ exact(b))),
        (rl.addmv, (c[:, 0], a, v), beta * exact(c[:, 0]) + alpha * (exact(a) @ exact(v))),
    ]
    for call, operands, result in calls:
        for function in (call, rl.compile(call)):
            assert function(*operands, beta=beta, alpha=alpha).tolist() == rounded(result, dtype), call


@HALVES
def test_the_gradients_of_sums_with_products_are_those_of_products(dtype: rl.DType) -> None:
    a, b, c = drawn(dtype, 5, 7), drawn(dtype, 7, 6), drawn(dtype, 5, 6)
    for item in (a, b, c):
        item.requires_grad_(True)
    g = drawn(dtype, 5, 6, 1)[..., 0]
    found = rl.autograd.grad(rl.addmm(c, a, b), (c, a, b), g)
    wanted = (exact(g), exact(g) @ exact(b.detach()).T, exact(a.detach()).T @ exact(g))
    assert [item.tolist() for item in found] == [rounded(item, dtype) for item in wanted]


@HALVES
def test_gated_units_round_once(dtype: rl.DType) -> None:
    rl.manual_seed(0)
    x = rl.randn(50, 40).to(dtype)
    first, second = exact(x)[:, :20], exact(x)[:, 20:]
    wanted = first / (1 + np.exp(-second))
    found = F.glu(x)
    assert rl.equal(found, rl.tensor(wanted).to(dtype))
    assert rl.equal(found, rl.nn.GLU()(x)) and rl.equal(found, rl.compile(F.glu)(x))


@HALVES
@pytest.mark.parametrize("other", [rl.float32, rl.float64, rl.bfloat16])
def test_a_factor_without_dims_is_not_rounded_first(dtype: rl.DType, other: rl.DType) -> None:
    """On the right of a product or quotient, as in PyTorch, which rounds it in sums and on the left."""
    x, factor = rl.tensor([1.0, 3.0, 5.0, 200.0]).to(dtype), rl.tensor(1e-8 if other is rl.bfloat16 else 1.0039)
    factor = factor.to(other)
    first = exact(factor.to(dtype))
    for call, wanted in (
        (lambda x, s: x * s, exact(x) * exact(factor)),
        (lambda x, s: s * x, exact(x) * first),
        (lambda x, s: x + s, exact(x) + first),
        (lambda x, s: x / s, exact(x) / np.float32(exact(factor))),
    ):
        assert call(x, factor).tolist() == rounded(wanted, dtype) == rl.compile(call)(x, factor).tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.masked_fill(x > 1, 7.0),
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: F.rms_norm(x, x.shape[-1:]),
        lambda x: F.softmax(x, -1),
        lambda x: F.log_softmax(x, 0),
        lambda x: x.masked_scatter(x > 1, rl.ones(24)),
    ],
)
def test_these_results_lie_row_by_row(call: Callable[[Any], Any]) -> None:
    x = rl.arange(24.0).reshape(4, 3, 2)
    assert call(x.permute(2, 0, 1)).is_contiguous() and call(x.as_strided((2, 4, 3), (1, 2, 1))).is_contiguous()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: rl.slice_scatter(x, rl.ones_like(x[:1]), 0, 0, 1),
        lambda x: rl.select_scatter(x, rl.ones_like(x[0]), 0, 0),
        lambda x: rl.diagonal_scatter(x, rl.ones_like(x.diagonal())),
    ],
)
def test_these_results_lie_as_their_operand(call: Callable[[Any], Any]) -> None:
    x = rl.arange(24.0).reshape(4, 3, 2).permute(2, 0, 1)
    assert call(x).stride() == x.stride() == (1, 6, 2)


def test_the_index_of_a_median_is_that_of_the_first_nan() -> None:
    nan = float("nan")
    x = rl.tensor([[1.0, nan, nan, 2.0], [3.0, 1.0, 2.0, 0.0]], requires_grad=True)
    for median in (rl.median, rl.compile(rl.median)):
        values, indices = median(x, 1)
        assert indices.tolist() == [1, 1] and values.isnan().tolist() == [True, False]
        assert rl.autograd.grad(values.sum(), x)[0].tolist() == [[0, 1, 0, 0], [0, 1, 0, 0]]
    assert rl.tensor(nan).median(0).indices.item() == 0 and rl.median(x).isnan().item()


def test_thresholds_of_integers_are_whole_numbers() -> None:
    assert F.threshold(rl.arange(-3, 3), -1.5, 9).tolist() == [9, 9, 9, 0, 1, 2]
    assert F.threshold(rl.arange(-3, 3), 1.5, 9).tolist() == [9, 9, 9, 9, 9, 2]


def test_padding_that_adds_nothing_takes_any_number() -> None:
    x = rl.arange(3)
    for pads, wanted in (((0, 0), [0, 1, 2]), ((-1, 0), [1, 2]), ((), [0, 1, 2])):
        for pad in (F.pad, rl.compile(F.pad)):
            assert pad(x, pads, value=float("inf")).tolist() == wanted
    for pad in (F.pad, rl.compile(F.pad)):
        with pytest.raises(RushlightError) as error:
            pad(x, (1, 0), value=float("inf"))
        assert error.value.code == "D007"


def test_frobenius_norms_are_of_matrices() -> None:
    x = rl.ones(2, 2, 2) * 3
    assert x.norm("fro", (0, 2)).tolist() == [6.0, 6.0] and x[0].norm("fro").item() == 6
    with pytest.raises(RushlightError) as error:
        x.norm("fro", (0, 1, 2))
    assert error.value.code == "A004"
