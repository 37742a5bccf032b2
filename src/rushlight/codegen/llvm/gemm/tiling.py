"""How a matrix product is divided into macro tiles, as LLVM IR text: that is decided in a call, for its sizes."""

from __future__ import annotations

from rushlight.ir.gemm_tile import ADD_UP_STEPS, PARTS_PER_THREAD, SMALLEST_TASK, GemmTile
from rushlight.ir.kernel import TASK_ARGS

_PLAN = """\
define internal i64 @{name}_parts(i64 %size, i64 %part) {{
  %less = sub i64 %size, 1
  %others = udiv i64 %less, %part
  %parts = add i64 %others, 1
  ret i64 %parts
}}

define internal i64 @{name}_even(i64 %size, i64 %limit, i64 %unit) {{
  %most = call i64 @llvm.smax.i64(i64 %limit, i64 %unit)
  %parts = call i64 @{name}_parts(i64 %size, i64 %most)
  %part_units = mul i64 %parts, %unit
  %units = call i64 @{name}_parts(i64 %size, i64 %part_units)
  %even = mul i64 %units, %unit
  ret i64 %even
}}

define internal i64 @{name}_share(i64 %m, i64 %n, i64 %batches, i64 %threads, i64 %rows, i64 %columns) {{
  %m_tiles = call i64 @{name}_parts(i64 %m, i64 %rows)
  %n_tiles = call i64 @{name}_parts(i64 %n, i64 %columns)
  %tiles = mul i64 %m_tiles, %n_tiles
  %tasks = mul i64 %tiles, %batches
  %rows_real = call i64 @llvm.smin.i64(i64 %rows, i64 %m)
  %high = add i64 %rows_real, {rows_before}
  %wide = call i64 @llvm.smin.i64(i64 %columns, i64 %n)
  %wide_before = add i64 %wide, {columns_before}
  %turns = call i64 @{name}_parts(i64 %tasks, i64 %threads)
  %others = sub i64 %tasks, 1
  %beside = urem i64 %others, %threads
  %alone = icmp eq i64 %beside, 0
  %n_padded = mul i64 %n_tiles, %wide
  %n_absent = sub i64 %n_padded, %n
  %absent = select i1 %alone, i64 %n_absent, i64 0
  %turns_wide = mul i64 %turns, %wide_before
  %share_wide = sub i64 %turns_wide, %absent
  %share = mul i64 %share_wide, %high
  ret i64 %share
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
  %parts_word = getelementptr i64, ptr %args, i64 {parts_word}
  store i64 1, ptr %parts_word, align 8
  %mn = mul i64 %m, %n
  %size = mul i64 %mn, %batches
  %empty = icmp eq i64 %size, 0
  br i1 %empty, label %nothing, label %start
nothing:
  store i64 {mr}, ptr %tile_m_word, align 8
  store i64 {nr}, ptr %tile_n_word, align 8
  ret i64 0
start:
  %rows_start = call i64 @{name}_even(i64 %m, i64 {mc}, i64 {mr})
  %columns_start = call i64 @{name}_even(i64 %n, i64 {nc}, i64 {nr})
  %is_alone = icmp sle i64 %threads, 1
  br i1 %is_alone, label %done, label %share
share:
  %least_start = call i64 @{name}_share({sizes}, i64 %rows_start, i64 %columns_start)
  %m_before = add i64 %m, {rows_before}
  %n_before = add i64 %n, {columns_before}
  %mn_before = mul i64 %m_before, %n_before
  %ideal = mul i64 %mn_before, %batches
  %enough = mul i64 %ideal, 16
  %weight = mul i64 %threads, 15
  br label %try
try:
  %rows = phi i64 [ %rows_start, %share ], [ %rows_next, %halve ]
  %columns = phi i64 [ %columns_start, %share ], [ %columns_next, %halve ]
  %rows_best = phi i64 [ %rows_start, %share ], [ %rows_best_next, %halve ]
  %columns_best = phi i64 [ %columns_start, %share ], [ %columns_best_next, %halve ]
  %least = phi i64 [ %least_start, %share ], [ %least_next, %halve ]
  %spent = mul i64 %weight, %least
  %good = icmp ule i64 %spent, %enough
  %rows_real = call i64 @llvm.smin.i64(i64 %rows, i64 %m)
  %columns_real = call i64 @llvm.smin.i64(i64 %columns, i64 %n)
  %area = mul i64 %rows_real, %columns_real
  %work = mul i64 %area, %k
  %small = icmp slt i64 %work, {smallest_task}
  %many_rows = icmp sgt i64 %rows, {mr}
  %many_columns = icmp sgt i64 %columns, {nr}
  %many = or i1 %many_rows, %many_columns
  %one = xor i1 %many, true
  %no_halves = or i1 %small, %one
  %enough_halves = or i1 %good, %no_halves
  br i1 %enough_halves, label %done, label %halve
halve:
  %rows_half = lshr i64 %rows, 1
  %rows_fewer = call i64 @{name}_even(i64 %m, i64 %rows_half, i64 {mr})
  %columns_half = lshr i64 %columns, 1
  %columns_fewer = call i64 @{name}_even(i64 %n, i64 %columns_half, i64 {nr})
  %by_rows = call i64 @{name}_share({sizes}, i64 %rows_fewer, i64 %columns)
  %by_columns = call i64 @{name}_share({sizes}, i64 %rows, i64 %columns_fewer)
  %rows_twice = shl i64 %rows, 1
  %wide = icmp sge i64 %columns, %rows_twice
  %same = icmp eq i64 %by_columns, %by_rows
  %less = icmp ult i64 %by_columns, %by_rows
  %same_and_wide = and i1 %same, %wide
  %better = or i1 %less, %same_and_wide
  %few_rows = xor i1 %many_rows, true
  %prefer_columns = or i1 %better, %few_rows
  %columns_halved = and i1 %many_columns, %prefer_columns
  %rows_next = select i1 %columns_halved, i64 %rows, i64 %rows_fewer
  %columns_next = select i1 %columns_halved, i64 %columns_fewer, i64 %columns
  %found = select i1 %columns_halved, i64 %by_columns, i64 %by_rows
  %best = icmp ule i64 %found, %least
  %rows_best_next = select i1 %best, i64 %rows_next, i64 %rows_best
  %columns_best_next = select i1 %best, i64 %columns_next, i64 %columns_best
  %least_next = select i1 %best, i64 %found, i64 %least
  br label %try
done:
  %rows_found = phi i64 [ %rows_start, %start ], [ %rows_best, %try ]
  %columns_found = phi i64 [ %columns_start, %start ], [ %columns_best, %try ]
{parts}
  store i64 %rows_found, ptr %tile_m_word, align 8
  store i64 %columns_found, ptr %tile_n_word, align 8
  %m_tiles = call i64 @{name}_parts(i64 %m, i64 %rows_found)
  %n_tiles = call i64 @{name}_parts(i64 %n, i64 %columns_found)
  %tiles = mul i64 %m_tiles, %n_tiles
  %tasks = mul i64 %tiles, %batches
  ret i64 %tasks
}}
"""

