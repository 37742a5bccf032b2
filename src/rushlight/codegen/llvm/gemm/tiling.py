"""Decides in a call, for its sizes, how a matrix product is divided into macro tiles and parts of k.

`rushlight.ir.gemm_tile.plan_tiles` makes the same decision in Python, for reading and for tests.
"""

from __future__ import annotations

import functools

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.ir.gemm_tile import ADD_UP_STEPS, PARTS_PER_THREAD, SMALLEST_TASK, GemmTile
from rushlight.ir.kernel import TASK_ARGS


def emit_plan(tile: GemmTile, name: str, *, scratch: bool = False, split_k: bool = False) -> str:
    """Emits `i64 @name(args, batches, threads)`: sets the last words of a task's arguments, returns its tasks.

    It reads m, n and k there and takes about a microsecond.
    """
    return _plan_text(tile, SMALLEST_TASK, scratch, split_k).replace("@PLAN", f"@{name}")


@functools.lru_cache(maxsize=64)
def _plan_text(tile: GemmTile, smallest_task: int, scratch: bool, split_k: bool) -> str:
    """The text of the function `@PLAN`. The products of a model share a few tiles, so most of them only rename it."""
    name = "PLAN"
    texts = (_emit_ceildiv(name), _emit_even(name), _emit_share(tile, name))
    return "\n".join((*texts, _Plan(tile, name, smallest_task, scratch=scratch, split_k=split_k).emit()))


def _emit_ceildiv(name: str) -> str:
    """Emits `size / part`, rounded up, of positive numbers."""
    code = FunctionBuilder(f"define internal i64 @{name}_ceildiv(i64 %size, i64 %part)")
    quotient = code.let("quotient", f"udiv i64 {code.let('less', 'sub i64 %size, 1')}, %part")
    return code.finish(f"i64 {code.let('parts', f'add i64 {quotient}, 1')}")


def _emit_even(name: str) -> str:
    """Emits the size of parts, a multiple of `unit`, that cut `size` evenly, each about `limit` at most."""
    code = FunctionBuilder(f"define internal i64 @{name}_even(i64 %size, i64 %limit, i64 %unit)")
    most = code.maximum("most", "%limit", "%unit")
    parts = _ceildiv(code, name, "parts", "%size", most)
    units = _ceildiv(code, name, "units", "%size", code.let("part_units", f"mul i64 {parts}, %unit"))
    return code.finish(f"i64 {code.let('even', f'mul i64 {units}, %unit')}")


def _ceildiv(code: FunctionBuilder, name: str, result: str, size: int | str, part: int | str) -> str:
    return code.let(result, f"call i64 @{name}_ceildiv(i64 {size}, i64 {part})")


def _emit_share(tile: GemmTile, name: str) -> str:
    """Emits the largest share of a thread: rows by columns of its macro tiles, and the packing before each of them.

    Threads take tiles in turns. If one thread alone has a tile in the last turn, that may be a narrow tile.
    """
    sizes = "i64 %m, i64 %n, i64 %batches, i64 %threads"
    code = FunctionBuilder(f"define internal i64 @{name}_share({sizes}, i64 %rows, i64 %columns)")
    m_tiles = _ceildiv(code, name, "m_tiles", "%m", "%rows")
    n_tiles = _ceildiv(code, name, "n_tiles", "%n", "%columns")
    tasks = code.let("tasks", f"mul i64 {code.let('tiles', f'mul i64 {m_tiles}, {n_tiles}')}, %batches")
    high = code.let("high", f"add i64 {code.minimum('rows_real', '%rows', '%m')}, {tile.rows_before}")
    wide = code.minimum("wide", "%columns", "%n")
    wide_before = code.let("wide_before", f"add i64 {wide}, {tile.columns_before}")
    turns = _ceildiv(code, name, "turns", tasks, "%threads")
    last_turn = code.let("last_turn", f"urem i64 {code.let('others', f'sub i64 {tasks}, 1')}, %threads")
    is_single = code.is_zero("is_single", last_turn)
    absent = code.let("n_absent", f"sub i64 {code.let('n_padded', f'mul i64 {n_tiles}, {wide}')}, %n")
    saved = code.let("saved", f"select i1 {is_single}, i64 {absent}, i64 0")
    turns_wide = code.let("turns_wide", f"mul i64 {turns}, {wide_before}")
    share_wide = code.let("share_wide", f"sub i64 {turns_wide}, {saved}")
    return code.finish(f"i64 {code.let('share', f'mul i64 {share_wide}, {high}')}")


