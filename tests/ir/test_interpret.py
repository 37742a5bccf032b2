"""The interpreter of scalar bodies: orders of reductions, rounding of fma, casts, guards and scatters."""

import math
from fractions import Fraction

import numpy as np
import pytest

from rushlight.ir.dtype import bool_, float32, float64, int8, int32, int64, uint8, uint32, uint64
from rushlight.ir.interpret import cast_array, interpret, multiply_add
from rushlight.ir.loops import Scatter
from rushlight.ir.scalar import (
    BLOCKED,
    LANES,
    SEQUENTIAL,
    Order,
    apply,
    bitcast,
    cast,
    constant,
    contract,
    guard,
    index,
    lift,
    reduce,
)
from rushlight.ir.type import TensorType
from rushlight.sym import Scope, axis_symbol

rng = np.random.default_rng(0)


def chain(values, order):
    """The contract's own words, one element at a time."""
    total = None
    for begin in range(0, len(values), order.block):
        block = values[begin : begin + order.block]
        lanes = [np.float32(0)] * min(order.lanes, 1 << 16)
        for k, value in enumerate(block):
            lanes[k % order.lanes] = lanes[k % order.lanes] + value
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [a + b for a, b in zip(lanes[:half], lanes[half:], strict=True)]
        total = lanes[0] if total is None else total + lanes[0]
    return np.float32(0) if total is None else total


@pytest.mark.parametrize("order", [BLOCKED, LANES, SEQUENTIAL, Order(16, 4, 4)], ids=str)
@pytest.mark.parametrize("count", [0, 1, 5, 64, 300, 9000])
def test_sums_follow_their_order(order, count):
    x = (rng.standard_normal(count) * 1e3).astype(np.float32)
    type_ = TensorType((count,), float32)

    def rule(at, a):
        k = axis_symbol(count, "k")
        return reduce("sum", (k,), a[k], order)

    found = interpret(rule, [type_], [x], TensorType((), float32))
    assert found.tobytes() == chain(x, order).tobytes()


def test_products_are_chains_of_fma():
    a, b = rng.standard_normal((2, 3, 300)).astype(np.float32)

    def rule(at, x, y):
        k = axis_symbol(300, "k")
        return contract((k,), x[at[0], k], y[at[0], k], BLOCKED)

    type_ = TensorType((3, 300), float32)
    found = interpret(rule, [type_, type_], [a, b], TensorType((3,), float32))
    for row in range(3):
        parts = []
        for begin in (0, 256):
            total = np.float32(0)
            for x, y in zip(a[row, begin : begin + 256], b[row, begin : begin + 256], strict=True):
                total = rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(total)))
            parts.append(total)
        assert found[row] == parts[0] + parts[1]


def rounded(value: Fraction) -> np.float32:
    """The float32 nearest to a fraction, ties to even."""
    near = np.float32(float(value))
    options = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(options, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.uint32)) & 1))


def test_fma_rounds_once_in_both_widths():
    for dtype in (np.float32, np.float64):
        a, b = rng.standard_normal((2, 500)).astype(dtype)
        c = (-a * b).astype(dtype)
        found = multiply_add(a, b, c)
        exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
        np.testing.assert_array_equal(found, np.array([float(item) for item in exact], dtype))


def test_casts_truncate_and_saturate():
    x = np.array([np.nan, np.inf, -np.inf, 3.9, -3.9, 300.0, -1.0], np.float32)
    assert cast_array(x, int8).tolist() == [0, 127, -128, 3, -3, 127, -1]
    assert cast_array(x, uint8).tolist() == [0, 255, 0, 3, 0, 255, 0]
    assert cast_array(np.array([2.0**63, -(2.0**63), 2.0**64]), int64).tolist() == [2**63 - 1, -(2**63), 2**63 - 1]
    assert cast_array(np.array([2.0**64, 2.0**63]), uint64).tolist() == [2**64 - 1, 2**63]
    assert cast_array(x, bool_).tolist() == [True] * 7
    assert cast_array(np.array([300, -1]), uint8).tolist() == [44, 255]


