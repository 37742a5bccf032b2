"""Loads of neighbours whose lanes lie apart: squares in registers, with the same values as single elements."""

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
    same_bits,
    targets,
    vector,
)

from rushlight.codegen.llvm import CodeTarget, emit_kernel
from rushlight.ir.dtype import BY_NAME
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import Scalar, apply, constant, guard, index, load
from rushlight.sym import Size, axis_symbol, size_of_code

SIDE = 8
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int16", "int8", "bool")
COUNTS = ((1, 1, 1), (1, 8, 1), (2, 7, 1), (1, 9, 3), (3, 16, 2), (1, 33, 2), (2, 65, 1), (1, 0, 2), (1, 5, 0))


class Transposed:
    """A kernel that transposes matrices, `written` neighbours in each turn; rows are `gap` more elements apart."""

    def __init__(
        self, name: str = "float32", written: int = SIDE, step: int = 1, guarded: bool = False, gap: int = 0
    ) -> None:
        self.dtype = BY_NAME[name]
        self.written, self.gap = written, gap
        self.count, self.rows, self.groups = size_of_code("count"), size_of_code("rows"), size_of_code("groups")
        b, j, i = axis_symbol(self.count, "b"), axis_symbol(self.rows, "j"), axis_symbol(self.groups, "i")
        self.x, self.out = buffer("x", self.dtype), buffer("out", self.dtype)
        columns = self.groups * written
        whole = columns * self.rows
        stores = []
        for place in range(written):
            column = i * written + place
            row: Size = j if step > 0 else self.rows - 1 - j
            value: Scalar = load(self.x, (b * self.rows + row) * (columns + gap) + column)
            if guarded:
                value = guard(apply("lt", index(row), index(3)), value, constant(0, self.dtype))
            stores.append(Store(self.out, b * whole + column * self.rows + j, value))
        self.kernel = kernel(parallel(b, vector(j, loop(i, *stores))))

    def text(self, width: int) -> str:
        """Its LLVM IR for vectors of a number of bytes."""
        return emit_kernel(self.kernel, CodeTarget("x86_64", width), "k")

    def check(self, rng: np.random.Generator, count: int, rows: int, groups: int) -> None:
        """Runs it with these sizes and compares with the oracle."""
        lines, columns = count * rows, groups * self.written
        most = 2 if self.dtype.name == "bool" else 99
        values = rng.integers(0, most, lines * (columns + self.gap)).astype(self.dtype.numpy)
        arrays = {self.x: values, self.out: np.zeros(lines * columns, self.dtype.numpy)}
        check(self.kernel, arrays, {self.count: count, self.rows: rows, self.groups: groups})


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.parametrize("name", DTYPES)
def test_values_are_those_of_single_elements(name: str, rng: np.random.Generator):
    forms = ({}, {"step": -1}, {"guarded": True}, {"gap": 5})
    for made in [Transposed(name, **form) for form in forms]:
        for counts in COUNTS:
            made.check(rng, *counts)


@pytest.mark.parametrize("written", [2, 7, 9, 16])
def test_other_numbers_of_neighbours(written: int, rng: np.random.Generator):
    for counts in COUNTS:
        Transposed(written=written).check(rng, *counts)


@pytest.mark.parametrize("width", [32, 64])
def test_transposed_squares_are_loaded_as_runs(width: int):
    assert squares(Transposed().text(width)) == (True, False)
    assert squares(Transposed(written=7).text(width)) == (False, True)
    assert squares(Transposed(guarded=True).text(width)) == (False, False)


def squares(text: str) -> tuple[bool, bool]:
    """Whether a program loads runs of `SIDE` and shuffles them, and whether it inserts single elements."""
    runs = re.search(rf"load <{SIDE} x float>, ptr %\S+, align 4", text) and "shufflevector" in text
    return bool(runs), re.search(r"insertelement <\d+ x float> .* i32 7\b", text) is not None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guards memory with Linux's mprotect")
@pytest.mark.parametrize("rows", [1, 5, 8, 13, 40])
def test_nothing_is_read_past_the_last(rows: int, rng: np.random.Generator):
    made = Transposed()
    columns = 2 * SIDE
    values = before_a_hole(rng.standard_normal((rows, columns)).astype(np.float32))
    found = np.zeros(rows * columns, np.float32)
    addresses = {made.x: values.ctypes.data, made.out: found.ctypes.data}
    sizes = {made.count: 1, made.rows: rows, made.groups: 2}
    args = [*[addresses[item] for item in made.kernel.buffers], *[sizes[size] for size in made.kernel.sizes]]
    for width in targets():
        function, _keep = compile_kernel(made.kernel, width)
        function(np.array(args, np.int64).ctypes.data, 0, 1)
        assert same_bits(found, np.ascontiguousarray(values.reshape(rows, columns).T).ravel())
        found[:] = 0
