"""Loops, addresses and stores: every way to walk memory gives what the kernel means, for any share and width."""

import itertools
import re
import sys

import numpy as np
import pytest
from tests.codegen.guarded_memory import before_a_hole
from tests.codegen.kernel_oracle import (
    buffer,
    check,
    compile_kernel,
    kernel,
    loop,
    parallel,
    run,
    same_bits,
    targets,
    vector,
)

from rushlight.codegen.llvm import CodeTarget, emit_kernel
from rushlight.ir.dtype import (
    BY_NAME,
    Kind,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from rushlight.ir.kernel import Barrier, Kernel, Store
from rushlight.ir.scalar import LANES, Buffer, apply, cast, constant, guard, index, load, reduce, select
from rushlight.ir.type import TensorType
from rushlight.runtime import llvm
from rushlight.sym import axis_symbol, floordiv, maximum, minimum, mod, size_of_code

SIZES = (0, 1, 2, 15, 16, 17, 63, 64, 65, 100, 200)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def sizes():
    return size_of_code("m"), size_of_code("n"), size_of_code("p")


def floats(rng, count):
    return rng.standard_normal(count).astype(np.float32)


@pytest.mark.parametrize(
    "name", ["bool", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_copies_of_every_size_and_width(name, rng, sizes):
    dtype, n = BY_NAME[name], sizes[1]
    i, x, out = axis_symbol(n, "i"), buffer("x", dtype), buffer("out", dtype)
    k = kernel(parallel(i, Store(out, i, load(x, i))))
    for count in SIZES:
        raw = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
        values = (raw & 1).astype(bool) if dtype.kind is Kind.BOOL else raw.view(dtype.numpy)
        check(k, {x: values, out: np.zeros(count, dtype.numpy)}, {n: count}, shares=3)


def test_mixed_widths_share_one_loop(rng, sizes):
    n = sizes[1]
    i = axis_symbol(n, "i")
    a, b, c, h = buffer("a", float32), buffer("b", int8), buffer("c", bool_), buffer("h", bfloat16)
    wide, flags, halves = buffer("wide", float64), buffer("flags", bool_), buffer("halves", float16)
    total = load(a, i) + cast(load(b, i), float32) + cast(load(h, i), float32)
    k = kernel(
        parallel(
            i,
            Store(wide, i, cast(total, float64)),
            Store(flags, i, apply("lt", total, constant(0, float32)) & load(c, i)),
            Store(halves, i, cast(total, float16)),
        )
    )
    for count in SIZES:
        arrays = {a: floats(rng, count), b: rng.integers(-128, 128, count).astype(np.int8), c: rng.random(count) < 0.5}
        arrays |= {h: floats(rng, count).astype(bfloat16.numpy), wide: np.zeros(count), flags: np.zeros(count, bool)}
        check(k, {**arrays, halves: np.zeros(count, np.float16)}, {n: count})


@pytest.mark.parametrize("inner", ["vector", "serial"])
def test_parallel_axes_are_flattened_row_major(inner, rng, sizes):
    m, n, p = sizes
    i, j, k, v = (axis_symbol(size, name) for size, name in ((m, "i"), (n, "j"), (p, "k"), (5, "v")))
    x, y, out = buffer("x", float32), buffer("y", float32), buffer("out", float32)
    at = ((i * n + j) * p + k) * 5 + v
    make = vector if inner == "vector" else loop
    kern = kernel(parallel(i, parallel(j, parallel(k, make(v, Store(out, at, load(x, at) * load(y, j * p + k)))))))
    for a, b, c in ((1, 1, 1), (2, 3, 4), (3, 0, 2), (2, 7, 9)):
        arrays = {x: floats(rng, 5 * a * b * c), y: floats(rng, b * c), out: np.zeros(5 * a * b * c, np.float32)}
        for shares in (1, 4):
            check(kern, arrays, {m: a, n: b, p: c}, shares)


def test_innermost_parallel_axis_runs_in_lanes_and_is_cut_anywhere(rng, sizes):
    m, n, _ = sizes
    i, j, x, y, out = axis_symbol(m, "i"), axis_symbol(n, "j"), *(buffer(name, float32) for name in ("x", "y", "out"))
    k = kernel(parallel(i, parallel(j, Store(out, i * n + j, load(x, i * n + j) + load(y, i)))))
    assert "fadd <" in emit_kernel(k, CodeTarget(), "k")
    for a, b in ((3, 100), (7, 5), (1, 300)):
        arrays = {x: floats(rng, a * b), y: floats(rng, a), out: np.zeros(a * b, np.float32)}
        for shares in (1, 2, 5, 13):
            check(k, arrays, {m: a, n: b}, shares)


def test_the_long_value_of_a_guard_is_skipped_where_no_lane_chooses_it(rng, sizes):
    m, _, _ = sizes
    i, x, out = axis_symbol(m, "i"), buffer("x", float32), buffer("out", float32)

    def guarded(count):
        element = long = load(x, i)
        for _ in range(count):
            long = long * element + 1.0
        return kernel(parallel(i, Store(out, i, guard(element > 0.5, long, element) + element)))

    branches = [emit_kernel(guarded(count), CodeTarget(), "k").count("br i1") for count in (2, 30)]
    assert branches[1] - branches[0] == 2  # one for the loop of full vectors, one for its tail
    for count in SIZES:
        for lowest in (-1.0, 0.0, 0.6):
            values = (lowest + np.abs(floats(rng, count)) / 10).astype(np.float32)
            check(guarded(30), {x: values, out: np.zeros(count, np.float32)}, {m: count})


def test_what_is_computed_for_more_lanes_is_not_computed_again_for_fewer(rng, sizes):
    m, _, _ = sizes
    i, x, out = axis_symbol(m, "i"), buffer("x", float32), buffer("out", float32)

    def nested(depth):
        value = load(x, i)
        for place in range(depth):
            value = guard(load(x, i) > place / 10, value * load(x, i), value + 1.0)
        return kernel(parallel(i, Store(out, i, value)))

    few, many = (len(emit_kernel(nested(depth), CodeTarget(), "k")) for depth in (5, 15))
    assert many < 4 * few
    for count in SIZES:
        check(nested(9), {x: floats(rng, count), out: np.zeros(count, np.float32)}, {m: count})


def test_places_out_of_range_are_not_read(rng, sizes):
    m, n, _ = sizes
    i, j = axis_symbol(m, "i"), axis_symbol(n, "j")
    x, places, out = buffer("x", float32), buffer("places", int64), buffer("out", float32)
    place = load(places, i)
    inside = apply("le", constant(0, int64), place) & apply("lt", place, index(n))
    zero = constant(0.0, float32)
    lanes = kernel(parallel(i, Store(out, i, guard(inside, load(x, place), zero))))
    rows = kernel(
        parallel(i, vector(j, Store(out, i * n + j, guard(inside, load(x, place * index(n) + index(j)), zero))))
    )
    for count in SIZES:
        found = rng.integers(-3, 12, count)
        arrays = {x: floats(rng, 9), places: found, out: np.zeros(count, np.float32)}
        check(lanes, arrays, {m: count, n: 9})
        arrays = {x: floats(rng, 81), places: found, out: np.zeros(count * 9, np.float32)}
        check(rows, arrays, {m: count, n: 9})
    gathers = re.findall(r"call .*masked.gather.*", emit_kernel(lanes, CodeTarget("x86_64", 32), "k"))
    assert gathers
    assert all("splat (i1 true)" in line for line in gathers)  # without a branch for each lane


def test_strides_broadcasts_and_transposes(rng, sizes):
    m, n, p = sizes
    i, j, x, row, out = (
        axis_symbol(m, "i"),
        axis_symbol(n, "j"),
        *(buffer(name, float32) for name in ("x", "row", "out")),
    )
    value = load(x, j * m + i) + load(row, j * 3) + load(row, 0) + load(x, j * p)
    k = kernel(parallel(i, vector(j, Store(out, i * n + j, value))))
    for a, b in ((1, 1), (3, 40), (20, 17)):
        for step in (0, 1, 2):
            arrays = {x: floats(rng, a * b + step * b), row: floats(rng, 3 * b), out: np.zeros(a * b, np.float32)}
            check(k, arrays, {m: a, n: b, p: step})


@pytest.mark.parametrize("name", ["float32", "float64", "int64", "int8"])
def test_elements_a_few_apart_are_not_gathered(name, rng, sizes):
    dtype, (m, n, _) = BY_NAME[name], sizes
    i, x, out = axis_symbol(n, "i"), buffer("x", dtype), buffer("out", dtype)
    for step in (2, 3, 4, 5):
        whole = kernel(parallel(i, Store(out, i, load(x, step * i))))
        inside = apply("lt", index(i), index(m))
        partly = kernel(parallel(i, Store(out, i, guard(inside, load(x, step * i), constant(0, dtype)))))
        assert "gather" not in emit_kernel(whole, CodeTarget(), "k")
        assert name == "int8" or ("gather" in emit_kernel(partly, CodeTarget(), "k")) is (step > 4)
        for count in SIZES:
            values, zeros = rng.integers(-99, 99, step * count).astype(dtype.numpy), np.zeros(count, dtype.numpy)
            check(whole, {x: values, out: zeros}, {n: count}, shares=2)
            check(partly, {x: values, out: zeros}, {n: count, m: count // 2})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guards memory with Linux's mprotect")
def test_elements_a_few_apart_are_not_read_past_the_last(rng, sizes):
    n = sizes[1]
    i, x, out = axis_symbol(n, "i"), buffer("x", float32), buffer("out", float32)
    for step, count in itertools.product((2, 3, 4), (1, 16, 17, 64)):
        k = kernel(parallel(i, Store(out, i, load(x, step * i))))
        values = before_a_hole(floats(rng, step * (count - 1) + 1))
        found = np.zeros(count, np.float32)
        for width in targets():
            function, _keep = compile_kernel(k, width)
            addresses = {x: values.ctypes.data, out: found.ctypes.data}
            args = np.array([*[addresses[item] for item in k.buffers], count], np.int64)
            function(args.ctypes.data, 0, count)
            assert same_bits(found, values[::step])


def test_strided_and_transposed_stores(rng, sizes):
    m, n, _ = sizes
    for dtype in (float32, int8, bool_):
        i, j, x, out = axis_symbol(m, "i"), axis_symbol(n, "j"), buffer("x", dtype), buffer("out", dtype)
        k = kernel(parallel(i, vector(j, Store(out, j * m + i, load(x, i * n + j)))))
        for a, b in ((1, 1), (3, 40), (5, 17)):
            values = (rng.random(a * b) < 0.5) if dtype is bool_ else rng.integers(-9, 9, a * b).astype(dtype.numpy)
            check(k, {x: values, out: np.zeros(a * b, dtype.numpy)}, {m: a, n: b})


def test_reversed_axes(rng, sizes):
    n = sizes[1]
    i, x, y, out = axis_symbol(n, "i"), buffer("x", float32), buffer("y", int8), buffer("out", float32)
    k = kernel(parallel(i, Store(out, i, load(x, n - 1 - i) + cast(load(y, n - 1 - i), float32))))
    for count in SIZES:
        arrays = {
            x: floats(rng, count),
            y: rng.integers(-9, 9, count).astype(np.int8),
            out: np.zeros(count, np.float32),
        }
        check(k, arrays, {n: count}, shares=2)


def test_indices_with_quotients_and_extremes(rng, sizes):
    m, n, p = sizes
    i, x, places, out = axis_symbol(n, "i"), buffer("x", float32), buffer("places", int64), buffer("out", float32)
    q = floordiv(i, m)
    at = q + mod(i, m) * 3 + minimum(i, p) * 2 + maximum(i - p, 0)
    for make in (vector, loop):
        k = kernel(make(i, Store(out, i, load(x, at)), Store(places, i, index(at + q * mod(i * 2 + 1, m)))))
        for count, size, edge in ((0, 1, 1), (40, 7, 5), (100, 1, 200), (33, 50, 0)):
            arrays = {x: floats(rng, 1000), places: np.zeros(count, np.int64), out: np.zeros(count, np.float32)}
            check(k, arrays, {n: count, m: size, p: edge})


def test_vectors_end_where_rows_end(rng, sizes):
    m, n, p = sizes
    i, x, out, wide = axis_symbol(n, "i"), buffer("x", float32), buffer("out", float32), buffer("wide", float32)
    row, column = floordiv(i, m), mod(i, m)
    plane = floordiv(row, p)
    value = load(x, row * (m + 3) + column) + load(x, plane * 5 + mod(row, p)) + load(x, floordiv(3 * i + 1, m))
    k = kernel(vector(i, Store(out, i, value), Store(wide, row * (m + 2) + column, value * 2.0)))
    text = emit_kernel(k, CodeTarget(), "k")
    assert "gather" not in text
    assert "scatter" not in text
    for columns, rows, count in ((1, 1, 20), (2, 3, 41), (7, 2, 100), (16, 4, 64), (50, 3, 170), (300, 1, 299)):
        arrays = {x: floats(rng, 2000), out: np.zeros(count, np.float32), wide: np.zeros(4 * count + 2, np.float32)}
        check(k, arrays, {m: columns, n: count, p: rows})


def test_a_quotient_may_jump_where_a_row_ends(rng, sizes):
    m, n, p = sizes
    i, x, out = axis_symbol(n, "i"), buffer("x", float32), buffer("out", float32)
    row = floordiv(i, m)
    k = kernel(vector(i, Store(out, i, load(x, 500 + row + floordiv(i - row * p, 2)))))
    for columns, step, count in ((7, 7, 49), (7, 3, 49), (5, 8, 64), (16, 1, 40), (1, 2, 20)):
        arrays = {x: floats(rng, 2000), out: np.zeros(count, np.float32)}
        check(k, arrays, {m: columns, n: count, p: step})


def test_rows_of_a_few_elements_are_gathered(rng, sizes):
    n = sizes[1]
    i, x, out = axis_symbol(n, "i"), buffer("x", float32), buffer("out", float32)
    for size in (2, 3, 4, 5):
        k = kernel(vector(i, Store(out, i, load(x, 7 * floordiv(i, size) + mod(i, size)))))
        text = emit_kernel(k, CodeTarget(), "k")
        assert ("gather" in text) is (size in (2, 4))
        assert "fdiv" not in text
        for count in SIZES:
            check(k, {x: floats(rng, 1000), out: np.zeros(count, np.float32)}, {n: count})


def test_rows_that_are_jumped_through_are_gathered(rng, sizes):
    m, n, _ = sizes
    i, x, out = axis_symbol(n, "i"), buffer("x", float32), buffer("out", float32)
    for step, divisor, gathers in ((10, 7, True), (3, 2, True), (2, 100, False), (8, m, True), (3, m, False)):
        k = kernel(vector(i, Store(out, i, load(x, floordiv(step * i, divisor)))))
        assert ("gather" in emit_kernel(k, CodeTarget(), "k")) is gathers
        for count, size in ((0, 1), (1, 9), (40, 16), (100, 7)):
            check(k, {x: floats(rng, 1000), out: np.zeros(count, np.float32)}, {n: count, m: size})


def test_vectors_are_no_longer_than_a_loop_can_be(rng, sizes):
    n = sizes[1]
    i, x, out = axis_symbol(minimum(n, 32), "i"), buffer("x", float32), buffer("out", float32)
    k = kernel(vector(i, Store(out, i, load(x, i))))
    text = emit_kernel(k, CodeTarget(), "k")
    assert "load <32 x float>" in text
    assert "<64 x float>" not in text
    for count in (0, 1, 31, 32, 100):
        check(k, {x: floats(rng, 32), out: np.zeros(32, np.float32)}, {n: count})


def test_what_an_index_is_multiplied_with_is_added_up_first(rng, sizes):
    m, n, p = sizes
    i, j, x, out = axis_symbol(m, "i"), axis_symbol(n, "j"), buffer("x", float32), buffer("out", float32)
    k = kernel(parallel(i, vector(j, Store(out, i * n + j, load(x, i * (m * p + 3 * m - p + 2) + j)))))
    assert emit_kernel(k, CodeTarget(), "k").count("mul i64") <= 6
    for a, b, c in ((1, 1, 1), (3, 20, 4), (5, 64, 0)):
        row = a * c + 3 * a - c + 2
        check(k, {x: floats(rng, a * row + b), out: np.zeros(a * b, np.float32)}, {m: a, n: b, p: c})


def test_lanes_divide_exactly(sizes):
    m, n, p = sizes
    i, out = axis_symbol(n, "i"), buffer("out", int64)
    k = kernel(vector(i, Store(out, i, index(floordiv(i * p, m)))))
    for size, factor in ((3, 2**44), (2**40 + 1, 2**45), (7, 1), (2**20, 2**30 - 1)):
        check(k, {out: np.zeros(90, np.int64)}, {n: 90, m: size, p: factor})


def test_gather_by_rows_stays_contiguous(rng, sizes):
    m, n, p = sizes
    for dtype in (int64, int32):
        i, j, rows = axis_symbol(m, "i"), axis_symbol(n, "j"), buffer("rows", dtype)
        table, out = buffer("table", float32), buffer("out", float32)
        at = cast(load(rows, i), int64) * index(n) + index(j)
        k = kernel(parallel(i, vector(j, Store(out, i * n + j, load(table, at)))))
        assert "masked.gather" not in emit_kernel(k, CodeTarget(), "k")
        for a, b in ((1, 1), (5, 40), (3, 0)):
            arrays = {
                rows: rng.integers(0, 4, a).astype(dtype.numpy),
                table: floats(rng, 4 * b),
                out: np.zeros(a * b, np.float32),
            }
            check(k, arrays, {m: a, n: b, p: 0})


@pytest.mark.parametrize("dtype", [float32, float64, int8, bool_, int16], ids=lambda dtype: dtype.name)
def test_gather_and_scatter_by_element(dtype, rng, sizes):
    n = sizes[1]
    i, places, x = axis_symbol(n, "i"), buffer("places", int64), buffer("x", dtype)
    out, back = buffer("out", dtype), buffer("back", dtype)
    k = kernel(parallel(i, Store(out, i, load(x, load(places, i))), Store(back, load(places, i), load(x, i))))
    for count in (0, 1, 17, 64, 100):
        values = (rng.random(count) < 0.5) if dtype is bool_ else rng.integers(-50, 50, count).astype(dtype.numpy)
        arrays = {
            places: rng.permutation(count),
            x: values,
            out: np.zeros(count, dtype.numpy),
            back: np.zeros(count, dtype.numpy),
        }
        check(k, arrays, {n: count})


@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min", "set"])
def test_colliding_stores_combine_in_ascending_order(combine, rng, sizes):
    n = sizes[1]
    for make in (vector, loop):
        i, places, x, out = axis_symbol(n, "i"), buffer("places", int64), buffer("x", float32), buffer("out", float32)
        k = kernel(make(i, Store(out, load(places, i), load(x, i), combine)))
        for count in (1, 20, 100):
            arrays = {places: rng.integers(0, 7, count), x: floats(rng, count), out: floats(rng, 7)}
            check(k, arrays, {n: count})


def test_combining_rows(rng, sizes):
    m, n, _ = sizes
    i, j, places = axis_symbol(m, "i"), axis_symbol(n, "j"), buffer("places", int64)
    x, out = buffer("x", float32), buffer("out", float32)
    at = load(places, i) * index(n) + index(j)
    k = kernel(loop(i, vector(j, Store(out, at, load(x, i * n + j), "sum"))))
    for a, b in ((9, 1), (9, 40)):
        check(k, {places: rng.integers(0, 3, a), x: floats(rng, a * b), out: floats(rng, 3 * b)}, {m: a, n: b})


def test_guards_join_and_nest(rng, sizes):
    m, n, p = sizes
    i, j = axis_symbol(m, "i"), axis_symbol(n, "j")
    a, b, c, out = (buffer(name, float32) for name in ("a", "b", "c", "out"))
    first, last = apply("lt", index(j), index(p)), apply("lt", index(j), index(p + p))
    inner = guard(last, load(b, i * p + j - p) * 2.0, load(c, i))
    joined = guard(first, load(a, i * p + j), inner)
    doubled = guard(last, guard(first, load(a, i * p + j), constant(1.0, float32)) + load(c, i), constant(5.0, float32))
    for make in (vector, loop):
        k = kernel(parallel(i, make(j, Store(out, i * n + j, joined + doubled))))
        for rows, columns, part in ((1, 1, 0), (3, 40, 10), (2, 100, 60)):
            arrays = {a: floats(rng, rows * part), b: floats(rng, rows * part), c: floats(rng, rows)}
            arrays[out] = np.zeros(rows * columns, np.float32)
            check(k, arrays, {m: rows, n: columns, p: part})


def test_guarded_gathers_of_small_elements(rng, sizes):
    n = sizes[1]
    i, places, x, out = axis_symbol(n, "i"), buffer("places", int64), buffer("x", uint8), buffer("out", uint8)
    place = load(places, i)
    inside = apply("le", constant(0, int64), place) & apply("lt", place, constant(5, int64))
    k = kernel(parallel(i, Store(out, i, guard(inside, load(x, place), constant(77, uint8)))))
    arrays = {
        places: rng.integers(-9, 9, 50) * 10**9 // 10**9,
        x: np.arange(5, dtype=np.uint8),
        out: np.zeros(50, np.uint8),
    }
    arrays[places][::3] = 10**12
    check(k, arrays, {n: 50})


def test_ragged_loops_read_their_bounds(rng, sizes):
    m, n, _ = sizes
    offsets, x, out = buffer("offsets", int64), buffer("x", float32), buffer("out", float32)
    for make in (vector, loop):
        i, j = axis_symbol(m, "i"), axis_symbol(n, "j")
        start, length = load(offsets, i), load(offsets, i + 1) - load(offsets, i)
        body = Store(out, j, load(x, j) + load(x, load(offsets, i)))
        k = kernel(parallel(i, make(j, body, extent=length, start=start)))
        lengths = np.array([0, 5, 0, 33, 1, 64, 0])
        arrays = {
            offsets: np.concatenate([[0], np.cumsum(lengths)]),
            x: floats(rng, 103),
            out: np.zeros(103, np.float32),
        }
        check(k, arrays, {m: 7, n: 103})


def test_loops_may_start_anywhere(rng, sizes):
    m, n, _ = sizes
    i, j, x, out = axis_symbol(m, "i"), axis_symbol(n, "j"), buffer("x", float32), buffer("out", float32)
    k = kernel(
        loop(i, vector(j, Store(out, i * n + j, load(x, i * n + j)), extent=n - 4, start=4), start=1, extent=m - 1)
    )
    check(k, {x: floats(rng, 3 * 50), out: np.zeros(150, np.float32)}, {m: 3, n: 50})


def test_a_scan_reads_what_it_stored(rng, sizes):
    m, n, _ = sizes
    i, j, x, out = axis_symbol(m, "i"), axis_symbol(n, "j"), buffer("x", float32), buffer("out", float32)
    before = load(out, (i - 1) * n + j)
    k = kernel(
        loop(i, vector(j, Store(out, i * n + j, before * 0.5 + load(x, i * n + j))), start=1, extent=m - 1),
    )
    check(k, {x: floats(rng, 4 * 40), out: floats(rng, 160)}, {m: 4, n: 40})


def test_a_store_is_seen_by_later_loads_and_not_by_earlier_ones(rng, sizes):
    m, n, _ = sizes
    i, j, e, k2 = axis_symbol(m, "i"), axis_symbol(n, "j"), axis_symbol(n, "e"), axis_symbol(n, "k")
    x, middle, out, first = (buffer(name, float32) for name in ("x", "middle", "out", "first"))
    total = reduce("sum", (k2,), load(middle, i * n + k2), LANES)
    kern = kernel(
        parallel(
            i,
            Store(first, i, load(middle, i * n)),
            vector(j, Store(middle, i * n + j, load(x, i * n + j) * load(x, i * n + j))),
            Barrier(),
            vector(e, Store(out, i * n + e, load(middle, i * n + e) / total + load(middle, i * n))),
        )
    )
    arrays = {
        x: floats(rng, 3 * 70),
        middle: floats(rng, 210),
        out: np.zeros(210, np.float32),
        first: np.zeros(3, np.float32),
    }
    check(kern, arrays, {m: 3, n: 70})
    # The sum's loop and the loop of the quotients: the sum is not computed again for each quotient.
    assert emit_kernel(kern, CodeTarget(), "k").count("fadd <64 x float>") == 2


def test_stores_that_follow_each_other_read_what_was_there_before(rng, sizes):
    n = sizes[1]
    i, x, y = axis_symbol(n, "i"), buffer("x", float32), buffer("y", float32)
    k = kernel(parallel(i, Store(x, i, load(x, i) + load(y, i)), Store(y, i, load(x, i) * 2.0)))
    for count in (1, 17, 100):
        check(k, {x: floats(rng, count), y: floats(rng, count)}, {n: count}, shares=2)


def test_local_buffers_are_a_share_s_own(rng, sizes):
    m, _, _ = sizes
    i, j, e = axis_symbol(m, "i"), axis_symbol(24, "j"), axis_symbol(24, "e")
    x, out = buffer("x", float32), buffer("out", float32)
    tile = Buffer("tile", TensorType((24,), float32), "local")
    k = kernel(
        parallel(
            i,
            vector(j, Store(tile, j, load(x, i * 24 + j) * 2.0)),
            vector(e, Store(out, i * 24 + e, load(tile, 23 - e))),
        )
    )
    x_values, results = floats(rng, 72), np.zeros(72, np.float32)
    for width in targets():
        got = run(k, {x: x_values, out: results}, {m: 3}, width)
        np.testing.assert_array_equal(got[out].reshape(3, 24), 2 * x_values.reshape(3, 24)[:, ::-1])


def test_an_empty_loop_does_not_touch_memory(sizes):
    m, n, _ = sizes
    i, j, x, out = axis_symbol(m, "i"), axis_symbol(n, "j"), buffer("x", float32), buffer("out", float32)
    kern = kernel(parallel(i, vector(j, Store(out, i * n + j, load(x, n - 1 + i * 0)))))
    assert kern.buffers == (x, out)
    assert kern.sizes == (m, n)
    words = np.array([0, 0, 5, 0], np.int64)  # null buffers
    for width in targets():
        function, _keep = compile_kernel(kern, width)
        function(words.ctypes.data, 0, 5)


def test_deep_terms_need_no_recursion(rng, sizes):
    n = sizes[1]
    i, x, out = axis_symbol(n, "i"), buffer("x", float32), buffer("out", float32)
    value = load(x, i)
    for step in range(3000):
        value = value + float(step % 3)
    k = kernel(parallel(i, Store(out, i, value)))
    assert emit_kernel(k, CodeTarget(), "k").count("fadd") == 6000


def test_select_by_scalar_condition_chooses_vectors(rng, sizes):
    m, n, _ = sizes
    i, j, c = axis_symbol(m, "i"), axis_symbol(n, "j"), buffer("c", bool_)
    x, y, out = (buffer(name, float32) for name in ("x", "y", "out"))
    value = select(load(c, i), load(x, i * n + j), load(y, j))
    k = kernel(parallel(i, vector(j, Store(out, i * n + j, value))))
    arrays = {c: np.array([True, False]), x: floats(rng, 80), y: floats(rng, 40), out: np.zeros(80, np.float32)}
    check(k, arrays, {m: 2, n: 40})


def test_sizes_out_of_nowhere_are_an_error(sizes):
    m, n, _ = sizes
    i, x, out = axis_symbol(n, "i"), buffer("x", float32), buffer("out", float32)
    k = Kernel("test", (x, out), (n,), (parallel(i, Store(out, i, load(x, i * m))),))
    with pytest.raises(KeyError, match="m"):
        emit_kernel(k, CodeTarget(), "k")


@pytest.mark.parametrize("bytes_", [16, 32, 64])
def test_other_targets_compile_without_outside_symbols(bytes_, sizes):
    m, n, _ = sizes
    name = {16: "aarch64", 32: "x86-64-v3", 64: "x86-64-v4"}[bytes_]
    target = llvm.target_named(name)
    i, j, e, x, h = (
        axis_symbol(m, "i"),
        axis_symbol(n, "j"),
        axis_symbol(n, "e"),
        buffer("x", float32),
        buffer("h", float16),
    )
    out, small, ints = buffer("out", float32), buffer("small", bfloat16), buffer("ints", int32)
    value = load(x, i * n + j) - reduce("max", (e,), load(x, i * n + e), LANES)
    deep = apply("remainder", apply("sqrt", value) + cast(load(h, j), float32), constant(3.0, float32))
    k = kernel(
        parallel(
            i,
            vector(
                j,
                Store(out, i * n + j, apply("round_even", deep)),
                Store(small, i * n + j, cast(deep, bfloat16)),
                Store(ints, i * n + j, apply("floordiv", cast(cast(deep, float64), int32), constant(7, int32))),
                Store(h, i * n + j, cast(cast(deep, float64), float16)),
            ),
        )
    )
    text = emit_kernel(k, CodeTarget(target.architecture, target.vector_bytes), "k")
    obj = llvm.compile_object(text, target, verify=True)
    assert not llvm.undefined_symbols(obj) - {"memcpy", "memset", "memmove"}
