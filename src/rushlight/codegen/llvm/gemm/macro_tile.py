"""Matrix products: the core that computes a macro tile, and the task that a thread pool runs.

The core works over all of k: blocks of k outermost, then panels of columns, then panels of rows. A panel of `b`, 256 x
`nr` elements, thus stays in the nearest caches for all rows of the tile. One row, or one column, is left to `gemv`, and
a few columns at a panel's end to `narrow`. The core has no epilogue and depends on its `GemmTile` alone, so one
compiled core serves eager and compiled code. An epilogue is a function that the task calls on each finished tile, while
the tile is in the cache. `rushlight.ir.gemm_tile` says how operands lie in memory.
"""

from __future__ import annotations

import functools

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.codegen.llvm.gemm.gemv import branch_to_gemv, emit_gemv
from rushlight.codegen.llvm.gemm.micro_kernel import (
    PARAMETERS,
    edge_kernels,
    edge_rows,
    emit_micro,
    full_kernel,
    part_kernels,
    reads_in_place,
)
from rushlight.codegen.llvm.gemm.narrow import emit_narrow, most_narrow
from rushlight.codegen.llvm.gemm.packing import emit_compensation, emit_pack_a_block, emit_pack_b_panel
from rushlight.codegen.llvm.gemm.split_k import emit_reduce_partials, split_k_product
from rushlight.ir.gemm_tile import MADE_AROUND, GemmTile
from rushlight.ir.kernel import TASK_ARGS
from rushlight.ir.target import Target

_CORE_TYPES = "ptr, ptr, ptr, i64, i64, i64, i64, i64, i64"
# Arguments of a micro-kernel in an edge, after `a`, `b` and `c`.
_EDGE_ARGUMENTS = "i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, ptr %prefetch, i64 %prefetch_step"


def emit_core(tile: GemmTile, name: str, linkage: str = "") -> str:
    """Emits the core `void @name(a, b, c, a_ld, b_ld, ldc, m, n, k)` and the functions that it calls.

    It computes `c[i * ldc + j]` for i in [0, m) and j in [0, n) over all of k, +0.0 where k = 0. `a` and `b` point to
    the tile's elements (0, 0); if `b` is made, it points to the function, its arguments, the batch, and the first
    column and step of k. `a_ld` is the number M of rows of the whole operand in the packed format "row", the stride of
    an `a` that is not packed, else unused; `b_ld` is the stride of a `b` that is not packed, else unused. `m` is at
    most `mc` if `a` is not packed; else any sizes are right, and those of a macro tile are fast.
    """
    kernels = (full_kernel(tile), *part_kernels(tile), *edge_kernels(tile))
    texts = [emit_micro(kernel, f"{name}_{kernel.name}") for kernel in kernels]
    texts += [_emit_edge(tile, name), emit_gemv(tile, name)]
    if most_narrow(tile):
        texts.append(emit_narrow(tile, f"{name}_narrow"))
    if not tile.a_packed:
        texts.append(emit_pack_a_block(tile, f"{name}_pack_a"))
    if not (tile.b_packed or tile.makes_packed):
        texts.append(emit_pack_b_panel(tile, f"{name}_pack_b", transposed=tile.b_format == "column"))
    if tile.is_offset:
        texts.append(emit_compensation(tile, f"{name}_compensation"))
    return "\n".join((*texts, _Core(tile, name, linkage).emit()))


def declare_core(name: str) -> str:
    """IR that declares a core which another module defines."""
    return f"declare void @{name}({_CORE_TYPES})\n"


