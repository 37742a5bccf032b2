"""Errors of the vector math in units in the last place, as compiled."""

import numpy as np
import pytest

from rushlight.ir.dtype import float32, float64
from rushlight.ops.math import error_function, exponential, inverse_trigonometry, logarithm, power, trigonometry
from tools.scalar_driver import Compiled
from tools.ulp_sweep import ROWS, measure

BY_NAME = {row.name: row for row in ROWS}
# What is promised to users: at most 2 ULP, on 2^22 values of float32.
PROMISED = ("exp", "log", "log1p", "expm1", "pow", "tanh", "erf", "sin", "cos", "tan", "atan2")


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_float32_error_is_within_bounds(name):
    row = BY_NAME[name]
    assert name not in PROMISED or row.bound <= 2.0
    error, place = measure(row, float32, 1 << (22 if name in PROMISED else 17))
    assert error <= row.bound, f"{name} at {place}: {error} ulp"


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_float64_error_is_within_bounds(name):
    row = BY_NAME[name]
    error, place = measure(row, float64, 1 << (16 if name in PROMISED else 13))
    assert error <= row.bound, f"{name} at {place}: {error} ulp"


INF, NAN = np.inf, np.nan
POINTS = {
    exponential.exp: [(NAN, NAN), (INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0)],
    exponential.exp2: [(NAN, NAN), (INF, INF), (-INF, 0.0), (3.0, 8.0), (-2.0, 0.25)],
    exponential.expm1: [(NAN, NAN), (INF, INF), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0)],
    logarithm.log: [(NAN, NAN), (INF, INF), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-INF, NAN)],
    logarithm.log2: [(8.0, 3.0), (0.125, -3.0), (0.0, -INF), (-1.0, NAN)],
    logarithm.log1p: [(NAN, NAN), (INF, INF), (-1.0, -INF), (-2.0, NAN), (0.0, 0.0), (-0.0, -0.0)],
    trigonometry.sin: [(NAN, NAN), (INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    trigonometry.cos: [(NAN, NAN), (INF, NAN), (-INF, NAN), (0.0, 1.0), (-0.0, 1.0)],
    trigonometry.tan: [(NAN, NAN), (INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    inverse_trigonometry.asin: [(NAN, NAN), (1.5, NAN), (-0.0, -0.0), (1.0, np.pi / 2)],
    inverse_trigonometry.acos: [(NAN, NAN), (-1.5, NAN), (1.0, 0.0), (-1.0, np.pi)],
    inverse_trigonometry.atan: [(NAN, NAN), (INF, np.pi / 2), (-INF, -np.pi / 2), (-0.0, -0.0)],
    exponential.tanh: [(NAN, NAN), (INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0)],
    exponential.sinh: [(NAN, NAN), (INF, INF), (-INF, -INF), (-0.0, -0.0)],
    exponential.cosh: [(NAN, NAN), (INF, INF), (-INF, INF), (-0.0, 1.0)],
    exponential.sigmoid: [(NAN, NAN), (INF, 1.0), (-INF, 0.0), (0.0, 0.5)],
    error_function.erf: [(NAN, NAN), (INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0)],
    error_function.erfc: [(NAN, NAN), (INF, 0.0), (-INF, 2.0), (0.0, 1.0)],
    error_function.normal_cdf: [(NAN, NAN), (INF, 1.0), (-INF, 0.0), (0.0, 0.5)],
}


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("function", POINTS, ids=lambda function: function.__name__)
def test_special_values(function, dtype):
    arguments, expected = [np.array(column, dtype.numpy) for column in zip(*POINTS[function], strict=True)]
    found = Compiled(function, (dtype,), lanes=8)(arguments)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


# C99, annex F.9.4.4 and F.9.1.4: (first, second, result).
POWERS = [
    (0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF), (-0.0, -2.5, INF), (0.0, -INF, INF),
    (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (1.0, NAN, 1.0),
    (1.0, INF, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (INF, 0.0, 1.0), (-2.0, 0.5, NAN), (-2.0, 3.0, -8.0),
    (0.5, -INF, INF), (-0.5, -INF, INF), (2.0, -INF, 0.0), (0.5, INF, 0.0), (-2.0, INF, INF), (-INF, -3.0, -0.0),
    (-INF, -2.0, 0.0), (-INF, 3.0, -INF), (-INF, 2.5, INF), (INF, -1.0, 0.0), (INF, 2.0, INF), (NAN, 1.0, NAN),
    (2.0, NAN, NAN), (-1.0, NAN, NAN), (-1.0, 3.0, -1.0), (4.0, 0.5, 2.0), (10.0, 2.0, 100.0), (3.0, 4.0, 81.0),
]  # fmt: skip
ANGLES = [
    (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, np.pi), (-0.0, -0.0, -np.pi), (0.0, -1.0, np.pi), (-0.0, 1.0, -0.0),
    (1.0, 0.0, np.pi / 2), (-1.0, -0.0, -np.pi / 2), (1.0, -INF, np.pi), (1.0, INF, 0.0), (-1.0, INF, -0.0),
    (INF, 1.0, np.pi / 2), (INF, INF, np.pi / 4), (INF, -INF, 3 * np.pi / 4), (-INF, -INF, -3 * np.pi / 4),
    (NAN, 1.0, NAN), (1.0, NAN, NAN),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("function", "table"), [(power.power, POWERS), (inverse_trigonometry.atan2, ANGLES)])
def test_special_values_of_pairs(function, table, dtype):
    first, second, expected = [np.array(column, dtype.numpy) for column in zip(*table, strict=True)]
    found = Compiled(function, (dtype, dtype), lanes=8)(first, second)
    np.testing.assert_allclose(found, expected, rtol=np.finfo(dtype.numpy).eps, atol=0)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sin", "log1p", "pow"])
def test_every_width_and_target_gives_the_same_bits(name):
    row = BY_NAME[name]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(4096).astype(np.float32) * 8 for _ in range(row.operands)]
    dtypes = (float32,) * row.operands
    first = Compiled(row.function, dtypes, "x86-64-v3", 8)(*arrays)
    for target, lanes in (("x86-64-v3", 4), ("native", 16), ("native", 32)):
        found = Compiled(row.function, dtypes, target, lanes)(*arrays)
        np.testing.assert_array_equal(found.view(np.uint32), first.view(np.uint32))
