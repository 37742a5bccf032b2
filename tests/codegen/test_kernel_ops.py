"""Every scalar op on edge values: the bits of numpy, scalar and by vectors of both widths, without library calls."""

import itertools

import numpy as np
import pytest
from tests.codegen.kernel_oracle import (
    buffer,
    check,
    describe,
    expected,
    kernel,
    loop,
    parallel,
    run,
    same_bits,
    targets,
    vector,
)

from rushlight.ir.dtype import (
    BY_NAME,
    DTYPES,
    Kind,
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import apply, bitcast, cast, constant, fma, guard, index, load, select
from rushlight.sym import axis_symbol, size_of_code

INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
FLOATS = (float32, float64)
REAL = tuple(dtype for dtype in DTYPES if dtype.kind is not Kind.COMPLEX)

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 1e-3, 1e30, -1e30, 3.5e38, 1e-39, -1e-45, 6e-8)
SPECIAL += (
    float("inf"),
    float("-inf"),
    float("nan"),
    255.0,
    256.5,
    65504.0,
    65520.0,
    2147483648.0,
    9.3e18,
    1.9e19,
    1e300,
)


def edges(dtype, rng, count=0):
    """Edge values of a dtype and some random ones."""
    if dtype is bool_:
        values = np.array([False, True])
    elif dtype.kind is Kind.INT:
        limits = np.iinfo(dtype.numpy)
        near = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 5, 7, 8, 31, 63, limits.max // 2]
        near += [-1, -2, -3, -8] if dtype.signed else [limits.max // 2 + 1]
        values = np.array(near, dtype.numpy)
    else:
        with np.errstate(all="ignore"):
            values = np.array(SPECIAL).astype(dtype.numpy)
    extra = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype.numpy if dtype is not bool_ else np.uint8)
    return np.concatenate([values, extra.astype(dtype.numpy) if dtype is not bool_ else (extra & 1).astype(bool)])


def pairs(dtype, rng):
    """All pairs of edge values."""
    values = edges(dtype, rng, 6)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def check_all(operations, dtypes, inputs, wanted=None):
    """Checks ops by name, each with its result's dtype, on the same inputs: in one kernel, by vectors and by scalars.

    `wanted` has results that are given rather than evaluated.
    """
    n = size_of_code("n")
    count = len(inputs[0])
    sources = [buffer(f"x{place}", dtype) for place, dtype in enumerate(dtypes)]
    arrays = dict(zip(sources, inputs, strict=True))
    loops, results = [], []
    for make in (vector, loop):
        i = axis_symbol(n, "i")
        stores = []
        for name, (op, dtype) in operations.items():
            out = buffer(name, dtype)
            arrays[out] = np.zeros(count, dtype.numpy)
            results.append((name, out))
            stores.append(Store(out, i, op(*[load(source, i) for source in sources])))
        loops.append(make(i, *stores))
    k = kernel(*loops)
    want = expected(k, arrays, {n: count}) if wanted is None else None
    for width in targets():
        got = run(k, arrays, {n: count}, width)
        for name, out in results:
            right = want[out] if wanted is None else wanted[name]
            assert same_bits(got[out], right), describe(f"{name} of {dtypes[0].name}", got[out], right, width)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def binary(name, dtype):
    return lambda a, b: apply(name, a, b), dtype


def unary(name, dtype):
    return lambda a: apply(name, a), dtype


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.name)
def test_integer_ops_have_the_bits_of_numpy(dtype, rng):
    names = ("add", "sub", "mul", "and", "or", "xor", "minimum", "maximum", "floordiv", "remainder")
    operations = {name: binary(name, dtype) for name in names}
    operations |= {name: binary(name, bool_) for name in ("lt", "le", "eq", "ne")}
    check_all(operations, (dtype, dtype), pairs(dtype, rng))
    check_all({name: unary(name, dtype) for name in ("neg", "abs", "not")}, (dtype,), (edges(dtype, rng, 20),))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.name)