class _Core:
    """The core's function. Methods refer to the values of the loops around them by name."""

    def __init__(self, tile: GemmTile, name: str, linkage: str) -> None:
        pointers = "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c"
        parameters = f"{pointers}, i64 %a_ld, i64 %b_ld, i64 %ldc, i64 %m, i64 %n, i64 %k"
        self.tile = tile
        self.name = name
        self.code = FunctionBuilder(
            f"define {linkage}{' ' * bool(linkage)}void @{name}({parameters}) {tile.attributes}"
        )
        self.b_at = "%b_at"
        self.b_stride: int | str = tile.nr

    def emit(self) -> str:
        """The function's text."""
        code, tile = self.code, self.tile
        self.allocate()
        no_m = code.let("no_m", "icmp sle i64 %m, 0")
        no_n = code.let("no_n", "icmp sle i64 %n, 0")
        code.branch(code.let("empty", f"or i1 {no_m}, {no_n}"), "exit", "some")
        code.block("some")
        branch_to_gemv(code, tile, self.name, _a_per_k(tile))
        with code.loop("block", "k0", "%k", step=tile.kc, after="exit") as block:
            self.begin_block(block.index)
            with code.loop("column", "j", "%n", step=tile.nr, after="block_end") as column:
                self.begin_panel(column.index, column.advance(), column.test())
                no_wide = code.is_zero("no_wide", "%columns_wide") if most_narrow(tile) else ""
                with code.loop("row", "i", "%m", step=tile.mr, skip=no_wide, after="rows_end") as row:
                    self.compute_rows(row.index, row.advance())
                if most_narrow(tile):
                    with code.when("%is_narrow", "narrow", "column_end"):
                        self.compute_narrow_columns()
        return code.finish()

    def allocate(self) -> None:
        """The core's own memory for operands that it packs, and the question whether `b` is used in place."""
        code, tile = self.code, self.tile
        if not tile.a_packed:
            code.let("a_block", f"alloca [{tile.mc * tile.block_steps} x {tile.element}], align 64")
        if not tile.b_packed:
            self.allocate_panel("b_panel", tile.panel_elements, tile.nr if tile.makes_packed else 0, tile.element)
        if tile.b_made:
            code.load("panel", "ptr", "%b", 8)
            code.load_word("made_args", "%b", 1, "ptr")
            code.load_word("batch", "%b", 2)
            code.load_word("first_column", "%b", 3)
            code.load_word("first_step", "%b", 4)
            if not tile.makes_packed:
                step = tile.nr if tile.b_format == "row" else 0
                self.allocate_panel("b_made", tile.nr * tile.kc, step, tile.source)
        if reads_in_place(tile):
            # Few rows meet each element of b so seldom that packing it would cost more than it saves.
            code.let("in_place", f"icmp sle i64 %m, {2 * tile.mr}")

    def allocate_panel(self, name: str, elements: int, step: int, element: str) -> None:
        """Memory of a panel, with room on both sides for `MADE_AROUND` steps that nobody asked for."""
        room = step * MADE_AROUND
        memory = self.code.let(f"{name}_memory", f"alloca [{elements + 2 * room} x {element}], align 64")
        self.code.address(name, element, memory, room)

    def begin_block(self, k0: str) -> None:
        """Starts a block of k: its steps, its part of `a`, packed if need be, and its part of `b`."""
        code, tile = self.code, self.tile
        code.is_zero("first", k0)
        steps = code.minimum("steps", code.let("k_left", f"sub i64 %k, {k0}"), tile.kc)
        rounded = code.let("steps_rounded", f"add i64 {steps}, {tile.group - 1}")
        groups = code.let("groups", f"udiv i64 {rounded}, {tile.group}")
        code.let("steps_full", f"icmp uge i64 {groups}, {tile.unroll}")
        if tile.a_packed:
            code.row("a_block", tile.element, "%a", k0, _a_per_k(tile))
        else:
            a_from = code.row("a_from", tile.source, "%a", k0, _a_per_k(tile))
            code.do(f"call void @{self.name}_pack_a(ptr %a_block, ptr {a_from}, i64 %a_ld, i64 %m, i64 {steps})")
        element, b_per_k = _operand(tile, tile.b_packed), _b_per_k(tile)
        b_block = code.row("b_block", element, "%b", k0, b_per_k)
        code.row("b_block_next", element, b_block, tile.kc, b_per_k)
        code.let("b_step_bytes", f"mul i64 {b_per_k}, {tile.itemsize if tile.b_packed else tile.source_bytes}")

    def begin_panel(self, j: str, j_next: str, more_columns: str) -> None:
        """Starts a panel of columns: how many there are, where they lie in `b` and `c`, and the next panel of `b`."""
        code, tile = self.code, self.tile
        columns = code.minimum("columns", code.let("columns_left", f"sub i64 %n, {j}"), tile.nr)
        wide = self.split_off_narrow_columns(columns)
        columns_full = code.let("columns_full", f"icmp eq i64 {wide}, {tile.nr}")
        code.let("inside", f"and i1 %steps_full, {columns_full}")
        element, b_per_n = _operand(tile, tile.b_packed), _b_per_n(tile)
        self.provide_panel(code.row("b_from", element, "%b_block", j, b_per_n), columns)
        beside = code.row("b_beside", element, "%b_block", j_next, b_per_n)
        code.let("b_next", f"select i1 {more_columns}, ptr {beside}, ptr %b_block_next")
        code.address("c_column", tile.element, "%c", j)

    def split_off_narrow_columns(self, columns: str) -> str:
        """The columns that micro-kernels compute. The last few of a panel are left to `narrow`, if it takes them."""
        code, tile = self.code, self.tile
        if not most_narrow(tile):
            return columns
        less = code.let("columns_less", f"sub i64 {columns}, 1")
        rest = code.let("columns_rest", f"urem i64 {less}, {tile.lanes}")
        is_narrow = code.let("is_narrow", f"icmp slt i64 {rest}, {most_narrow(tile)}")
        before = code.let("columns_before", f"sub i64 {less}, {rest}")
        return code.let("columns_wide", f"select i1 {is_narrow}, i64 {before}, i64 {columns}")

    def provide_panel(self, b_from: str, columns: str) -> None:
        """Brings a panel of `b` into the layout that micro-kernels read: in place, packed, or made and packed."""
        code, tile = self.code, self.tile
        if tile.b_packed:
            self.b_at = b_from
            return
        self.b_at = "%b_panel"
        pack = f"call void @{self.name}_pack_b(ptr %b_panel, ptr"
        size = f"i64 {columns}, i64 %steps)"
        if tile.b_made:
            made = "%b_panel" if tile.makes_packed else "%b_made"
            column = code.let("made_column", "add i64 %first_column, %j")
            step = code.let("made_step", "add i64 %first_step, %k0")
            start = f"i64 %batch, i64 {step}, i64 {column}"
            code.do(f"call void %panel(ptr %made_args, ptr {made}, {start}, i64 %steps, i64 {columns})")
            if not tile.makes_packed:
                code.do(f"{pack} {made}, i64 {tile.made_ld}, {size}")
        elif reads_in_place(tile):
            before = code.label
            with code.unless("%in_place", "pack_b", "ready"):
                code.do(f"{pack} {b_from}, i64 %b_ld, {size}")
            self.b_at = code.phi("b_at", "ptr", (b_from, before), ("%b_panel", "pack_b"))
            self.b_stride = code.phi("b_stride", "i64", ("%b_ld", before), (tile.nr, "pack_b"))
        else:
            code.do(f"{pack} {b_from}, i64 %b_ld, {size}")
        if tile.is_offset:
            code.do(f"call void @{self.name}_compensation(ptr %b_panel, i64 %groups)")

    def compute_rows(self, i: str, i_next: str) -> None:
        """Computes a panel of rows of a panel of columns, by the full micro-kernel or by those for edges."""
        code, tile = self.code, self.tile
        code.row("a_at", tile.element, "%a_block", i, _a_per_m(tile))
        code.row("c_at", tile.element, "%c_column", i, "%ldc")
        rows = code.minimum("rows", code.let("rows_left", f"sub i64 %m, {i}"), tile.mr)
        rows_full = code.let("rows_full", f"icmp eq i64 {rows}, {tile.mr}")
        full = code.let("full", f"and i1 {rows_full}, %inside")
        line, step = self.choose_prefetch(i, i_next)
        arguments = f"ptr %a_at, ptr {self.b_at}, ptr %c_at, i64 {self.b_stride}, i64 %ldc, i64 %groups, i1 %first, "
        arguments += f"ptr {line}, i64 {step}"
        wide = "%columns_wide" if most_narrow(tile) else "%columns"
        code.branch(full, "micro", "edge")
        code.block("micro")
        code.do(f"call void @{self.name}_full({arguments})")
        code.jump("row_end")
        code.block("edge")
        code.do(f"call void @{self.name}_edge({arguments}, i64 {rows}, i64 {wide})")
        code.jump("row_end")
        code.block("row_end")

    def choose_prefetch(self, i: str, i_next: str) -> tuple[str, str]:
        """What the micro-kernel prefetches: an address and the bytes by which it advances in each step.

        With the first rows it is the next panel of `b`, which hardware does not foresee: 6 % of the whole at sizes over
        512, and half of it with few rows. In the first panel of columns it is the next panel of rows of a packed `a`,
        which is new to the cache. Otherwise a step of 0 repeats a line that is in the cache.
        """
        code, tile = self.code, self.tile
        has_next_b = not (tile.b_made or (not tile.b_packed and tile.b_format == "column"))
        wants_b = code.let("wants_b", f"icmp eq i64 {i}, {0 if has_next_b else -1}")
        line, step = self.b_at, "0"
        if tile.a_packed:
            wants_a = code.is_zero("wants_a", "%j")
            a_next = code.row("a_next", tile.element, "%a_block", i_next, _a_per_m(tile))
            line = code.let("line_of_a", f"select i1 {wants_a}, ptr {a_next}, ptr {self.b_at}")
            step = code.let("step_of_a", f"select i1 {wants_a}, i64 {Target.LINE_BYTES}, i64 0")
        return (
            code.let("prefetch", f"select i1 {wants_b}, ptr %b_next, ptr {line}"),
            code.let("prefetch_step", f"select i1 {wants_b}, i64 %b_step_bytes, i64 {step}"),
        )

    def compute_narrow_columns(self) -> None:
        """Computes the last few columns: whole panels of rows by `narrow`, the rows that remain by edge kernels."""
        code, tile, name = self.code, self.tile, self.name
        b = code.address("b_rest", tile.element, self.b_at, "%columns_wide")
        c = code.address("c_rest", tile.element, "%c_column", "%columns_wide")
        a_panel = code.let("a_panel", f"mul i64 {_a_per_m(tile)}, {tile.mr}")
        columns = code.let("columns_narrow", "sub i64 %columns, %columns_wide")
        panels = code.let("panels_full", f"udiv i64 %m, {tile.mr}")
        block = f"i64 {self.b_stride}, i64 %ldc, i64 %groups, i1 %first"
        operands = f"ptr %a_block, i64 {a_panel}, ptr {b}, ptr {c}"
        code.do(f"call void @{name}_narrow({operands}, {block}, i64 {panels}, i64 {columns})")
        rows_done = code.let("rows_done", f"mul i64 {panels}, {tile.mr}")
        rows = code.let("rows_rest", f"sub i64 %m, {rows_done}")
        code.branch(code.is_zero("no_rows_rest", rows), "column_end", "corner")
        code.block("corner")
        a = code.row("a_corner", tile.element, "%a_block", rows_done, _a_per_m(tile))
        c = code.row("c_corner", tile.element, c, rows_done, "%ldc")
        arguments = f"ptr {a}, ptr {b}, ptr {c}, {block}, ptr {self.b_at}, i64 0, i64 {rows}, i64 {columns}"
        code.do(f"call void @{name}_edge({arguments})")


