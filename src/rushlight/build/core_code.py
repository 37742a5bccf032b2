"""Generates the LLVM IR of a matrix product's core.

Within `build`, only this module and `pipeline` import the code generators.
"""

from __future__ import annotations

from rushlight.codegen.llvm.gemm.macro_tile import emit_core
from rushlight.codegen.llvm.gemm.task import core_name
from rushlight.ir.gemm_tile import GemmTile


def core_text(tile: GemmTile) -> tuple[str, str]:
    """The name of a tile's core, and its LLVM IR."""
    name = core_name(tile)
    return name, emit_core(tile, name)
