"""Elementary functions of complex numbers: precise near 0 and 1, and at zeros, infinities and cuts as numpy's."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

NUMPY = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tan": np.tan,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, np.nan, 1e-30, 300.0, -800.0]
EDGES = np.array([complex(x, y) for x in PARTS for y in PARTS])


@pytest.mark.parametrize("name", NUMPY)
def test_edges_are_numpys(name):
    with np.errstate(all="ignore"):
        expected = NUMPY[name](EDGES)
    found = getattr(rl, name)(rl.from_numpy(EDGES)).numpy()
    for part in (np.real, np.imag):
        one, other = part(found), part(expected)
        with np.errstate(all="ignore"):
            close = (one == other) & (np.signbit(one) == np.signbit(other))
            close |= (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= 1e-13 * np.abs(other))
        assert close.all(), list(zip(EDGES[~close], found[~close], expected[~close], strict=True))


def circle():
    rng = np.random.default_rng(0)
    return np.exp(1j * rng.uniform(-np.pi, np.pi, 400)) * (1 + rng.standard_normal(400) * 1e-4)


def test_logarithms_are_precise_near_the_unit_circle():
    z = circle()
    x, y = z.real.astype(np.longdouble), z.imag.astype(np.longdouble)
    expected = np.log1p((x - 1) * (x + 1) + y * y) / 2
    found = rl.from_numpy(z).log().real.numpy()
    assert np.abs(found - expected).max() <= 1e-19 + (4e-16 * np.abs(expected)).max()
    assert (np.abs(found - expected) <= 3e-15 * np.abs(expected) + 1e-20).all()


def test_differences_are_precise_near_0():
    z = np.array([1e-9 + 2e-9j, -3e-10 + 1e-5j, -5e-11j, -0.5e-10 + 1e-5j])
    assert np.allclose(
        rl.from_numpy(z).log1p().real.numpy(), (z - z**2 / 2 + z**3 / 3 - z**4 / 4).real, rtol=1e-5, atol=1e-26
    )
    assert np.allclose(rl.from_numpy(z).expm1().numpy(), z + z**2 / 2 + z**3 / 6, rtol=1e-13, atol=1e-19)


def test_parts_of_large_numbers_do_not_overflow_on_the_way():
    z = rl.tensor([complex(1e300, 1e300), complex(-1e-310, 3e-310), complex(0.0, 1.5e308)], dtype=rl.complex128)
    for name in ("sqrt", "log", "asin", "acosh", "sgn"):
        found = getattr(z, name)().numpy()
        assert np.isfinite(found).all()
    assert np.allclose(z.sqrt().numpy() ** 2, z.numpy(), rtol=1e-14, atol=0)
    assert np.allclose(z.sgn().abs().numpy(), 1.0, rtol=1e-15)
    big = rl.tensor([complex(710.0, 1e-3), complex(-710.0, 1.5707963267948966)], dtype=rl.complex128)
    assert np.isclose(big.exp().numpy()[0].imag, np.exp(700.0) * (np.exp(10.0) * np.sin(1e-3)), rtol=1e-13)
    assert np.isclose(
        big.cosh().numpy()[1].real, np.exp(700.0) / 2 * (np.exp(10.0) * np.cos(1.5707963267948966)), rtol=1e-13
    )


def test_powers():
    z = np.array([0, 0, 1j, -2.0, 3 - 4j, 0])
    w = np.array([0, 2, 2, 0.5, -1.5 + 1j, 1 + 1j])
    expected = np.array([1, 0, -1, 1j * np.sqrt(2), (3 - 4j) ** (-1.5 + 1j), 0])
    assert np.allclose(rl.from_numpy(z).pow(rl.from_numpy(w)).numpy(), expected, rtol=1e-14, atol=1e-15)
    assert (rl.tensor([2j]) ** 2).tolist() == [-4] and (rl.tensor([1 + 1j]) ** 3).tolist() == [-2 + 2j]
    assert rl.tensor([0.5, 2.0]).pow(1j).dtype is rl.complex64


def test_one_infinite_or_nan_part_is_enough():
    z = rl.tensor([complex(np.inf, np.nan), complex(1, np.nan), complex(0, -np.inf), 1 + 1j])
    assert z.isnan().tolist() == [True, True, False, False]
    assert z.isinf().tolist() == [True, False, True, False]
    assert z.isfinite().tolist() == [False, False, False, True]