def _b_per_k(tile: GemmTile) -> int | str:
    """Elements by which a step along k moves the start of a block of `b`."""
    if tile.b_made:
        return 0
    if tile.b_packed:
        return tile.nr
    return "%b_ld" if tile.b_format == "row" else 1


def _b_per_n(tile: GemmTile) -> int | str:
    """Elements by which a column moves the start of a panel of `b`."""
    if tile.b_made:
        return 0
    if tile.b_packed:
        return "%k"
    return 1 if tile.b_format == "row" else "%b_ld"


def _a_per_k(tile: GemmTile) -> int | str:
    """Elements by which a step along k moves the start of a block of `a`."""
    if tile.a_format == "row":
        return "%a_ld" if tile.a_packed else 1
    return tile.mr if tile.a_packed else "%a_ld"


def _a_per_m(tile: GemmTile) -> int | str:
    """Elements by which a row moves the start of a panel in a block of `a` that is packed."""
    return "%k" if tile.a_format == "column" and tile.a_packed else tile.block_steps


def _operand(tile: GemmTile, packed: bool) -> str:
    """The LLVM type in which an operand is addressed."""
    return tile.element if packed else tile.source


def _a_tile_per_m(tile: GemmTile) -> int | str:
    """Elements by which a row moves the start of a macro tile in the whole operand `a`."""
    if tile.a_packed:
        return _a_per_m(tile)
    return "%a_ld" if tile.a_format == "row" else 1


