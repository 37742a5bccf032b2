"""LLVM IR of micro-kernels and packing, for register tiles small enough to read (docs/compiler/micro-kernel.md)."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rushlight.codegen.llvm.gemm.micro_kernel import MicroKernel, emit_micro
from rushlight.codegen.llvm.gemm.packing import emit_compensation, emit_pack_a_block, emit_pack_b_panel
from rushlight.ir.gemm_tile import BLOCK, GemmTile


def small_tile(dtype: str, vector_bytes: int, vectors: int = 1, unroll: int = 1) -> GemmTile:
    """Two rows by a few vectors of 4-byte sums; operands are packed by the core."""
    nr = vectors * vector_bytes // 4
    tile = GemmTile(2, nr, 2, nr, vector_bytes, dtype, "row", False, "column", False, unroll)
    return replace(tile, kc=BLOCK * tile.group) if dtype == "int8" else tile


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("f32-x86-64-v3", small_tile("float32", 32, vectors=2, unroll=2)),
        ("f32-x86-64-v4", small_tile("float32", 64)),
        ("bf16-x86-64-v4", small_tile("bfloat16", 64)),
        ("int8-x86-64-v3", small_tile("int8", 32)),
        ("int8-x86-64-v4", small_tile("int8", 64)),
    ],
)
def test_full_micro_kernel_reads_well(golden, name, tile):
    golden(f"micro-{name}.ll", emit_micro(MicroKernel(tile, 2, tile.vectors, edge=False), "micro"))


def test_edge_micro_kernel_reads_well(golden):
    tile = small_tile("float32", 32, vectors=2)
    golden("micro-edge-f32-x86-64-v3.ll", emit_micro(MicroKernel(tile, 2, 2, edge=True), "micro_edge"))


def test_packing_reads_well(golden):
    tile = small_tile("float32", 32)
    golden("pack-a-f32-x86-64-v3.ll", emit_pack_a_block(tile, "pack_a"))
    golden("pack-b-f32-x86-64-v3.ll", emit_pack_b_panel(tile, "pack_b", transposed=False))
    golden("pack-b-bf16-x86-64-v4.ll", emit_pack_b_panel(small_tile("bfloat16", 64), "pack_b", transposed=False))
    golden("compensation-int8-x86-64-v4.ll", emit_compensation(small_tile("int8", 64), "compensation"))


def test_the_page_on_the_micro_kernel_quotes_the_golden_text():
    golden_lines = (
        (Path(__file__).parent / "golden" / "micro-f32-x86-64-v3.ll").read_text(encoding="utf-8").splitlines()
    )
    page = (Path(__file__).parents[2] / "docs" / "compiler" / "micro-kernel.md").read_text(encoding="utf-8")
    quoted = [line for block in re.findall(r"```llvm\n(.*?)```", page, re.S) for line in block.splitlines()]
    assert len(quoted) > 30
    assert [line for line in quoted if line not in golden_lines] == []