class _Plan:
    """The planning function. Methods refer to the values of earlier blocks by name."""

    def __init__(self, tile: GemmTile, name: str, smallest_task: int, *, scratch: bool, split_k: bool) -> None:
        self.tile = tile
        self.name = name
        self.smallest_task = smallest_task
        self.nc = tile.scratch_nc if scratch else tile.nc
        self.split_k = split_k
        self.code = FunctionBuilder(f"define i64 @{name}(ptr %args, i64 %batches, i64 %threads)")

    def emit(self) -> str:
        """The function's text."""
        code, tile = self.code, self.tile
        for arg in ("m", "n", "k"):
            code.load_word(arg, "%args", TASK_ARGS.index(arg))
        for arg in ("tile_m", "tile_n", "parts"):
            self.arg_address(arg)
        code.store("i64", 1, "%parts_word", 8)
        size = code.let("size", f"mul i64 {code.let('mn', 'mul i64 %m, %n')}, %batches")
        code.branch(code.is_zero("empty", size), "nothing", "start")
        code.block("nothing")
        self.store_tile(tile.mr, tile.nr)
        code.do("ret i64 0")
        code.block("start")
        rows = self.even("rows_start", "m", tile.mc, tile.mr)
        columns = self.even("columns_start", "n", self.nc, tile.nr)
        code.branch(code.let("is_serial", "icmp sle i64 %threads, 1"), "done", "search")
        code.block("search")
        self.halve_tiles(rows, columns)
        code.block("done")
        best_rows = code.phi("rows_best", "i64", (rows, "start"), ("%rows_least", "try"))
        best_columns = code.phi("columns_best", "i64", (columns, "start"), ("%columns_least", "try"))
        if self.split_k:
            self.consider_split_k(rows, columns)
        self.store_tile(best_rows, best_columns)
        m_tiles = self.ceildiv("m_tiles", "%m", best_rows)
        n_tiles = self.ceildiv("n_tiles", "%n", best_columns)
        tiles = code.let("tiles", f"mul i64 {m_tiles}, {n_tiles}")
        return code.finish(f"i64 {code.let('tasks', f'mul i64 {tiles}, %batches')}")

    def arg_address(self, arg: str) -> str:
        """The address of one of the task's arguments."""
        return self.code.address(f"{arg}_word", "i64", "%args", TASK_ARGS.index(arg))

    def store_tile(self, rows: int | str, columns: int | str) -> None:
        """Stores the size of the macro tiles."""
        self.code.store("i64", rows, "%tile_m_word", 8)
        self.code.store("i64", columns, "%tile_n_word", 8)

    def even(self, result: str, dim: str, limit: int | str, unit: int) -> str:
        """Calls the function of `_emit_even` for one dim of the product."""
        return self.code.let(result, f"call i64 @{self.name}_even(i64 %{dim}, i64 {limit}, i64 {unit})")

    def ceildiv(self, result: str, size: int | str, part: int | str) -> str:
        """Calls the function of `_emit_ceildiv`."""
        return _ceildiv(self.code, self.name, result, size, part)

    def share(self, result: str, rows: str, columns: str) -> str:
        """Calls the function of `_emit_share` for macro tiles of a size."""
        sizes = "i64 %m, i64 %n, i64 %batches, i64 %threads"
        return self.code.let(result, f"call i64 @{self.name}_share({sizes}, i64 {rows}, i64 {columns})")

    def halve_tiles(self, rows: str, columns: str) -> None:
        """Halves rows or columns of the tiles, whichever costs less, and remembers the best size so far.

        It stops as soon as a share is within a sixteenth of the ideal, or a tile would be too little work for a task.
        """
        code, tile = self.code, self.tile
        least = self.share("least_start", rows, columns)
        m_before = code.let("m_before", f"add i64 %m, {tile.rows_before}")
        n_before = code.let("n_before", f"add i64 %n, {tile.columns_before}")
        ideal = code.let("ideal", f"mul i64 {code.let('mn_before', f'mul i64 {m_before}, {n_before}')}, %batches")
        enough = code.let("enough", f"mul i64 {ideal}, 16")
        weight = code.let("weight", "mul i64 %threads, 15")
        code.jump("try")
        code.block("try")
        starts = {"rows": rows, "columns": columns, "rows_least": rows, "columns_least": columns, "least": least}
        for name, start in starts.items():
            code.phi(name, "i64", (start, "search"), (f"%{name}_next", "halve"))
        is_good = code.let("is_good", f"icmp ule i64 {code.let('spent', f'mul i64 {weight}, %least')}, {enough}")
        real = (code.minimum("rows_real", "%rows", "%m"), code.minimum("columns_real", "%columns", "%n"))
        work = code.let("work", f"mul i64 {code.let('area', f'mul i64 {real[0]}, {real[1]}')}, %k")
        is_small = code.let("is_small", f"icmp slt i64 {work}, {self.smallest_task}")
        many_rows = code.let("many_rows", f"icmp sgt i64 %rows, {tile.mr}")
        many_columns = code.let("many_columns", f"icmp sgt i64 %columns, {tile.nr}")
        is_smallest = code.let("is_smallest", f"xor i1 {code.let('many', f'or i1 {many_rows}, {many_columns}')}, true")
        no_halves = code.let("no_halves", f"or i1 {is_small}, {is_smallest}")
        code.branch(code.let("is_found", f"or i1 {is_good}, {no_halves}"), "done", "halve")
        code.block("halve")
        self.halve_once(many_rows, many_columns)
        code.jump("try")

    def halve_once(self, many_rows: str, many_columns: str) -> None:
        """Halves the rows or the columns of the present tile."""
        code, tile = self.code, self.tile
        fewer_rows = self.even("rows_fewer", "m", code.let("rows_half", "lshr i64 %rows, 1"), tile.mr)
        fewer_columns = self.even("columns_fewer", "n", code.let("columns_half", "lshr i64 %columns, 1"), tile.nr)
        by_rows = self.share("by_rows", fewer_rows, "%columns")
        by_columns = self.share("by_columns", "%rows", fewer_columns)
        is_wide = code.let("is_wide", f"icmp sge i64 %columns, {code.let('rows_twice', 'shl i64 %rows, 1')}")
        is_same = code.let("is_same", f"icmp eq i64 {by_columns}, {by_rows}")
        is_less = code.let("is_less", f"icmp ult i64 {by_columns}, {by_rows}")
        same_and_wide = code.let("same_and_wide", f"and i1 {is_same}, {is_wide}")
        is_better = code.let("is_better", f"or i1 {is_less}, {same_and_wide}")
        few_rows = code.let("few_rows", f"xor i1 {many_rows}, true")
        prefers_columns = code.let("prefers_columns", f"or i1 {is_better}, {few_rows}")
        by_column = code.let("halves_columns", f"and i1 {many_columns}, {prefers_columns}")
        rows = code.let("rows_next", f"select i1 {by_column}, i64 %rows, i64 {fewer_rows}")
        columns = code.let("columns_next", f"select i1 {by_column}, i64 {fewer_columns}, i64 %columns")
        share = code.let("share_next", f"select i1 {by_column}, i64 {by_columns}, i64 {by_rows}")
        is_least = code.let("is_least", f"icmp ule i64 {share}, %least")
        code.let("rows_least_next", f"select i1 {is_least}, i64 {rows}, i64 %rows_least")
        code.let("columns_least_next", f"select i1 {is_least}, i64 {columns}, i64 %columns_least")
        code.let("least_next", f"select i1 {is_least}, i64 {share}, i64 %least")

    def consider_split_k(self, rows: str, columns: str) -> None:
        """Returns tasks of large tiles and parts of k, if that costs less and there is memory for the sums."""
        code, tile = self.code, self.tile
        least = code.phi("share_best", "i64", (0, "start"), ("%least", "try"))
        sums_step = code.load("sums_step", "i64", self.arg_address("sums_step"), 8)
        no_sums = code.is_zero("no_sums", sums_step)
        code.branch(code.let("no_parts", f"or i1 %is_serial, {no_sums}"), "tiled", "part")
        code.block("part")
        high = code.let("high", f"add i64 {code.minimum('rows_high', rows, '%m')}, {tile.rows_before}")
        wide = code.let("wide", f"add i64 {code.minimum('columns_wide', columns, '%n')}, {tile.columns_before}")
        block_work = code.let("block_work", f"mul i64 {code.let('high_wide', f'mul i64 {high}, {wide}')}, {tile.kc}")
        m_tiles = self.ceildiv("m_large", "%m", rows)
        n_tiles = self.ceildiv("n_large", "%n", columns)
        large = code.let("large", f"mul i64 {code.let('mn_large', f'mul i64 {m_tiles}, {n_tiles}')}, %batches")
        blocks = self.ceildiv("blocks", "%k", tile.kc)
        all_blocks = code.let("all_blocks", f"mul i64 {blocks}, {large}")
        wanted = code.let("parts_wanted", f"mul i64 %threads, {PARTS_PER_THREAD}")
        part_share = self.ceildiv("part_share", all_blocks, wanted)
        part_least = self.ceildiv("part_least", self.smallest_task, block_work)
        part_blocks = code.maximum("part_blocks", part_share, part_least)
        parts = self.ceildiv("parts", blocks, part_blocks)
        tasks = code.let("part_tasks", f"mul i64 {parts}, {large}")
        turns = self.ceildiv("part_turns", tasks, "%threads")
        turn_blocks = code.let("turn_blocks", f"mul i64 {turns}, {part_blocks}")
        turns_work = code.let("turns_work", f"mul i64 {turn_blocks}, {block_work}")
        stored = code.let("sums_stored", f"mul i64 %size, {blocks}")
        sums_work = code.let("sums_work", f"mul i64 {stored}, {ADD_UP_STEPS}")
        parts_work = code.let("parts_work", f"add i64 {turns_work}, {sums_work}")
        tiles_work = code.let("tiles_work", f"mul i64 {least}, %k")
        code.branch(code.let("pays", f"icmp ult i64 {parts_work}, {tiles_work}"), "parted", "tiled")
        code.block("parted")
        code.store("i64", parts, "%parts_word", 8)
        part_steps = code.let("part_steps", f"mul i64 {part_blocks}, {tile.kc}")
        code.store("i64", part_steps, self.arg_address("part_steps"), 8)
        self.store_tile(rows, columns)
        sums = code.load("sums", "ptr", self.arg_address("sums"), 8)
        with code.loop("clear", "counter", large, after="cleared") as clear:
            code.store("i32", 0, code.address("counter_at", tile.element, sums, clear.index), 4)
        code.do(f"ret i64 {tasks}")
        code.block("tiled")