def _emit_edge(tile: GemmTile, name: str) -> str:
    """Emits the internal function that covers any rows and columns up to a full tile with edge kernels.

    The kernel of the fewest rows takes as many as fit it, that of the most rows takes the others, piece by piece.
    """
    parameters = f"{PARAMETERS}, i64 %rows, i64 %columns"
    code = FunctionBuilder(f"define internal void @{name}_edge({parameters}) noinline {tile.attributes}")
    column = code.let("column", "sub i64 %columns, 1")
    vector = code.let("vector", f"udiv i64 {column}, {tile.lanes}")
    before = code.let("before", f"mul i64 {vector}, {tile.lanes}")
    last = code.let("last", f"sub i64 %columns, {before}")
    _branch_to_part_kernels(code, tile, name, vector)
    few, many = edge_rows(tile)
    with code.loop("piece", "row", "%rows", step="%most", after="exit") as piece:
        rows_left = code.let("rows_left", f"sub i64 %rows, {piece.index}")
        is_few = code.let("is_few", f"icmp sle i64 {rows_left}, {few}")
        most = code.let("most", f"select i1 {is_few}, i64 {few}, i64 {many}")
        rows = code.minimum("piece_rows", rows_left, most)
        a_at = code.row("a_at", tile.element, "%a", piece.index, tile.block_steps if tile.a_format == "row" else 1)
        c_at = code.row("c_at", tile.element, "%c", piece.index, "%ldc")
        kernel = code.let("kernel", f"select i1 {is_few}, i64 0, i64 {tile.vectors}")
        number = code.let("number", f"add i64 {kernel}, {vector}")
        kernels = edge_kernels(tile)
        code.switch(number, "never", {index: kernel.name for index, kernel in enumerate(kernels)})
        code.block("never")
        code.do("unreachable")
        arguments = f"ptr {a_at}, ptr %b, ptr {c_at}, {_EDGE_ARGUMENTS}, i64 {rows}, i64 {last}"
        for kernel in kernels:
            code.block(kernel.name)
            code.do(f"call void @{name}_{kernel.name}({arguments})")
            code.jump("piece_end")
        code.block("piece_end")
    return code.finish()


