"""Complex operators and their gradients against PyTorch's numbers, and what those do not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from complex_cases import CASES, ROWS, outcome
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional as F

pytestmark = pytest.mark.usefixtures("quick_code")
TORCH = np.load(Path(__file__).with_name("torch_complex.npz"))


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_torchs(name):
    found = outcome(rl, rl.from_numpy, lambda item: item.numpy(), name)
    expected = [TORCH[f"{name}/{place}"] for place in range(len(found))]
    assert f"{name}/{len(found)}" not in TORCH
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.prod(1),
        lambda x: x.cumprod(1),
        lambda x: x.std(),
        lambda x: rl.linalg.vector_norm(x, 3, 0),
        lambda x: x.logsumexp(1),
        lambda x: rl.nn.functional.conv1d(x[None], x[:, None, :2], groups=2),
        lambda x: rl.lerp(x, x * x, x),
        lambda x: rl.sinc(x),
    ],
)
def test_second_derivatives(program):
    assert gradgradcheck(program, (rl.from_numpy(ROWS[:2, :3].copy()).requires_grad_(),))


def test_products_compile_and_map():
    x = rl.from_numpy(ROWS).to(rl.complex64).requires_grad_()

    def program(x):
        return (x.prod(1) * 2).sum() + x.cumprod(0).mean()

    eager, compiled = program(x), rl.compile(program)(x)
    assert eager.equal(compiled)
    gradients = [rl.autograd.grad(value.abs(), x)[0] for value in (eager, compiled)]
    assert gradients[0].equal(gradients[1])
    assert rl.func.vmap(lambda row: row.prod())(x.detach()).equal(x.detach().prod(1))
    assert rl.func.vmap(lambda row: row.cumprod(0))(x.detach()).equal(x.detach().cumprod(1))


@pytest.mark.parametrize("base", [-1, -1.5, 2.5, [-2.0, 3.0], [-1.0, -0.5]])
def test_complex_powers_of_negative_numbers_have_gradients(base):
    exponent = np.array([0.3 + 0.2j, -0.5 + 1j])
    leaf = rl.from_numpy(exponent).requires_grad_()
    root = rl.tensor(base, dtype=rl.float64) if isinstance(base, list) else base
    for power in (rl.pow, rl.compile(rl.pow)):
        (found,) = rl.autograd.grad(power(root, leaf), leaf, rl.ones(2, dtype=rl.complex128))
        wide = np.asarray(base, np.complex128)
        np.testing.assert_allclose(found.numpy(), np.conj(wide**exponent * np.log(wide)), rtol=1e-12)


def test_products_of_nothing_in_place_and_of_reals():
    assert rl.prod(rl.empty(0, dtype=rl.complex64)).item() == 1
    assert rl.full((3,), 2.0).prod(dtype=rl.complex128).dtype is rl.complex128
    x = rl.tensor([1j, 2.0, 1j])
    assert x.cumprod_(0).tolist() == [1j, 2j, -2]


def test_means_of_infinities_keep_the_other_part():
    x = rl.tensor([complex(1, float("inf")), complex(3, 0)])
    assert x.mean().item() == complex(2, float("inf"))


def test_closeness_is_of_magnitudes():
    x = rl.tensor([3 + 4j, complex(float("nan"), 1), complex(float("inf"), 0)])
    assert x.isclose(x + 4e-5j, rtol=1e-5).tolist() == [True, False, False]
    assert x.isclose(x + 6e-5j, rtol=1e-5).tolist() == [False, False, False]
    assert x.isclose(x, equal_nan=True).tolist() == [True, True, True]
    assert rl.allclose(x[:1], x[:1] + 1e-9j) and not rl.allclose(x, x)


def test_norms_take_a_complex_dtype_only():
    x = rl.tensor([3 + 4j])
    assert rl.linalg.vector_norm(x, dtype=rl.complex128).dtype is rl.float64
    for tensor, dtype in ((x, rl.float64), (x.real, rl.complex64)):
        for norm in (rl.linalg.vector_norm, rl.norm):
            with pytest.raises(rl.DTypeError, match="dtype"):
                norm(tensor, dtype=dtype)


def test_standard_deviations_of_huge_numbers_are_finite():
    assert rl.tensor([1e30, 1e30j, -1e30]).std().isfinite()


def test_logarithms_of_sums_do_not_overflow():
    x = rl.tensor([complex(1000, 1), complex(-float("inf"), 0), complex(999, 2)], dtype=rl.complex128)
    expected = 1000 + np.log(np.exp(1j) + np.exp(-1 + 2j))
    assert np.isclose(rl.logsumexp(x, 0).item(), expected, rtol=1e-14)
    assert np.isclose(rl.logaddexp(x[0], x[2]).item(), expected, rtol=1e-14)
    assert rl.logaddexp(x[1], x[0]).item() == 1000 + 1j


def test_silu_is_a_product_with_the_sigmoid():
    x = rl.from_numpy(ROWS).requires_grad_()
    wanted = ROWS / (1 + np.exp(-ROWS))
    assert np.allclose(F.silu(x).detach().numpy(), wanted, rtol=1e-13)
    assert np.allclose(F.silu(x.detach().to(rl.complex64)).numpy(), wanted, rtol=1e-5)
    assert gradcheck(F.silu, (x,))


def test_identity_matrices_are_compiled():
    for dtype in (rl.complex64, rl.complex128):
        made = rl.compile(lambda dtype=dtype: rl.eye(2, 3, dtype=dtype), fullgraph=True)()
        assert made.dtype is dtype and made.tolist() == [[1, 0, 0], [0, 1, 0]]
