"""Parts of k that tasks of one product share: the bits of the order, whatever the parts, whichever comes last."""

import ctypes
import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.gemm_products import (
    NO_PARTS,
    ONE_BATCH,
    Product,
    assert_same_bits,
    function,
    load,
    name_of,
    operands,
    oracle,
    tiles_in_all_formats,
)

from rushlight.codegen.llvm.gemm import tiling
from rushlight.codegen.llvm.gemm.macro_tile import emit_core, emit_task
from rushlight.codegen.llvm.gemm.tiling import emit_plan
from rushlight.ir.gemm_tile import GemmTile, choose_tile
from rushlight.runtime import llvm


def tiles_that_have_parts() -> list[GemmTile]:
    """Tiles of this machine, their operands as they lie in memory, and of `b` as it is made."""
    width = llvm.host_target().vector_bytes
    tiles = [tile for tile in tiles_in_all_formats() if tile.has_parts and tile.vector_bytes == width]
    return [*tiles, *[replace(tile, b_made=True) for tile in tiles]]


@pytest.mark.generated
@pytest.mark.parametrize("tile", tiles_that_have_parts(), ids=name_of)
def test_parts_of_k_have_the_bits_of_the_order(tile: GemmTile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "SMALLEST_TASK", 1)
    product = Product(tile, split_k=True)
    shapes = ((1, 1, 5000), (2, 7, 4097), (1, 40, 3000), (40, 1, 3000), (19, 37, 2560), (13, 64, 257), (5, 6, 256))
    parts = set()
    for (m, n, k), threads in itertools.product(shapes, (2, 7)):
        a, b = operands(m, n, k, tile.dtype)
        a[:, :256] = 0.0
        b[:, 0] = -0.0
        assert_same_bits(product(a, b, threads, ldc=n + 3), oracle(a, b))
        parts.add(product.parts)
    assert 1 in parts
    assert len(parts) > 3


def test_a_part_of_each_number_may_come_last() -> None:
    tile = choose_tile("float32", llvm.host_target().vector_bytes, a_packed=False, b_packed=False)
    text = emit_core(tile, "core") + emit_task(tile, "task", "core", split_k=True)
    module = load(text + emit_plan(tile, "plan", split_k=True))
    plan = function(module, "plan", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, result=ctypes.c_int64)
    task = function(module, "task", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    a, b = operands(3, 5, 90000, "float32")
    wanted = oracle(a, b)
    for last in range(8):
        c, sums = np.full((3, 5), 7, np.float32), np.full((400, 3, 5), np.nan, np.float32)
        words = [a.ctypes.data, b.ctypes.data, c.ctypes.data, 3, 5, 90000, 90000, 5, 5, 0, 0, 0, *ONE_BATCH]
        args = np.array([*words, sums.ctypes.data, 15, *NO_PARTS[2:]], np.int64)
        tasks = plan(args.ctypes.data, 1, 2)
        assert tasks == 8
        for number in sorted(range(tasks), key=lambda number: number == last):
            assert (c == 7).all()
            task(args.ctypes.data, number, number + 1)
        assert_same_bits(c, wanted)