def _branch_to_part_kernels(code: FunctionBuilder, tile: GemmTile, name: str, vector: str) -> None:
    """Calls the full kernel for fewer vectors, if it fits the edge; else goes on to `pieces`."""
    kernels = part_kernels(tile)
    rows_all = code.let("rows_all", f"icmp eq i64 %rows, {tile.mr}")
    steps_full = code.let("steps_full", f"icmp uge i64 %steps, {tile.unroll}")
    is_part = code.let("is_part", f"and i1 {rows_all}, {steps_full}")
    part = code.let("part", f"select i1 {is_part}, i64 {vector}, i64 {tile.vectors}")
    code.switch(part, "pieces", {kernel.vectors - 1: kernel.name for kernel in kernels})
    for kernel in kernels:
        code.block(kernel.name)
        code.do(f"call void @{name}_{kernel.name}(ptr %a, ptr %b, ptr %c, {_EDGE_ARGUMENTS}, i64 %last)")
        code.jump("exit")
    code.block("pieces")


_POINTERS = ("a", "b", "c", "sums")


def emit_task(
    tile: GemmTile,
    name: str,
    core: str,
    epilogue: str | None = None,
    *,
    scratch: bool = False,
    panel: str | None = None,
    split_k: bool = False,
) -> str:
    """Emits the kernel `void @name(args, begin, end)`: macro tiles [begin, end) of a batch of products.

    Tiles are numbered `(batch * n_tiles + n_tile) * m_tiles + m_tile`. The arguments begin with `TASK_ARGS`; if `a` has
    the packed format "column", `tile_m` is a multiple of `mr`, and if `b` is packed, `tile_n` is a multiple of `nr`.
    Tiles have at most `mc` rows if the core packs `a`, and at most `mc` x `scratch_nc` elements with `scratch`.

    With an `epilogue`, the task calls the function `void @epilogue(args, tile, tile_ld, batch, m0, n0, rows, columns)`
    on each finished tile, `tile[i * tile_ld + j]`. The tile is in `c`, or with `scratch` on the task's stack, in `mc *
    scratch_nc` elements; the task then does not write `c`.

    If `b` is made, `void @panel(args, to, batch, k0, n0, steps, columns)` writes its elements (k0, n0) and so on, as
    many as requested, to `to[t * made_ld + j]`, or to `to[t + j * made_ld]` in the format "column". In "row" it may
    write up to `MADE_AROUND` steps before and after these as well.

    With `split_k` a tile may have several tasks, `(tile number) * parts + part`; each computes the blocks of its part
    of k (`split_k`).
    """
    text = _task_text(tile, core, epilogue is not None, scratch, split_k)
    return text.replace("@TASK", f"@{name}").replace("@EPILOGUE", f"@{epilogue}").replace("@PANEL", f"@{panel}")


