"""Stores of some lanes: by a condition, and in the tails of short rows, with mask registers and without."""

import numpy as np
import pytest
from tests.codegen.kernel_oracle import buffer, check, kernel, loop, parallel, vector

from rushlight.codegen.llvm import CodeTarget, emit_kernel
from rushlight.ir.dtype import bfloat16, bool_, float16, float32, int8
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import load
from rushlight.sym import axis_symbol, size_of_code


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def sizes():
    return size_of_code("m"), size_of_code("n")


def floats(rng, count):
    return rng.standard_normal(count).astype(np.float32)


def test_masked_stores_leave_the_rest_alone(rng, sizes):
    n = sizes[1]
    for dtype in (float32, int8):
        for make in (vector, loop):
            i, flags, x, out = axis_symbol(n, "i"), buffer("flags", bool_), buffer("x", dtype), buffer("out", dtype)
            k = kernel(make(i, Store(out, i, load(x, i), where=load(flags, i))))
            for count in (1, 20, 100):
                values = rng.integers(-9, 9, count).astype(dtype.numpy)
                check(k, {flags: rng.random(count) < 0.5, x: values, out: np.full(count, 3, dtype.numpy)}, {n: count})


def test_a_condition_of_whole_rows_is_a_branch_where_masks_are_slow(rng, sizes):
    m, n = sizes
    i, j = axis_symbol(m, "i"), axis_symbol(n, "j")
    flags, x, out = buffer("flags", bool_), buffer("x", float32), buffer("out", float32)
    for combine in (None, "sum", "max"):
        row = Store(out, i * n + j, load(x, i * n + j) * 2.0, combine, where=load(flags, i))
        k = kernel(loop(i, vector(j, row)))
        for rows, columns in ((1, 1), (7, 64), (9, 83)):
            arrays = {flags: rng.random(rows) < 0.5, x: floats(rng, rows * columns), out: floats(rng, rows * columns)}
            check(k, arrays, {m: rows, n: columns})
        for width, masked in ((64, 2), (32, 1)):  # with 32 bytes only what is left of a row is masked
            assert emit_kernel(k, CodeTarget("x86_64", width), "kernel").count("@llvm.masked.store") == masked


def test_tails_of_short_rows_go_by_halves_where_masks_are_slow(rng, sizes):
    m, n = sizes
    i, j = axis_symbol(m, "i"), axis_symbol(n, "j")
    for dtype in (int8, float16, bfloat16, bool_, float32):
        x, out = buffer("x", dtype), buffer("out", dtype)
        k = kernel(parallel(i, vector(j, Store(out, i * n + j, load(x, i * n + j)))))
        for columns in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63):
            values = rng.integers(0, 2, 5 * columns).astype(dtype.numpy)
            check(k, {x: values, out: np.zeros(5 * columns, dtype.numpy)}, {m: 5, n: columns})
        text = emit_kernel(k, CodeTarget("x86_64", 32), "kernel")
        assert "bitcast" not in text  # of a mask, whose lanes are walked one by one
        assert ("@llvm.masked" in text) == (dtype.itemsize >= 4)
