"""Reductions keep their order to the bit, in every form that the code generator has for them."""

import re

import numpy as np
import pytest
from tests.codegen.kernel_oracle import buffer, check, expected, kernel, loop, parallel, run, same_bits, targets, vector

from rushlight.codegen.llvm import CodeTarget, emit_kernel
from rushlight.ir.dtype import Kind, bool_, float32, float64, int8, int32, int64, uint8
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import (
    BLOCKED,
    LANES,
    SEQUENTIAL,
    Order,
    apply,
    cast,
    constant,
    contract,
    guard,
    index,
    load,
    reduce,
)
from rushlight.sym import axis_symbol, size_of_code

ORDERS = (LANES, BLOCKED, Order(100, 4, 25), Order(96, 1, 16), SEQUENTIAL)
ids = {"ids": str}


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def sizes():
    return size_of_code("m"), size_of_code("n"), size_of_code("p")


def data(rng, dtype, count):
    if dtype.kind is Kind.FLOAT:
        return rng.standard_normal(count).astype(dtype.numpy)
    if dtype is bool_:
        return rng.random(count) < 0.9
    return rng.integers(np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max, count, dtype.numpy, endpoint=True)


@pytest.mark.parametrize("total", [float32, float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("order", ORDERS, **ids)
def test_rows(order, total, rng, sizes):
    m, n, _ = sizes
    i, k, x, out = axis_symbol(m, "i"), axis_symbol(n, "k"), buffer("x", float32), buffer("out", total)
    kern = kernel(parallel(i, Store(out, i, reduce("sum", (k,), load(x, i * n + k), order, total))))
    for rows, columns in ((3, 0), (1, 1), (2, 5), (3, 64), (3, 100), (2, 8192), (1, 8193), (1, 20000)):
        check(
            kern,
            {x: data(rng, float32, rows * columns), out: np.ones(rows, total.numpy)},
            {m: rows, n: columns},
            shares=2,
        )


@pytest.mark.parametrize("total", [float32, float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("order", ORDERS, **ids)
def test_columns(order, total, rng, sizes):
    m, n, _ = sizes
    j, k, x, out = axis_symbol(m, "j"), axis_symbol(n, "k"), buffer("x", float32), buffer("out", total)
    kern = kernel(parallel(j, Store(out, j, reduce("sum", (k,), load(x, k * m + j), order, total))))
    for columns, rows in ((3, 0), (1, 1), (2, 5), (70, 64), (33, 100), (2, 8193), (100, 300)):
        check(
            kern,
            {x: data(rng, float32, rows * columns), out: np.ones(columns, total.numpy)},
            {m: columns, n: rows},
            shares=3,
        )


@pytest.mark.parametrize("inner", [True, False], ids=["along", "across"])
@pytest.mark.parametrize("order", ORDERS, **ids)
def test_several_axes_are_flattened_row_major(order, inner, rng, sizes):
    m, n, p = sizes
    j, k, e = axis_symbol(m, "j"), axis_symbol(n, "k"), axis_symbol(p, "e")
    x, out, most = buffer("x", float32), buffer("out", float32), buffer("most", float32)
    place = (k * m + j) * p + e if inner else k * (p + 1) * m + e * m + j
    body = load(x, place)
    stores = [Store(out, j, reduce("sum", (k, e), body, order)), Store(most, j, reduce("max", (k, e), body, order))]
    kern = kernel(parallel(j, *stores))
    for a, b, c in ((3, 0, 4), (3, 4, 0), (1, 1, 1), (2, 5, 7), (5, 64, 3), (20, 10, 33), (3, 20, 300)):
        arrays = {x: data(rng, float32, a * b * (c + 1)), out: np.ones(a, np.float32), most: np.ones(a, np.float32)}
        check(kern, arrays, {m: a, n: b, p: c})


def test_three_axes_with_one_of_length_one(rng, sizes):
    m, n, p = sizes
    j, k, one, e = axis_symbol(m, "j"), axis_symbol(n, "k"), axis_symbol(1, "one"), axis_symbol(p, "e")
    x, out = buffer("x", float32), buffer("out", float32)
    f = axis_symbol(3, "f")
    body = load(x, ((k * 3 + f) * m + j) * p + e + one)
    kern = kernel(parallel(j, Store(out, j, reduce("sum", (k, f, one, e), body, Order(48, 8, 6)))))
    for a, b, c in ((1, 1, 1), (4, 5, 7), (2, 3, 40)):
        check(kern, {x: data(rng, float32, 3 * a * b * c), out: np.ones(a, np.float32)}, {m: a, n: b, p: c})


@pytest.mark.parametrize("dtype", [float32, float64, int8, int32, int64, uint8, bool_], ids=lambda dtype: dtype.name)
def test_every_kind_and_dtype(dtype, rng, sizes):
    m, n, _ = sizes
    kinds = ("any", "all") if dtype is bool_ else ("sum", "prod", "max", "min")
    i, j, x = axis_symbol(m, "i"), axis_symbol(m, "j"), buffer("x", dtype)
    along, across, arrays = [], [], {}
    for kind in kinds:
        for stores, axis, place in ((along, i, lambda k: i * n + k), (across, j, lambda k: k * m + j)):
            k, out = axis_symbol(n, "k"), buffer(f"{kind}{axis}", dtype)
            arrays[out] = np.zeros(70, dtype.numpy)
            stores.append(Store(out, axis, reduce(kind, (k,), load(x, place(k)), LANES)))
    kern = kernel(loop(i, *along), vector(j, *across))
    for rows, columns in ((2, 0), (3, 1), (2, 70), (3, 300), (70, 9)):
        check(kern, {x: data(rng, dtype, rows * columns), **arrays}, {m: rows, n: columns})


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda dtype: dtype.name)
def test_extremes_propagate_nan_and_order_zeros(dtype, sizes):
    m, n, _ = sizes
    nan, inf = float("nan"), float("inf")
    rows = [
        [1, nan, 3],
        [0.0, -0.0, 0.0],
        [-0.0, 0.0, -0.0],
        [-0.0, -0.0, -0.0],
        [-inf, -inf, -1],
        [inf, -1, 1],
        [-nan, 1, 2],
    ]
    x = np.array(rows, dtype.numpy)
    x[-1, 0] = -np.array(nan, dtype.numpy)
    low = [nan, -0.0, -0.0, -0.0, -inf, -1, nan]
    high = [nan, 0.0, 0.0, -0.0, -1, inf, nan]
    i, j = axis_symbol(m, "i"), axis_symbol(m, "j")
    source, other = buffer("x", dtype), buffer("xT", dtype)
    outs = [buffer(name, dtype) for name in ("low", "high", "low2", "high2")]
    stores = []
    for place, out in enumerate(outs):
        k, axis = axis_symbol(n, "k"), i if place < 2 else j
        body = load(source, i * n + k) if place < 2 else load(other, k * m + j)
        stores.append(Store(out, axis, reduce(("min", "max")[place % 2], (k,), body, LANES)))
    kern = kernel(loop(i, *stores[:2]), vector(j, *stores[2:]))
    arrays = {
        source: x.ravel(),
        other: np.ascontiguousarray(x.T).ravel(),
        **{out: np.zeros(7, dtype.numpy) for out in outs},
    }
    for width in targets():
        got = run(kern, arrays, {m: 7, n: 3}, width)
        for place, out in enumerate(outs):
            assert same_bits(got[out], np.array((low, high)[place % 2], dtype.numpy)), out


@pytest.mark.parametrize("order", ORDERS, **ids)
@pytest.mark.parametrize("dtype", [float32, int32], ids=lambda dtype: dtype.name)
def test_contractions_chain_fma(order, dtype, rng, sizes):
    m, n, p = sizes
    i, j, k = axis_symbol(m, "i"), axis_symbol(n, "j"), axis_symbol(p, "k")
    a, b, out, dots = buffer("a", dtype), buffer("b", dtype), buffer("out", dtype), buffer("dots", dtype)
    product = contract((k,), load(a, i * p + k), load(b, k * n + j), order)
    e = axis_symbol(p, "e")
    dot = contract((e,), load(a, i * p + e), load(a, e), order)
    kern = kernel(parallel(i, Store(dots, i, dot), vector(j, Store(out, i * n + j, product))))
    for x, y, z in ((2, 3, 0), (1, 1, 1), (3, 20, 5), (2, 70, 60), (1, 5, 300)):
        arrays = {a: data(rng, dtype, x * z), b: data(rng, dtype, z * y)}
        arrays |= {out: np.zeros(x * y, dtype.numpy), dots: np.zeros(x, dtype.numpy)}
        check(kern, arrays, {m: x, n: y, p: z})


def test_products_that_underflow_are_plus_zero(sizes):
    m, n, _ = sizes
    for order in (LANES, BLOCKED, Order(4, 2, 2)):
        i, k, j, e = axis_symbol(m, "i"), axis_symbol(n, "k"), axis_symbol(m, "j"), axis_symbol(n, "e")
        a, out, across = buffer("a", float32), buffer("out", float32), buffer("across", float32)
        small = constant(-1e-30, float32)
        kern = kernel(
            loop(i, Store(out, i, contract((k,), load(a, i * n + k), small, order))),
            vector(j, Store(across, j, contract((e,), load(a, j * n + e), small, order))),
        )
        for count in (1, 3, 70):
            arrays = {
                a: np.full(2 * count, 1e-30, np.float32),
                out: np.ones(2, np.float32),
                across: np.ones(2, np.float32),
            }
            check(kern, arrays, {m: 2, n: count})


def test_independent_reductions_share_a_loop(rng, sizes):
    m, n, _ = sizes
    i, k, e, x = axis_symbol(m, "i"), axis_symbol(n, "k"), axis_symbol(n, "e"), buffer("x", float32)
    first, second = buffer("first", float32), buffer("second", float32)
    square = load(x, i * n + e) * load(x, i * n + e)
    stores = [
        Store(first, i, reduce("sum", (k,), load(x, i * n + k), LANES)),
        Store(second, i, reduce("sum", (e,), square, LANES)),
    ]
    kern = kernel(parallel(i, *stores))
    text = emit_kernel(kern, CodeTarget(), "k")
    assert text.count("@llvm.masked.load") == 1
    check(
        kern,
        {x: data(rng, float32, 600), first: np.zeros(3, np.float32), second: np.zeros(3, np.float32)},
        {m: 3, n: 200},
    )


def softmax_kernel(sizes):
    m, n, _ = sizes
    i, j, k, e = axis_symbol(m, "i"), axis_symbol(n, "j"), axis_symbol(n, "k"), axis_symbol(n, "e")
    x, out = buffer("x", float32), buffer("out", float32)
    top = reduce("max", (k,), load(x, i * n + k), LANES)

    def weight(place):
        z = load(x, i * n + place) - top
        for _ in range(12):
            z = z * 0.25 + apply("floor", z)
        return z * z + 1.0

    total = reduce("sum", (e,), weight(e), LANES)
    return kernel(parallel(i, vector(j, Store(out, i * n + j, weight(j) / total)))), x, out


def test_row_results_are_computed_once_per_row(rng, sizes):
    m, n, _ = sizes
    kern, x, out = softmax_kernel(sizes)
    for rows, columns in ((2, 0), (1, 1), (3, 70), (2, 9000)):
        check(
            kern,
            {x: data(rng, float32, rows * columns), out: np.zeros(rows * columns, np.float32)},
            {m: rows, n: columns},
        )


def test_a_reduction_inside_another(rng, sizes):
    m, n, p = sizes
    i, k, e = axis_symbol(m, "i"), axis_symbol(n, "k"), axis_symbol(p, "e")
    x, y, out = buffer("x", float32), buffer("y", float32), buffer("out", float32)
    inner = reduce("sum", (e,), load(x, k * p + e) * load(y, i), BLOCKED)
    outer = reduce("max", (k,), inner * inner, LANES)
    kern = kernel(parallel(i, Store(out, i, outer)))
    for a, b, c in ((3, 4, 5), (2, 40, 70), (20, 3, 0)):
        check(
            kern,
            {x: data(rng, float32, b * c), y: data(rng, float32, a), out: np.zeros(a, np.float32)},
            {m: a, n: b, p: c},
        )


@pytest.mark.parametrize("total", [float32, float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("order", ORDERS, **ids)
def test_prefix_sums_have_ragged_extents(order, total, rng, sizes):
    m, n, _ = sizes
    i, j, r = axis_symbol(n, "i"), axis_symbol(n, "j"), axis_symbol(m, "r")
    k, e = axis_symbol(i + 1, "k"), axis_symbol(j + 1, "e")
    x, scalars, vectors = buffer("x", float32), buffer("scalars", total), buffer("vectors", total)
    kern = kernel(
        loop(i, Store(scalars, i, reduce("sum", (k,), load(x, k), order, total))),
        vector(j, Store(vectors, j, reduce("sum", (e,), load(x, e), order, total))),
        loop(r, Store(scalars, n + r, constant(0.0, total))),
    )
    for count in (0, 1, 5, 40, 110):
        arrays = {
            x: data(rng, float32, count),
            scalars: np.zeros(count, total.numpy),
            vectors: np.zeros(count, total.numpy),
        }
        check(kern, arrays, {m: 0, n: count})


def test_a_guarded_reduction_reads_only_where_its_condition_holds(rng, sizes):
    m, n, _ = sizes
    i, j, k, e = axis_symbol(m, "i"), axis_symbol(m, "j"), axis_symbol(n, "k"), axis_symbol(n, "e")
    x, out, across = buffer("x", float32), buffer("out", float32), buffer("across", float32)

    def chosen(axis, total):
        return guard(apply("lt", index(axis), constant(3, int64)), total, constant(9.0, float32))

    far = 1000000000
    kern = kernel(
        loop(i, Store(out, i, chosen(i, reduce("sum", (k,), load(x, i * n * far // far + k + (i // 3) * far), LANES)))),
        vector(j, Store(across, j, chosen(j, reduce("sum", (e,), load(x, j * n + e + (j // 3) * far), LANES)))),
    )
    arrays = {x: data(rng, float32, 3 * 80), out: np.zeros(20, np.float32), across: np.zeros(20, np.float32)}
    check(kern, arrays, {m: 20, n: 80})


def test_constant_extents(rng, sizes):
    m, _, _ = sizes
    for count in (1, 2, 3, 17, 64, 100):
        i, k, j, e = axis_symbol(m, "i"), axis_symbol(count, "k"), axis_symbol(m, "j"), axis_symbol(count, "e")
        x, out, across = buffer("x", float32), buffer("out", float32), buffer("across", float32)
        along = reduce("sum", (k,), load(x, i * count + k), LANES)
        kern = kernel(
            loop(i, Store(out, i, along)),
            vector(j, Store(across, j, contract((e,), load(x, j * count + e), cast(index(e), float32), LANES))),
        )
        arrays = {x: data(rng, float32, 9 * count), out: np.zeros(9, np.float32), across: np.zeros(9, np.float32)}
        check(kern, arrays, {m: 9})


def test_the_result_does_not_depend_on_shares(rng, sizes):
    m, n, _ = sizes
    kern, x, out = softmax_kernel(sizes)
    arrays = {x: data(rng, float32, 7 * 33), out: np.zeros(7 * 33, np.float32)}
    want = expected(kern, arrays, {m: 7, n: 33})
    for shares in (1, 2, 7):
        for width in targets():
            assert same_bits(run(kern, arrays, {m: 7, n: 33}, width, shares)[out], want[out])


def test_chains_of_floats_lie_in_lanes_however_far_apart_they_read(rng, sizes):
    m, n, _ = sizes
    for dtype, kind in ((float32, "sum"), (float64, "max"), (int32, "sum")):
        i, k, x, out = axis_symbol(m, "i"), axis_symbol(n, "k"), buffer("x", dtype), buffer("out", dtype)
        kern = kernel(parallel(i, Store(out, i, reduce(kind, (k,), load(x, i * n + k), BLOCKED))))
        assert (
            re.search(r"insertelement .* i32 7\b", emit_kernel(kern, CodeTarget(), "k")) is not None
        ) is dtype.is_floating_point
        for rows, columns in ((1, 1), (3, 0), (17, 5), (40, 300)):
            arrays = {x: data(rng, dtype, rows * columns), out: np.ones(rows, dtype.numpy)}
            check(kern, arrays, {m: rows, n: columns}, shares=2)