@functools.lru_cache(maxsize=64)
def _task_text(tile: GemmTile, core: str, has_epilogue: bool, scratch: bool, split_k: bool) -> str:
    """The text of the task `@TASK`. The products of a model share a few tiles, so most of them only rename it."""
    code = FunctionBuilder(f"define void @TASK(ptr %args, i64 %begin, i64 %end) {tile.attributes}")
    for index, arg in enumerate(TASK_ARGS):
        code.load_word(arg, "%args", index, "ptr" if arg in _POINTERS else "i64")
    for dim in ("m", "n"):
        before = code.let(f"{dim}_before", f"sub i64 %{dim}, 1")
        less = code.let(f"{dim}_less", f"udiv i64 {before}, %tile_{dim}")
        code.let(f"{dim}_tiles", f"add i64 {less}, 1")
    if tile.b_made:
        code.let("b_at", "alloca [5 x i64], align 8")
        for index, field in enumerate(_MADE_FIELDS, 1):
            code.address(f"made_{field}", "i64", "%b_at", index)
    if scratch:
        code.let("c_at", f"alloca [{tile.mc * tile.scratch_nc} x {tile.element}], align 64")
    code.branch(code.let("some", "icmp slt i64 %begin, %end"), "task", "exit")
    with code.loop("task", "index", "%end", start="%begin", before="entry", after="exit") as task:
        ldc = "%tile_n" if scratch else "%ldc"
        _locate_tile(code, tile, task.index, scratch=scratch, split_k=split_k)
        call = f"call void @{core}(ptr %a_at, ptr %b_at, ptr %c_at, i64 %a_ld, i64 %b_ld, i64 {ldc}, "
        call += "i64 %rows, i64 %columns, i64 %k)"
        if split_k:
            operands = (_operand(tile, tile.a_packed), _operand(tile, tile.b_packed))
            steps = (_a_per_k(tile), _b_per_k(tile))
            split_k_product(code, tile, ("TASK", core), call, ldc, operands, steps)
        else:
            code.do(call)
        if has_epilogue:
            tile_arguments = f"ptr %args, ptr %c_at, i64 {ldc}, i64 %batch, i64 %m0, i64 %n0"
            code.do(f"call void @EPILOGUE({tile_arguments}, i64 %rows, i64 %columns)")
        if split_k:
            code.jump("next")
            code.block("next")
    text = code.finish()
    return emit_reduce_partials(tile, "TASK") + text if split_k else text