@pytest.mark.parametrize(
    ("name", "dtype", "a", "b", "expected"),
    [
        ("floordiv", int32, -7, 2, -4),
        ("floordiv", int32, 7, 0, 0),
        ("remainder", int32, -7, 2, 1),
        ("remainder", float32, -7.5, 2.0, 0.5),
        ("remainder", float32, 7.5, -2.0, -0.5),
        ("shl", int32, 1, 40, 0),
        ("shr", int32, -8, 40, -1),
        ("shr", uint32, 8, 40, 0),
        ("mulhi", uint32, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE),
        ("mulhi", uint64, 2**64 - 1, 2**64 - 1, 2**64 - 2),
        ("minimum", float64, math.nan, 1.0, math.nan),
        ("add", int32, 2**31 - 1, 1, -(2**31)),
    ],
)
def test_binary_ops_follow_the_language(name, dtype, a, b, expected):
    def rule(at):
        return apply(name, constant(a, dtype), constant(b, dtype))

    found = interpret(rule, [], [], TensorType((), dtype))
    np.testing.assert_array_equal(found, np.array(expected, dtype.numpy))


def test_extrema_order_zeros():
    for name, expected in (("minimum", True), ("maximum", False)):
        for a, b in ((0.0, -0.0), (-0.0, 0.0)):
            rule = lambda at, name=name, a=a, b=b: apply(name, constant(a, float64), constant(b, float64))  # noqa: E731
            assert np.signbit(interpret(rule, [], [], TensorType((), float64))) == expected


def test_loads_outside_raise_unless_guarded():
    x = np.arange(4, dtype=np.float32)
    type_ = TensorType((4,), float32)
    with pytest.raises(IndexError, match="outside"):
        interpret(lambda at, a: a[at[0] + 1], [type_], [x], type_)

    def shifted(at, a):
        return guard(index(at[0]) < 3, a[at[0] + 1], lift(-1.0, float32))

    assert interpret(shifted, [type_], [x], type_).tolist() == [1, 2, 3, -1]


def test_axes_of_varying_length_take_their_own_elements():
    x = np.arange(1, 6, dtype=np.float32)
    type_ = TensorType((5,), float32)

    def running(at, a):
        k = axis_symbol(at[0] + 1, "k")
        return reduce("sum", (k,), a[k], SEQUENTIAL)

    assert interpret(running, [type_], [x], type_).tolist() == [1, 3, 6, 10, 15]


def test_scatters_combine_in_order_and_skip_what_is_outside():
    at_type, out = TensorType((5,), int64), TensorType((3,), float32)
    places = np.array([0, 2, 2, 7, -1])

    def rule(combine):
        def scatter(at, index_):
            k = axis_symbol(5, "k")
            value = cast(index(k), float32)
            return Scatter(constant(10.0, float32), (k,), (index_[k],), value, combine)

        return scatter

    assert interpret(rule("sum"), [at_type], [places], out).tolist() == [10, 10, 13]
    assert interpret(rule("set"), [at_type], [places], out).tolist() == [0, 10, 2]
    assert interpret(rule("max"), [at_type], [places], out).tolist() == [10, 10, 10]


def test_symbolic_sizes_take_given_values():
    scope = Scope()
    n = scope.symbol("n", hint=3)
    type_ = TensorType((n,), float32)
    found = interpret(lambda at, a: a[n - 1 - at[0]], [type_], [np.arange(4, dtype=np.float32)], type_, sizes={n: 4})
    assert found.tolist() == [3, 2, 1, 0]


def test_bits_are_kept():
    type_ = TensorType((2,), float32)
    found = interpret(
        lambda at, a: bitcast(a[at[0]], uint32), [type_], [np.array([1.0, -0.0], np.float32)], TensorType((2,), uint32)
    )
    assert found.tolist() == [0x3F800000, 0x80000000]
