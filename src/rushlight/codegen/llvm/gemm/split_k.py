"""Parts of a product's sums as LLVM IR text: where results are few and sums are long, threads share the steps of k.

A part stores the sums of each of its blocks of k apart, in a place of their own. The part of a tile that is finished
last adds the places up in the order of the blocks, so that the bits do not depend on the parts, nor on their number.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from rushlight.codegen.llvm.gemm.gemv import across
from rushlight.codegen.llvm.gemm.micro_kernel import load_vector, mask_lines, store_vector, sum_vectors
from rushlight.ir.gemm_tile import GemmTile

# What a task's number says: its part of k, and its tile.
TASK_PART = """\
  %part = urem i64 %index, %parts
  %tile = udiv i64 %index, %parts"""

_PRODUCT = """\
  %is_whole = icmp eq i64 %parts, 1
  br i1 %is_whole, label %whole, label %apart
whole:
{whole}
apart:
  %k_first = mul i64 %part, %part_steps
  %k_after = add i64 %k_first, %part_steps
  %k_end = call i64 @llvm.smin.i64(i64 %k_after, i64 %k)
  %sums_outer = mul i64 %batch, %m
  %sums_rows = add i64 %sums_outer, %m0
  %sums_row = mul i64 %sums_rows, %n
  %sums_first = add i64 %sums_row, %n0
  %sums_at = getelementptr {element}, ptr %sums, i64 %sums_first
  br label %block
block:
  %k0 = phi i64 [ %k_first, %apart ], [ %k_next, %block ]
  %k_next = add i64 %k0, {kc}
  %k_left = sub i64 %k_end, %k0
  %steps = call i64 @llvm.smin.i64(i64 %k_left, i64 {kc})
  %a_steps = mul i64 %k0, {a_per_k}
  %a_block = getelementptr {a_element}, ptr %a_at, i64 %a_steps
{b_block}
  %number = udiv i64 %k0, {kc}
  %place = add i64 %number, 1
  %to_start = mul i64 %place, %sums_step
  %to = getelementptr {element}, ptr %sums_at, i64 %to_start
  call void @{core}(ptr %a_block, ptr {b}, ptr %to, i64 %a_ld, i64 %b_ld, i64 %n, i64 %rows, i64 %columns, i64 %steps)
  %more_blocks = icmp slt i64 %k_next, %k_end
  br i1 %more_blocks, label %block, label %part_end
part_end:
  %done_at = getelementptr {element}, ptr %sums, i64 %tile
  %done = atomicrmw add ptr %done_at, i32 1 acq_rel
  %parts_less = sub i64 %parts, 1
  %last_part = trunc i64 %parts_less to i32
  %is_last = icmp eq i32 %done, %last_part
  br i1 %is_last, label %add_up, label %next
add_up:
  %blocks_less = sub i64 %k, 1
  %last_block = udiv i64 %blocks_less, {kc}
  %blocks = add i64 %last_block, 1
  %from = getelementptr {element}, ptr %sums_at, i64 %sums_step
  call void @{name}_add_up(ptr %from, i64 %sums_step, i64 %blocks, i64 %n, ptr %c_at, i64 {ldc}, \
i64 %rows, i64 %columns)
  br label %finished"""

_B_IN_MEMORY = """\
  %b_steps = mul i64 %k0, {b_per_k}
  %b_block = getelementptr {b_element}, ptr %b_at, i64 %b_steps"""

_ADD_UP = """\
define internal void @{name}_add_up(ptr noalias readonly %from, i64 %step, i64 %blocks, i64 %ld, ptr noalias %to, \
i64 %ldc, i64 %rows, i64 %columns) noinline {attributes} {{
entry:
  %rest = urem i64 %columns, {lanes}
  %whole = sub i64 %columns, %rest
  %no_rest = icmp eq i64 %rest, 0
  %narrow = icmp eq i64 %whole, 0
{mask}
  br label %block
block:
  %number = phi i64 [ 0, %entry ], [ %number_next, %block_end ]
  %first = icmp eq i64 %number, 0
  %start = mul i64 %number, %step
  %sums = getelementptr {element}, ptr %from, i64 %start
  br label %row
row:
  %i = phi i64 [ 0, %block ], [ %i_next, %row_end ]
  %sums_start = mul i64 %i, %ld
  %sums_row = getelementptr {element}, ptr %sums, i64 %sums_start
  %to_start = mul i64 %i, %ldc
  %to_row = getelementptr {element}, ptr %to, i64 %to_start
{add}
row_end:
  %i_next = add i64 %i, 1
  %more_rows = icmp slt i64 %i_next, %rows
  br i1 %more_rows, label %row, label %block_end
block_end:
  %number_next = add i64 %number, 1
  %more_blocks = icmp slt i64 %number_next, %blocks
  br i1 %more_blocks, label %block, label %exit
exit:
  ret void
}}
"""


def split_k_product(tile: GemmTile, name: str, whole: str, **texts: object) -> str:
    """The blocks of a task that compute its product: all of k by `whole`, or the blocks of its part of k."""
    made = "  store i64 %k0, ptr %step_at, align 8"
    b_block = made if tile.b_made else _B_IN_MEMORY.format(**texts)
    b = "%b_at" if tile.b_made else "%b_block"
    return _PRODUCT.format(name=name, whole=whole, b_block=b_block, b=b, element=tile.element, kc=tile.kc, **texts)


def emit_reduce_partials(tile: GemmTile, name: str) -> str:
    """IR of `void @name_add_up(from, step, blocks, ld, to, ldc, rows, columns)`: `to` = the sum of the blocks.

    Block p of element (i, j) is `from[p * step + i * ld + j]`; the first is added to +0.0.
    """
    return _ADD_UP.format(
        name=name,
        attributes=tile.attributes,
        element=tile.element,
        lanes=tile.lanes,
        mask="\n".join(mask_lines(tile.lanes, "%rest")),
        add="\n".join(across(tile, "add", functools.partial(_add, tile), "row_end")),
    )


def _add(tile: GemmTile, prefix: str, place: str, mask: str | None) -> Iterator[str]:
    kind = sum_vectors(tile)
    yield f"  {prefix}_from = getelementptr {tile.element}, ptr %sums_row, i64 {place}"
    yield load_vector(kind, f"{prefix}_sum", f"{prefix}_from", mask)
    yield f"  {prefix}_to = getelementptr {tile.element}, ptr %to_row, i64 {place}"
    yield load_vector(kind, f"{prefix}_stored", f"{prefix}_to", mask)
    yield f"  {prefix}_old = select i1 %first, {tile.vector} zeroinitializer, {tile.vector} {prefix}_stored"
    yield f"  {prefix}_new = {tile.add} {tile.vector} {prefix}_old, {prefix}_sum"
    yield store_vector(kind, f"{prefix}_new", f"{prefix}_to", mask)