# What `%b` points to if it is made, after the function.
_MADE_FIELDS = ("args", "batch", "column", "step")


def _locate_tile(code: FunctionBuilder, tile: GemmTile, index: str, *, scratch: bool, split_k: bool) -> None:
    """Defines the position and size of a task's macro tile, and `%a_at`, `%b_at` and `%c_at`."""
    number = index
    if split_k:
        code.let("part", f"urem i64 {index}, %parts")
        number = code.let("tile", f"udiv i64 {index}, %parts")
    rest = code.let("rest", f"udiv i64 {number}, %m_tiles")
    m_tile = code.let("m_tile", f"urem i64 {number}, %m_tiles")
    code.let("batch", f"udiv i64 {rest}, %n_tiles")
    n_tile = code.let("n_tile", f"urem i64 {rest}, %n_tiles")
    code.let("outer", "udiv i64 %batch, %inner_batches")
    code.let("inner", "urem i64 %batch, %inner_batches")
    code.let("m0", f"mul i64 {m_tile}, %tile_m")
    code.let("n0", f"mul i64 {n_tile}, %tile_n")
    m_left = code.let("m_left", "sub i64 %m, %m0")
    n_left = code.let("n_left", "sub i64 %n, %n0")
    code.minimum("rows", m_left, "%tile_m")
    code.minimum("columns", n_left, "%tile_n")
    first = _first_of_batch(code, "a")
    start = code.let("a_start", f"mul i64 %m0, {_a_tile_per_m(tile)}")
    code.address("a_at", _operand(tile, tile.a_packed), "%a", code.let("a_index", f"add i64 {first}, {start}"))
    if tile.b_made:
        code.store("ptr", "@PANEL", "%b_at", 8)
        for field, value in zip(_MADE_FIELDS, ("ptr %args", "i64 %batch", "i64 %n0", "i64 0"), strict=True):
            code.do(f"store {value}, ptr %made_{field}, align 8")
    else:
        first = _first_of_batch(code, "b")
        start = code.let("b_start", f"mul i64 %n0, {_b_per_n(tile)}")
        code.address("b_at", _operand(tile, tile.b_packed), "%b", code.let("b_index", f"add i64 {first}, {start}"))
    if not scratch:
        first = _first_of_batch(code, "c")
        start = code.let("c_start", f"add i64 {code.let('c_row', 'mul i64 %m0, %ldc')}, %n0")
        code.address("c_at", tile.element, "%c", code.let("c_index", f"add i64 {first}, {start}"))


def _first_of_batch(code: FunctionBuilder, operand: str) -> str:
    """The index of an operand's first element in the batch: batches have an outer and an inner stride."""
    outer = code.let(f"{operand}_outer_at", f"mul i64 %outer, %{operand}_batch")
    inner = code.let(f"{operand}_inner_at", f"mul i64 %inner, %{operand}_inner")
    return code.let(f"{operand}_first", f"add i64 {outer}, {inner}")