def test_shifts_are_defined_for_every_count(dtype, rng):
    a, b = pairs(dtype, rng)
    inside = [(int(x), int(y) if 0 <= y < dtype.bits else dtype.bits) for x, y in zip(a, b, strict=True)]
    wrap = (1 << dtype.bits) - 1
    word = np.dtype(f"u{dtype.itemsize}")
    left = np.array([(x << y) & wrap for x, y in inside], word).view(dtype.numpy)
    right = np.array([(x >> y) & wrap for x, y in inside], word).view(dtype.numpy)
    operations = {"shl": binary("shl", dtype), "shr": binary("shr", dtype)}
    check_all(operations, (dtype, dtype), (a, b), {"shl": left, "shr": right})


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_float_ops_have_the_bits_of_numpy(dtype, rng):
    operations = {name: binary(name, dtype) for name in ("add", "sub", "mul", "div", "floordiv", "remainder")}
    operations |= {name: binary(name, bool_) for name in ("lt", "le", "eq", "ne")}
    check_all(operations, (dtype, dtype), pairs(dtype, rng))
    names = ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round_even")
    check_all({name: unary(name, dtype) for name in names}, (dtype,), (edges(dtype, rng, 20),))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_fma_rounds_once(dtype, rng):
    inputs = tuple([rng.standard_normal(200).astype(dtype.numpy) for _ in range(2)])
    check_all({"fma": (lambda a, b: fma(a, b, -(a * b)), dtype)}, (dtype, dtype), inputs)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_float_extremes_propagate_nan_and_order_zeros(dtype, rng):
    a, b = pairs(dtype, rng)
    with np.errstate(all="ignore"):
        lower, upper = np.where((a < b) | ((a == b) & np.signbit(a)), (a, b), (b, a))
    nan = np.isnan(a) | np.isnan(b)
    wanted = {"minimum": np.where(nan, np.nan, lower).astype(dtype.numpy)}
    wanted["maximum"] = np.where(nan, np.nan, upper).astype(dtype.numpy)
    check_all({name: binary(name, dtype) for name in wanted}, (dtype, dtype), (a, b), wanted)


def test_bool_ops_are_logical(rng):
    names = ("and", "or", "xor", "minimum", "maximum", "add", "mul")
    operations = {name: binary(name, bool_) for name in names}
    check_all(operations, (bool_, bool_), pairs(bool_, rng))
    check_all({"not": unary("not", bool_)}, (bool_,), (edges(bool_, rng, 20),))


@pytest.mark.parametrize("dtype", [uint8, uint16, uint32, uint64], ids=lambda dtype: dtype.name)
def test_mulhi_is_the_high_half(dtype, rng):
    a, b = pairs(dtype, rng)
    want = np.array([(int(x) * int(y)) >> dtype.bits for x, y in zip(a, b, strict=True)], dtype.numpy)
    check_all({"mulhi": binary("mulhi", dtype)}, (dtype, dtype), (a, b), {"mulhi": want})


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda dtype: dtype.name)
def test_scale_is_one_rounding_of_a_power_of_two(dtype, rng):
    most = 160 if dtype is float32 else 1100
    n = np.concatenate([np.arange(-most, most), rng.integers(-most, most, 1000)]).astype(dtype.numpy)
    x = (rng.uniform(0.25, 4.0, n.size) * rng.choice([-1.0, 1.0], n.size)).astype(dtype.numpy)
    x[:4] = np.nan, np.inf, 0.0, -0.0
    with np.errstate(all="ignore"):
        want = np.ldexp(x, n.astype(np.int32))
    check_all({"scale": binary("scale", dtype)}, (dtype, dtype), (x, n), {"scale": want})


@pytest.mark.parametrize("source", REAL, ids=lambda dtype: dtype.name)
def test_casts_have_the_bits_of_the_reference(source, rng):
    operations = {result.name: (lambda a, result=result: cast(a, result), result) for result in REAL}
    check_all(operations, (source,), (edges(source, rng, 40),))


