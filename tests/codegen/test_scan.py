"""Chains that reach the place of their loop are carried from turn to turn; others are folded again for each."""

import re

import numpy as np
import pytest
from tests.codegen.kernel_oracle import buffer, check, kernel, loop, parallel, vector

from rushlight.codegen.llvm import CodeTarget, emit_kernel
from rushlight.ir.dtype import BY_NAME, float32
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import SEQUENTIAL, Order, Scalar, apply, cast, constant, guard, index, load, reduce
from rushlight.sym import Size, axis_symbol, maximum, size_of_code

SIZES = ((1, 1), (3, 0), (0, 3), (2, 5), (9, 40), (33, 3))


class Rows:
    """Buffers of rows by columns, the axes of a loop over them, and chains up to the inner one's place."""

    def __init__(self, name: str = "float32") -> None:
        self.dtype = BY_NAME[name]
        self.rows, self.columns = size_of_code("rows"), size_of_code("columns")
        self.row, self.column = axis_symbol(self.rows, "row"), axis_symbol(self.columns, "column")
        self.x, self.out = buffer("x", self.dtype), buffer("out", self.dtype)

    def at(self, column: Size) -> Size:
        """The place of an element of a row."""
        return self.row * self.columns + column

    def chain(self, kind: str = "sum", length: Size | None = None, order: Order = SEQUENTIAL) -> Scalar:
        """The first elements of a row folded."""
        k = axis_symbol(self.column + 1 if length is None else length, "k")
        return reduce(kind, (k,), load(self.x, self.at(k)), order)

    def store(self, value: Scalar) -> Store:
        """A store of a value at the inner loop's place."""
        return Store(self.out, self.at(self.column), value)

    def check(self, made: object) -> None:
        """Compares a kernel with the oracle."""
        rng = np.random.default_rng(1)
        for rows, columns in SIZES:
            x = rng.integers(-9, 9, rows * columns).astype(self.dtype.numpy)
            check(made, {self.x: x, self.out: np.zeros_like(x)}, {self.rows: rows, self.columns: columns})


def folds(made: object) -> int:
    """About how many loops a kernel's code has."""
    return len(re.findall(r"^b\d+:", emit_kernel(made, CodeTarget(), "k"), re.MULTILINE)) // 2


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("name", ["float32", "float64", "int64", "int8"])
def test_chains_are_carried(name: str, kind: str):
    some = Rows(name)
    made = kernel(parallel(some.row, loop(some.column, some.store(some.chain(kind)))))
    assert folds(made) == folds(kernel(parallel(some.row, loop(some.column, some.store(constant(0, some.dtype))))))
    some.check(made)


def test_rows_in_lanes():
    some = Rows()
    made = kernel(vector(some.row, loop(some.column, some.store(some.chain()))))
    assert "phi <16 x float>" in emit_kernel(made, CodeTarget("x86_64", 64), "k")
    some.check(made)


def test_several_chains_of_a_loop():
    some = Rows()
    value = apply("add", some.chain(), cast(some.chain("max"), float32))
    made = kernel(parallel(some.row, loop(some.column, some.store(value), some.store(apply("mul", value, value)))))
    some.check(made)


def test_other_chains_are_folded_for_each_place():
    some = Rows()
    lengths = [some.column, some.columns - some.column, some.columns]
    others = [some.chain(length=length) for length in lengths] + [some.chain(order=Order(256, 1, 32))]
    few = apply("lt", index(some.column), index(5))
    others.append(guard(few, some.chain(), constant(0, float32)))
    for value in others:
        made = kernel(parallel(some.row, loop(some.column, some.store(value))))
        assert folds(made) > 2
        some.check(made)


def test_loops_that_start_later_carry_nothing():
    some = Rows()
    body = some.store(some.chain())
    made = kernel(parallel(some.row, loop(some.column, body, start=2, extent=maximum(some.columns - 2, 0))))
    assert folds(made) > 2
    some.check(made)


def test_elements_that_the_loop_writes_are_read_again():
    some = Rows()
    made = kernel(parallel(some.row, loop(some.column, Store(some.x, some.at(some.column), some.chain()))))
    assert folds(made) > 2
