"""How a matrix product is divided into macro tiles, as LLVM IR text: that is decided in a call, for its sizes."""

from __future__ import annotations

from rushlight.ir.gemm_tile import SMALLEST_TASK, GemmTile
from rushlight.ir.kernel import TASK_WORDS

_PLAN = """\
define internal i64 @{name}_even(i64 %size, i64 %limit, i64 %unit) {{
  %most = call i64 @llvm.smax.i64(i64 %limit, i64 %unit)
  %size_less = sub i64 %size, 1
  %parts_less = udiv i64 %size_less, %most
  %parts = add i64 %parts_less, 1
  %part_units = mul i64 %parts, %unit
  %units_less = udiv i64 %size_less, %part_units
  %units = add i64 %units_less, 1
  %even = mul i64 %units, %unit
  ret i64 %even
}}

define i64 @{name}(ptr %args, i64 %batches, i64 %threads) {{
entry:
  %m_word = getelementptr i64, ptr %args, i64 {m_word}
  %m = load i64, ptr %m_word, align 8
  %n_word = getelementptr i64, ptr %args, i64 {n_word}
  %n = load i64, ptr %n_word, align 8
  %k_word = getelementptr i64, ptr %args, i64 {k_word}
  %k = load i64, ptr %k_word, align 8
  %tile_m_word = getelementptr i64, ptr %args, i64 {tile_m_word}
  %tile_n_word = getelementptr i64, ptr %args, i64 {tile_n_word}
  %mn = mul i64 %m, %n
  %size = mul i64 %mn, %batches
  %useful = mul i64 %size, 7
  %empty = icmp eq i64 %size, 0
  br i1 %empty, label %nothing, label %start
nothing:
  store i64 {mr}, ptr %tile_m_word, align 8
  store i64 {nr}, ptr %tile_n_word, align 8
  ret i64 0
start:
  %rows_start = call i64 @{name}_even(i64 %m, i64 {mc}, i64 {mr})
  %columns_start = call i64 @{name}_even(i64 %n, i64 {nc}, i64 {nr})
  br label %try
try:
  %rows = phi i64 [ %rows_start, %start ], [ %rows, %split_columns ], [ %rows_less, %split_rows ]
  %columns = phi i64 [ %columns_start, %start ], [ %columns_less, %split_columns ], [ %columns, %split_rows ]
  %m_before = sub i64 %m, 1
  %m_others = udiv i64 %m_before, %rows
  %m_tiles = add i64 %m_others, 1
  %n_before = sub i64 %n, 1
  %n_others = udiv i64 %n_before, %columns
  %n_tiles = add i64 %n_others, 1
  %tiles = mul i64 %m_tiles, %n_tiles
  %tasks = mul i64 %tiles, %batches
  %alone = icmp sle i64 %threads, 1
  br i1 %alone, label %done, label %judge
judge:
  %tasks_before = sub i64 %tasks, 1
  %turns_less = udiv i64 %tasks_before, %threads
  %turns = add i64 %turns_less, 1
  %shares = mul i64 %turns, %threads
  %rows_real = call i64 @llvm.smin.i64(i64 %rows, i64 %m)
  %columns_real = call i64 @llvm.smin.i64(i64 %columns, i64 %n)
  %area = mul i64 %rows_real, %columns_real
  %share_area = mul i64 %shares, %area
  %spent = mul i64 %share_area, 6
  %good = icmp uge i64 %useful, %spent
  %work = mul i64 %area, %k
  %small = icmp slt i64 %work, {smallest_task}
  %enough = or i1 %good, %small
  br i1 %enough, label %done, label %split
split:
  %many_columns = icmp sgt i64 %columns, {nr}
  %rows_twice = shl i64 %rows, 1
  %wide = icmp sge i64 %columns, %rows_twice
  %few_rows = icmp sle i64 %rows, {few_rows}
  %prefer_columns = or i1 %wide, %few_rows
  %by_columns = and i1 %many_columns, %prefer_columns
  br i1 %by_columns, label %split_columns, label %not_columns
split_columns:
  %columns_half = lshr i64 %columns, 1
  %columns_less = call i64 @{name}_even(i64 %n, i64 %columns_half, i64 {nr})
  br label %try
not_columns:
  %many_rows = icmp sgt i64 %rows, {mr}
  br i1 %many_rows, label %split_rows, label %done
split_rows:
  %rows_half = lshr i64 %rows, 1
  %rows_less = call i64 @{name}_even(i64 %m, i64 %rows_half, i64 {mr})
  br label %try
done:
  store i64 %rows, ptr %tile_m_word, align 8
  store i64 %columns, ptr %tile_n_word, align 8
  ret i64 %tasks
}}
"""


def emit_plan(tile: GemmTile, name: str, *, scratch: bool = False) -> str:
    """IR of `i64 @name(args, batches, threads)`: sets `tile_m` and `tile_n` in a task's arguments, returns its tiles.

    It reads m, n and k there and decides as `plan_tiles` does, in about a microsecond.
    """
    return _PLAN.format(
        name=name,
        mr=tile.mr,
        nr=tile.nr,
        mc=tile.mc,
        nc=tile.scratch_nc if scratch else tile.nc,
        few_rows=tile.few_rows,
        smallest_task=SMALLEST_TASK,
        **{f"{word}_word": TASK_WORDS.index(word) for word in ("m", "n", "k", "tile_m", "tile_n")},
    )