def test_float64_to_float16_rounds_once():
    values = np.concatenate(
        [np.float16(1.0) * (1 + 2.0**-11 + np.array([2.0**-40, 0, -(2.0**-40)])), [2.0**-25 * (1 + 2.0**-40)]]
    )
    check_all({"cast": (lambda a: cast(a, float16), float16)}, (float64,), (np.concatenate([values, -values]),))


def test_every_half_widens_and_narrows_exactly():
    every = np.arange(65536, dtype=np.uint16)
    for dtype in (float16, bfloat16):
        operations = {"widen": (lambda a: cast(a, float32), float32)}
        operations["there and back"] = (lambda a, dtype=dtype: cast(cast(a, float32), dtype), dtype)
        check_all(operations, (dtype,), (every.view(dtype.numpy),))


def test_bfloat16_subnormals_and_ties_round_to_even(rng):
    bits = rng.integers(0, 2**32, 4000, np.uint64).astype(np.uint32)
    ties = (bits & 0xFFFF0000) | 0x8000
    small = bits & 0x007FFFFF
    values = np.concatenate([bits, ties, small]).view(np.float32)
    check_all({"cast": (lambda a: cast(a, bfloat16), bfloat16)}, (float32,), (values,))


@pytest.mark.parametrize(
    ("a", "b"), [("float32", "int32"), ("int64", "float64"), ("uint16", "bfloat16"), ("float16", "int16")]
)
def test_bitcast_keeps_bits(a, b, rng):
    check_all({"bitcast": (lambda x: bitcast(x, BY_NAME[b]), BY_NAME[b])}, (BY_NAME[a],), (edges(BY_NAME[a], rng, 20),))


@pytest.mark.parametrize("dtype", REAL, ids=lambda dtype: dtype.name)
def test_select_and_constants(dtype, rng):
    values = edges(dtype, rng, 9)
    n = size_of_code("n")
    i, c, x, out = axis_symbol(n, "i"), buffer("c", bool_), buffer("x", dtype), buffer("out", dtype)
    k = kernel(parallel(i, Store(out, i, select(load(c, i), load(x, i), constant(3, dtype)))))
    check(k, {c: rng.random(len(values)) < 0.5, x: values, out: np.zeros(len(values), dtype.numpy)}, {n: len(values)})


def extremum(order, constant_first, constant_on_less, a, c):
    """A select between `a` and the constant `c` by a comparison of both: a minimum or maximum, NaN and zeros aside."""
    less = apply(order, c, a) if constant_first else apply(order, a, c)
    return select(less, c, a) if constant_on_less else select(less, a, c)


@pytest.mark.parametrize("number", [0.0, 1.0])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_a_select_of_a_select_with_the_same_constant(dtype, number, rng):
    c = constant(number, dtype)
    forms = list(itertools.product(("lt", "le"), (False, True), (False, True)))
    operations = {
        f"{outer} of {inner}": (
            lambda a, outer=outer, inner=inner: extremum(*outer, extremum(*inner, a, c), c),
            dtype,
        )
        for outer, inner in itertools.product(forms, forms)
    }
    check_all(operations, (dtype,), (edges(dtype, rng, 9),))


def test_guarded_loads_do_not_happen(rng):
    n, m = size_of_code("n"), size_of_code("m")
    for make in (parallel, loop):
        i, x, out = axis_symbol(n, "i"), buffer("x", float32), buffer("out", float32)
        inside = apply("lt", index(i), index(m))
        k = kernel(make(i, Store(out, i, guard(inside, load(x, i * 1000000000), constant(7.0, float32)))))
        check(k, {x: rng.random(1, np.float32), out: np.zeros(40, np.float32)}, {n: 40, m: 1})


def test_complex_elements_are_refused():
    n = size_of_code("n")
    i, x, out = axis_symbol(n, "i"), buffer("x", complex64), buffer("out", complex64)
    k = kernel(parallel(i, Store(out, i, load(x, i))))
    with pytest.raises(NotImplementedError, match="complex64"):
        run(k, {}, {n: 0}, next(iter(targets())))
