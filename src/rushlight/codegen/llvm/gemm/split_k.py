"""Split-K: if results are few and sums are long, threads share the steps of k.

A part of k stores the partial sums of each of its blocks apart. The part of a tile that finishes last adds the partial
sums up in the order of the blocks, so the bits depend neither on the parts nor on their number.
"""

from __future__ import annotations

import functools

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.codegen.llvm.gemm.gemv import for_each_vector, split_columns
from rushlight.codegen.llvm.gemm.vectors import load_vector, store_vector, sum_vectors
from rushlight.ir.gemm_tile import GemmTile


def split_k_product(
    code: FunctionBuilder,
    tile: GemmTile,
    names: tuple[str, str],
    whole: str,
    ldc: str,
    operands: tuple[str, str],
    per_k: tuple[int | str, int | str],
) -> None:
    """Emits a task's product: all of k by the call `whole`, or the blocks of its part of k; then `finished`.

    `names` are those of the task and of the core; `operands` are the LLVM types in which `a` and `b` are addressed, and
    a step along k moves them by `per_k` elements. A part that is not the last to finish branches to `next`.
    """
    name, core = names
    code.branch(code.let("is_whole", "icmp eq i64 %parts, 1"), "whole", "part_start")
    code.block("whole")
    code.do(whole)
    code.jump("finished")
    code.block("part_start")
    first = code.let("k_first", "mul i64 %part, %part_steps")
    end = code.minimum("k_end", code.let("k_after", f"add i64 {first}, %part_steps"), "%k")
    rows_before = code.let("sums_rows", f"add i64 {code.let('sums_outer', 'mul i64 %batch, %m')}, %m0")
    sums_first = code.let("sums_first", f"add i64 {code.let('sums_row', f'mul i64 {rows_before}, %n')}, %n0")
    sums_at = code.address("sums_at", tile.element, "%sums", sums_first)
    with code.loop("block", "k0", end, start=first, step=tile.kc, after="part_end") as block:
        block.advance()
        steps = code.minimum("steps", code.let("k_left", f"sub i64 {end}, {block.index}"), tile.kc)
        a_block = code.row("a_block", operands[0], "%a_at", block.index, per_k[0])
        if tile.b_made:
            code.store("i64", block.index, "%made_step", 8)
            b_block = "%b_at"
        else:
            b_block = code.row("b_block", operands[1], "%b_at", block.index, per_k[1])
        number = code.let("number", f"udiv i64 {block.index}, {tile.kc}")
        # The first `sums_step` elements hold counters: each tile counts the parts that have finished.
        to = code.row("to", tile.element, sums_at, code.let("sums_number", f"add i64 {number}, 1"), "%sums_step")
        sizes = f"i64 %a_ld, i64 %b_ld, i64 %n, i64 %rows, i64 %columns, i64 {steps}"
        code.do(f"call void @{core}(ptr {a_block}, ptr {b_block}, ptr {to}, {sizes})")
    counter = code.address("counter_at", tile.element, "%sums", "%tile")
    # Release: the sums are visible before the count. Acquire: the last part sees the sums of all others.
    finished = code.let("parts_before", f"atomicrmw add ptr {counter}, i32 1 acq_rel")
    last_part = code.let("last_part", f"trunc i64 {code.let('parts_less', 'sub i64 %parts, 1')} to i32")
    code.branch(code.let("is_last", f"icmp eq i32 {finished}, {last_part}"), "reduce", "next")
    code.block("reduce")
    last_block = code.let("last_block", f"udiv i64 {code.let('k_less', 'sub i64 %k, 1')}, {tile.kc}")
    blocks = code.let("blocks", f"add i64 {last_block}, 1")
    sums = code.address("sums_of_blocks", tile.element, sums_at, "%sums_step")
    source = f"ptr {sums}, i64 %sums_step, i64 {blocks}, i64 %n"
    code.do(f"call void @{name}_reduce({source}, ptr %c_at, i64 {ldc}, i64 %rows, i64 %columns)")
    code.jump("finished")
    code.block("finished")


def emit_reduce_partials(tile: GemmTile, name: str) -> str:
    """Emits `void @name_reduce(from, step, blocks, ld, to, ldc, rows, columns)`: `to` = the sum of the blocks.

    Block p of element (i, j) is `from[p * step + i * ld + j]`; the first is added to +0.0.
    """
    source = "ptr noalias readonly %from, i64 %step, i64 %blocks, i64 %ld"
    parameters = f"{source}, ptr noalias %to, i64 %ldc, i64 %rows, i64 %columns"
    code = FunctionBuilder(f"define internal void @{name}_reduce({parameters}) noinline {tile.attributes}")
    split_columns(code, tile, "%columns")
    with code.loop("block", "number", "%blocks", after="exit") as block:
        is_first = code.is_zero("first", block.index)
        sums = code.row("sums", tile.element, "%from", block.index, "%step")
        with code.loop("row", "i", "%rows", after="block_end") as row:
            sums_row = code.row("sums_row", tile.element, sums, row.index, "%ld")
            to_row = code.row("to_row", tile.element, "%to", row.index, "%ldc")
            add = functools.partial(_add_vector, code, tile, is_first, sums_row, to_row)
            for_each_vector(code, tile, "add", add, "row_end")
    return code.finish()


def _add_vector(
    code: FunctionBuilder,
    tile: GemmTile,
    is_first: str,
    sums_row: str,
    to_row: str,
    prefix: str,
    column: str,
    mask: str | None,
) -> None:
    """Adds a vector of partial sums to the stored ones; the first block is added to +0.0."""
    kind = sum_vectors(tile)
    sums_at = code.address(f"{prefix}_from", tile.element, sums_row, column)
    partial = load_vector(code, kind, f"{prefix}_sum", sums_at, mask)
    to_at = code.address(f"{prefix}_to", tile.element, to_row, column)
    stored = load_vector(code, kind, f"{prefix}_stored", to_at, mask)
    old = code.let(f"{prefix}_old", f"select i1 {is_first}, {tile.vector} zeroinitializer, {tile.vector} {stored}")
    store_vector(code, kind, code.let(f"{prefix}_new", f"{tile.add} {tile.vector} {old}, {partial}"), to_at, mask)