_PARTS = """\
  %least_found = phi i64 [ 0, %start ], [ %least, %try ]
  %sums_step_word = getelementptr i64, ptr %args, i64 {sums_step_word}
  %sums_step = load i64, ptr %sums_step_word, align 8
  %no_sums = icmp eq i64 %sums_step, 0
  %no_parts = or i1 %is_alone, %no_sums
  br i1 %no_parts, label %tiled, label %part
part:
  %rows_high = call i64 @llvm.smin.i64(i64 %rows_start, i64 %m)
  %high = add i64 %rows_high, {rows_before}
  %columns_wide = call i64 @llvm.smin.i64(i64 %columns_start, i64 %n)
  %wide_before = add i64 %columns_wide, {columns_before}
  %high_wide = mul i64 %high, %wide_before
  %block_work = mul i64 %high_wide, {kc}
  %m_parts = call i64 @{name}_parts(i64 %m, i64 %rows_start)
  %n_parts = call i64 @{name}_parts(i64 %n, i64 %columns_start)
  %mn_parts = mul i64 %m_parts, %n_parts
  %large = mul i64 %mn_parts, %batches
  %blocks = call i64 @{name}_parts(i64 %k, i64 {kc})
  %all_blocks = mul i64 %blocks, %large
  %shares = mul i64 %threads, {parts_wanted}
  %part_share = call i64 @{name}_parts(i64 %all_blocks, i64 %shares)
  %part_least = call i64 @{name}_parts(i64 {smallest_task}, i64 %block_work)
  %part_blocks = call i64 @llvm.smax.i64(i64 %part_share, i64 %part_least)
  %parts = call i64 @{name}_parts(i64 %blocks, i64 %part_blocks)
  %part_tasks = mul i64 %parts, %large
  %part_turns = call i64 @{name}_parts(i64 %part_tasks, i64 %threads)
  %turn_blocks = mul i64 %part_turns, %part_blocks
  %turns_work = mul i64 %turn_blocks, %block_work
  %sums_stored = mul i64 %size, %blocks
  %sums_work = mul i64 %sums_stored, {add_up_steps}
  %parts_work = add i64 %turns_work, %sums_work
  %tiles_work = mul i64 %least_found, %k
  %worth = icmp ult i64 %parts_work, %tiles_work
  br i1 %worth, label %parted, label %tiled
parted:
  store i64 %parts, ptr %parts_word, align 8
  %part_steps = mul i64 %part_blocks, {kc}
  %part_steps_word = getelementptr i64, ptr %args, i64 {part_steps_word}
  store i64 %part_steps, ptr %part_steps_word, align 8
  store i64 %rows_start, ptr %tile_m_word, align 8
  store i64 %columns_start, ptr %tile_n_word, align 8
  %sums_word = getelementptr i64, ptr %args, i64 {sums_word}
  %sums = load ptr, ptr %sums_word, align 8
  br label %clear
clear:
  %counter = phi i64 [ 0, %parted ], [ %counter_next, %clear ]
  %counter_at = getelementptr {element}, ptr %sums, i64 %counter
  store i32 0, ptr %counter_at, align 4
  %counter_next = add i64 %counter, 1
  %more_counters = icmp slt i64 %counter_next, %large
  br i1 %more_counters, label %clear, label %cleared
cleared:
  ret i64 %part_tasks
tiled:"""


def emit_plan(tile: GemmTile, name: str, *, scratch: bool = False, split_k: bool = False) -> str:
    """IR of `i64 @name(args, batches, threads)`: sets the last words of a task's arguments, returns its tasks.

    It reads m, n and k there and decides as `plan_tiles` does, in about a microsecond.
    """
    texts = {
        "name": name,
        "rows_before": tile.rows_before,
        "columns_before": tile.columns_before,
        "parts_wanted": PARTS_PER_THREAD,
        "smallest_task": SMALLEST_TASK,
        **{f"{word}_word": place for place, word in enumerate(TASK_ARGS)},
    }
    parts = _PARTS.format(**texts, kc=tile.kc, add_up_steps=ADD_UP_STEPS, element=tile.element) if split_k else ""
    return _PLAN.format(
        **texts,
        parts=parts,
        mr=tile.mr,
        nr=tile.nr,
        mc=tile.mc,
        nc=tile.scratch_nc if scratch else tile.nc,
        sizes="i64 %m, i64 %n, i64 %batches, i64 %threads",
    )
