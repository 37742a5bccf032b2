"""Complex kernels are rewritten in real parts; what has no form in parts is a registered error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.dtype import complex64
from rushlight.ir.graph import GraphBuilder
from rushlight.ir.kernel import Kernel
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.target import Target
from rushlight.ir.type import TensorType
from rushlight.ops.record import OPERATORS

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)


def test_product_golden(golden: Callable[[str, str], None]) -> None:
    """One kernel, which knows float32 alone."""
    builder = GraphBuilder("product")
    type_ = TensorType((8,), complex64)
    a, b = (builder.parameter(name, type_) for name in "ab")
    graph = builder.graph([OPERATORS["mul"](a, b)], [])
    kernels = [
        kernel for kernel in run_passes(graph, TARGET, until="07-tiled.ir").kernels if isinstance(kernel, Kernel)
    ]
    golden("complex_product.ir", "\n".join([kernel_text(kernel) for kernel in kernels]))


def test_quotient_of_extremes_does_not_overflow() -> None:
    """Smith's quotient scales by the larger part; the plain formula squares it."""
    a = np.array([1e30 + 1e30j, 1e-30 + 1e-30j], np.complex64)
    found = (rl.from_numpy(a) / rl.from_numpy(a)).numpy()
    assert np.array_equal(found, np.ones(2, np.complex64))


def test_epilogue_of_a_product_may_be_complex() -> None:
    """A float product whose result is stored as complex numbers."""
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    found = rl.compile(lambda a: (a @ a).to(rl.complex64) * 1j)(rl.from_numpy(x))
    plain = (rl.from_numpy(x) @ rl.from_numpy(x)).numpy()
    assert np.array_equal(found.numpy().imag, plain)


def test_product_over_an_axis_is_complex_where_only_its_result_is() -> None:
    """The host multiplies: a kernel's reduction has one accumulator."""
    x = np.array([1.5, -2.0, 3.0], np.float32)
    for product in (lambda x: x.prod(dtype=rl.complex64), rl.compile(lambda x: x.prod(dtype=rl.complex64))):
        found = product(rl.tensor(x))
        assert found.dtype is rl.complex64 and found.item() == complex(-9.0)
    assert (rl.tensor(x) * 1j).prod().item() == 9j


@pytest.mark.parametrize("rows", [5, 1000])
def test_sums_of_rows_keep_their_runs_in_parts(rows: int) -> None:
    """A share's own memory is in parts as well: sums of many complex rows wait in it."""
    real, imag = np.random.default_rng(1).integers(-8, 8, (2, rows, 7)).astype(np.float32)
    x = (real + 1j * imag).astype(np.complex64)

    def first_sum(x: rl.Tensor) -> rl.Tensor:
        return x.sum(0)

    for total in (first_sum, rl.compile(first_sum)):
        assert np.array_equal(total(rl.from_numpy(x)).numpy(), x.sum(0))
