"""Products with one row or one column (gemv): `b` is read once, in place, at the speed of memory.

A core calls one of these functions in place of its loops over panels. They read long runs of memory in order, a few
of them side by side, and keep each sum in the order `BLOCKED`: the bits are those of the micro-kernels.

An `a` of one row is any vector: element t of the block that starts at `k0` is `a[k0 * a_per_k + t * a_step]`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from rushlight.codegen.llvm.builder.function_builder import Carried, FunctionBuilder, Loop
from rushlight.codegen.llvm.gemm.transpose import (
    load_column_start,
    store_column_starts,
    transpose,
    transpose_pieces,
)
from rushlight.codegen.llvm.gemm.vectors import (
    broadcast,
    lane_mask,
    load_packed,
    load_vector,
    multiply_add,
    store_vector,
    sum_vectors,
)
from rushlight.ir.gemm_tile import GemmTile

# Rows that are read side by side: 8 are 1.2 times as fast as 4, and those 1.3 times as fast as 2.
_ROWS_TOGETHER = 8
# Packed panels that are read side by side: two are 1.2 times as fast as one, and faster than one with prefetches.
_PANELS_TOGETHER = 2

_A_PARAMETERS = "ptr noalias readonly %a, i64 %a_per_k, i64 %a_step"


def _begin_block(code: FunctionBuilder, tile: GemmTile, block: Loop) -> str:
    """Defines `%a_block`, the address of a block of k in `a`; returns the block's number of steps."""
    left = code.let("k_left", f"sub i64 %k, {block.index}")
    steps = code.minimum("steps", left, tile.kc)
    block.test()
    code.row("a_block", tile.element, "%a", block.index, "%a_per_k")
    return steps


def _broadcast_at(code: FunctionBuilder, tile: GemmTile, name: str, address: str) -> str:
    """Loads an element and broadcasts it."""
    scalar = code.load(f"{name}_scalar", tile.element, address, tile.itemsize)
    return broadcast(code, sum_vectors(tile), name, scalar)


def _broadcast_a(code: FunctionBuilder, tile: GemmTile, name: str, step: str) -> str:
    """Loads the element of `a` of a step of the block and broadcasts it."""
    return _broadcast_at(code, tile, name, code.row(f"{name}_at", tile.element, "%a_block", step, "%a_step"))


def emit_columns(tile: GemmTile, name: str) -> str:
    """Emits `void @name(a, a_per_k, a_step, b, b_ld, c, c_step, n, k)`: `b` holds columns, transposed in registers.

    Element (k, n) is `b[n * b_ld + k]`, and results are stored `c_step` elements apart.
    """
    b = "ptr noalias readonly %b, i64 %b_ld"
    parameters = f"{_A_PARAMETERS}, {b}, ptr noalias %c, i64 %c_step, i64 %n, i64 %k"
    code = FunctionBuilder(f"define internal void @{name}({parameters}) noinline {tile.attributes}")
    code.let("results", f"alloca {tile.vector}, align 64")
    code.let("starts", f"alloca [{tile.lanes} x ptr], align 8")
    code.let("column_last", "sub i64 %n, 1")
    is_row = code.let("is_row", "icmp eq i64 %c_step, 1")
    with code.loop("group", "j", "%n", step=tile.lanes, after="exit") as group:
        store_column_starts(code, tile)
        total = (Carried("total", tile.vector, "zeroinitializer"),)
        with code.loop("block", "k0", "%k", step=tile.kc, carried=total, after="store") as block:
            steps = _begin_block(code, tile, block)
            block_sum = _sum_columns(code, tile, block.index, steps)
            block.next["total"] = code.let("total_next", f"fadd {tile.vector} {block.values['total']}, {block_sum}")
        left = code.let("columns_left", f"sub i64 %n, {group.index}")
        columns = code.minimum("columns", left, tile.lanes)
        c_at = code.row("c_at", tile.element, "%c", group.index, "%c_step")
        code.branch(is_row, "in_row", "in_column")
        code.block("in_row")
        mask = lane_mask(code, tile.lanes, columns)
        store_vector(code, sum_vectors(tile), block.next["total"], c_at, mask)
        code.jump("group_end")
        code.block("in_column")
        code.store(tile.vector, block.next["total"], "%results", 64)
        with code.loop("each", "lane_index", columns, after="group_end") as lane:
            address = code.address("result_at", tile.element, "%results", lane.index)
            result = code.load("result", tile.element, address, tile.itemsize)
            to = code.row("to", tile.element, c_at, lane.index, "%c_step")
            code.store(tile.element, result, to, tile.itemsize)
    return code.finish()


def _sum_columns(code: FunctionBuilder, tile: GemmTile, k0: str, steps: str) -> str:
    """The sums of one block of k for a vector of columns: squares in registers, then the last steps by columns."""
    rest = code.let("rest", f"urem i64 {steps}, {tile.lanes}")
    whole = code.let("whole", f"sub i64 {steps}, {rest}")
    short = code.is_zero("short", whole)
    sums = (Carried("sum0", tile.vector, "zeroinitializer"),)
    with code.loop("square", "t", whole, step=tile.lanes, carried=sums, skip=short, after="tail") as square:
        square.advance()
        code.row("a0_at", tile.element, "%a_block", square.index, "%a_step")
        square.next["sum0"] = _add_square(code, tile, k0, square.index)
    (whole_sum,) = square.results(sums, "_whole")
    with code.unless(code.is_zero("no_tail", rest), "some_tail", "block_end"):
        code.store(tile.vector, whole_sum, "%results", 64)
        _add_last_steps(code, tile, k0, whole, steps)
        after = code.load("sum_after", tile.vector, "%results", 64)
    return code.phi("sum", tile.vector, (whole_sum, "tail"), (after, "last"))


def _add_square(code: FunctionBuilder, tile: GemmTile, k0: str, first_step: str) -> str:
    """Adds the products of a square of columns and steps along k to `%sum0`; returns the sums."""
    k = code.let("k_at", f"add i64 {k0}, {first_step}")
    columns: list[str] = []
    for lane in range(tile.lanes):
        start = load_column_start(code, f"start{lane}", lane)
        address = code.address(f"column{lane}_at", tile.element, start, k)
        columns.append(load_vector(code, sum_vectors(tile), f"column_of{lane}", address))
    pieces = transpose(code, tile, columns)
    total, a_at, step = "%sum0", "%a0_at", 0
    for number, piece in enumerate(pieces):
        for row in transpose_pieces(code, tile, piece, number):
            a = _broadcast_at(code, tile, f"a{step}", a_at)
            step += 1
            a_at = code.address(f"a{step}_at", tile.element, a_at, "%a_step")
            total = multiply_add(code, tile, f"sum{step}", (a, row, total))
    return total


def _add_last_steps(code: FunctionBuilder, tile: GemmTile, k0: str, first: str, steps: str) -> None:
    """Adds the products of the steps that fill no square to `%results`, column by column."""
    element, itemsize = tile.element, tile.itemsize
    with code.loop("column", "v", tile.lanes, after="last") as column:
        v_at = code.address("v_at", element, "%results", column.index)
        v_before = code.load("v_before", element, v_at, itemsize)
        start = code.load("start", "ptr", code.address("start_at", "ptr", "%starts", column.index), 8)
        v_from = code.address("v_from", element, start, k0)
        sums = (Carried("v_sum", element, v_before),)
        with code.loop("one", "u", steps, start=first, carried=sums, after="column_end") as one:
            b = code.load("b_one", element, code.address("b_one_at", element, v_from, one.index), itemsize)
            a = code.load("a_one", element, code.row("a_one_at", element, "%a_block", one.index, "%a_step"), itemsize)
            operands = f"{element} {a}, {element} {b}, {element} {one.values['v_sum']}"
            one.next["v_sum"] = code.let("v_sum_next", f"call {element} @llvm.fma.f{8 * itemsize}({operands})")
        code.store(element, one.next["v_sum"], v_at, itemsize)


def emit_rows(tile: GemmTile, name: str) -> str:
    """Emits `void @name(a, a_per_k, a_step, b, b_ld, c, n, k)`: `b` holds rows, element (k, n) at `b[k * b_ld + n]`.

    It adds a few rows at a time to sums that stay in the first-level cache, across all columns of a strip of `nc`.
    """
    parameters = f"{_A_PARAMETERS}, ptr noalias readonly %b, i64 %b_ld, ptr noalias %c, i64 %n, i64 %k"
    code = FunctionBuilder(f"define internal void @{name}({parameters}) noinline {tile.attributes}")
    code.let("sums", f"alloca [{tile.nc} x {tile.element}], align 64")
    with code.loop("strip", "j0", "%n", step=tile.nc, after="exit") as strip:
        columns = code.minimum("columns", code.let("n_left", f"sub i64 %n, {strip.index}"), tile.nc)
        split_columns(code, tile, columns)
        code.address("b_strip", tile.element, "%b", strip.index)
        c_strip = code.address("c_strip", tile.element, "%c", strip.index)
        with code.loop("block", "k0", "%k", step=tile.kc, after="strip_end") as block:
            steps = _begin_block(code, tile, block)
            is_first = code.is_zero("first", block.index)
            rest = code.let("steps_rest", f"urem i64 {steps}, {_ROWS_TOGETHER}")
            whole = code.let("steps_whole", f"sub i64 {steps}, {rest}")
            with code.loop("clear", "z", columns, step=tile.lanes, after="many") as clear:
                address = code.address("z_at", tile.element, "%sums", clear.index)
                code.store(tile.vector, "zeroinitializer", address, tile.itemsize)
            _add_steps(code, tile, "many", _ROWS_TOGETHER, ("0", whole), "one")
            _add_steps(code, tile, "one", 1, (whole, steps), "add")
            add_block = functools.partial(_add_block, code, tile, c_strip, is_first)
            for_each_vector(code, tile, "add", add_block, "block_end")
    return code.finish()


def _add_steps(
    code: FunctionBuilder, tile: GemmTile, label: str, rows: int, steps: tuple[str, str], after: str
) -> None:
    """Adds the products of a range of steps along k to the sums of a strip, `rows` steps at a time."""
    first, end = steps
    none = code.let(f"{label}_none", f"icmp sge i64 {first}, {end}")
    with code.loop(*(f"{label}_turn", f"{label}_t", end), start=first, step=rows, skip=none, after=after) as turn:
        turn.advance()
        k = code.let(f"{label}_k", f"add i64 %k0, {turn.index}")
        b_rows = [code.row(f"{label}_row0", tile.element, "%b_strip", k, "%b_ld")]
        a: list[str] = []
        for row in range(rows):
            if row:
                b_rows.append(code.address(f"{label}_row{row}", tile.element, b_rows[-1], "%b_ld"))
            step = code.let(f"{label}_t{row}", f"add i64 {turn.index}, {row}")
            a.append(_broadcast_a(code, tile, f"{label}_a{row}", step))
        add_rows = functools.partial(_add_rows, code, tile, a, b_rows)
        for_each_vector(code, tile, label, add_rows, f"{label}_end")


def _add_rows(
    code: FunctionBuilder,
    tile: GemmTile,
    a_elements: Sequence[str],
    b_rows: Sequence[str],
    prefix: str,
    column: str,
    mask: str | None,
) -> None:
    """Adds the products of some elements of `a` and rows of `b` to the sums of a vector of columns."""
    kind = sum_vectors(tile)
    sums_at = code.address(f"{prefix}_at", tile.element, "%sums", column)
    total = load_vector(code, kind, f"{prefix}_sum0", sums_at)
    for row, (a, b_row) in enumerate(zip(a_elements, b_rows, strict=True)):
        address = code.address(f"{prefix}_at{row}", tile.element, b_row, column)
        b = load_vector(code, kind, f"{prefix}_b{row}", address, mask)
        total = multiply_add(code, tile, f"{prefix}_sum{row + 1}", (a, b, total))
    store_vector(code, kind, total, sums_at)


def _add_block(
    code: FunctionBuilder, tile: GemmTile, c_strip: str, is_first: str, prefix: str, column: str, mask: str | None
) -> None:
    """Adds a block's sums of a vector of columns to the stored ones; the first block is added to +0.0."""
    kind = sum_vectors(tile)
    block_sum = load_vector(code, kind, f"{prefix}_sum", code.address(f"{prefix}_at", tile.element, "%sums", column))
    c_at = code.address(f"{prefix}_c_at", tile.element, c_strip, column)
    stored = load_vector(code, kind, f"{prefix}_stored", c_at, mask)
    old = code.let(f"{prefix}_old", f"select i1 {is_first}, {tile.vector} zeroinitializer, {tile.vector} {stored}")
    store_vector(code, kind, code.let(f"{prefix}_new", f"fadd {tile.vector} {old}, {block_sum}"), c_at, mask)


def split_columns(code: FunctionBuilder, tile: GemmTile, columns: str) -> None:
    """Splits a number of columns into whole vectors and a masked one, for `for_each_vector`."""
    rest = code.let("rest", f"urem i64 {columns}, {tile.lanes}")
    whole = code.let("whole", f"sub i64 {columns}, {rest}")
    code.is_zero("no_rest", rest)
    code.is_zero("narrow", whole)
    lane_mask(code, tile.lanes, rest)


def for_each_vector(
    code: FunctionBuilder, tile: GemmTile, label: str, body: Callable[[str, str, str | None], None], after: str
) -> None:
    """Runs `body(prefix, column, mask)` on each vector of the columns of `split_columns`.

    The block `after` follows. `prefix` begins the names of values, `column` is the vector's first column. The body
    appears twice in the code, so that whole vectors need no mask.
    """
    code.jump(f"{label}_across")
    code.block(f"{label}_across")
    with code.loop(
        *(f"{label}_vector", f"{label}_j", "%whole"), step=tile.lanes, skip="%narrow", after=f"{label}_tail"
    ) as vector:
        body(f"{label}_whole", vector.index, None)
    with code.unless("%no_rest", f"{label}_last", after):
        body(f"{label}_part", "%whole", "%mask")


def emit_panels(tile: GemmTile, name: str) -> str:
    """Emits `void @name(a, a_per_k, a_step, b, c, n, k)`: `b` is packed; a few panels are read from end to end."""
    parameters = f"{_A_PARAMETERS}, ptr noalias readonly %b, ptr noalias %c, i64 %n, i64 %k"
    code = FunctionBuilder(f"define internal void @{name}({parameters}) noinline {tile.attributes}")
    names = [f"{panel}_{vector}" for panel in range(_PANELS_TOGETHER) for vector in range(tile.vectors)]
    totals = [Carried(f"total{vector}", tile.vector, "zeroinitializer") for vector in names]
    sums = [Carried(f"sum{vector}", tile.vector, "zeroinitializer") for vector in names]
    with code.loop("group", "j", "%n", step=_PANELS_TOGETHER * tile.nr, after="exit") as group:
        stores = _panel_addresses(code, tile, group.index)
        with code.loop("block", "k0", "%k", step=tile.kc, carried=totals, after="store") as block:
            steps = _begin_block(code, tile, block)
            no_steps = code.is_zero("no_steps", steps)
            with code.loop("step", "t", steps, carried=sums, skip=no_steps, after="block_end") as loop:
                loop.advance()
                k = code.let("t_all", f"add i64 {block.index}, {loop.index}")
                offset = code.let("t_start", f"mul i64 {k}, {tile.nr}")
                _add_panels(code, tile, loop, offset)
            block_sums = loop.results(sums, "_block")
            for total, block_sum in zip(totals, block_sums, strict=True):
                added = f"fadd {tile.vector} {block.values[total.name]}, {block_sum}"
                block.next[total.name] = code.let(f"{total.name}_next", added)
        for total, (address, mask) in zip(totals, stores, strict=True):
            store_vector(code, sum_vectors(tile), block.next[total.name], address, mask)
    return code.finish()


def _panel_addresses(code: FunctionBuilder, tile: GemmTile, first_column: str) -> list[tuple[str, str]]:
    """Defines `%panel0` and so on, the panels of a group; returns each vector's address in `c` and mask.

    A panel that does not exist has no active columns, and reads the group's first panel of `b`.
    """
    stores: list[tuple[str, str]] = []
    for panel in range(_PANELS_TOGETHER):
        requested = code.let(f"j{panel}_requested", f"add i64 {first_column}, {panel * tile.nr}")
        exists = code.let(f"j{panel}_exists", f"icmp slt i64 {requested}, %n")
        column = code.let(f"j{panel}", f"select i1 {exists}, i64 {requested}, i64 {first_column}")
        code.row(f"panel{panel}", tile.element, "%b", column, "%k")
        left = code.let(f"left{panel}", f"sub i64 %n, {requested}")
        for vector in range(tile.vectors):
            name = f"{panel}_{vector}"
            index = code.let(f"c_index{name}", f"add i64 {column}, {vector * tile.lanes}")
            address = code.address(f"c_at{name}", tile.element, "%c", index)
            vector_left = code.let(f"left{name}", f"sub i64 {left}, {vector * tile.lanes}")
            columns = code.maximum(f"columns{name}", vector_left, 0)
            stores.append((address, lane_mask(code, tile.lanes, columns, name)))
    return stores


def _add_panels(code: FunctionBuilder, tile: GemmTile, loop: Loop, offset: str) -> None:
    """Adds one step along k of a group of panels to the sums that the loop carries."""
    a = _broadcast_a(code, tile, "a_all", loop.index)
    for panel in range(_PANELS_TOGETHER):
        step_at = code.address(f"panel{panel}_at", tile.element, f"%panel{panel}", offset)
        for vector in range(tile.vectors):
            name = f"{panel}_{vector}"
            address = code.address(f"b{name}_at", tile.element, step_at, vector * tile.lanes)
            b = load_packed(code, tile, f"b{name}", address, f"%mask{name}")
            total = f"sum{name}"
            loop.next[total] = multiply_add(code, tile, f"{total}_next", (a, b, loop.values[total]))


def emit_gemv(tile: GemmTile, name: str) -> str:
    """Emits the functions `@name_…` that `branch_to_gemv` calls."""
    texts: list[str] = []
    if _has_function_for_row(tile):
        emit = {"panels": emit_panels, "rows": emit_rows, "columns": emit_columns}[_row_function(tile)]
        texts.append(emit(tile, f"{name}_{_row_function(tile)}"))
    if _has_function_for_column(tile) and _row_function(tile) != "columns":
        texts.append(emit_columns(tile, f"{name}_columns"))
    return "\n".join(texts)


def branch_to_gemv(code: FunctionBuilder, tile: GemmTile, name: str, a_per_k: int | str) -> None:
    """Emits the branches of a core that hand a product with one row or one column to its function."""
    if _has_function_for_row(tile):
        a_step = 1 if tile.a_format == "row" else tile.mr if tile.a_packed else "%a_ld"
        b = "ptr %b" if tile.b_packed else "ptr %b, i64 %b_ld"
        c = "ptr %c, i64 1" if _row_function(tile) == "columns" else "ptr %c"
        call = f"{_row_function(tile)}(ptr %a, i64 {a_per_k}, i64 {a_step}, {b}, {c}, i64 %n, i64 %k)"
        _call_if_one(code, "row", "%m", f"@{name}_{call}")
    if _has_function_for_column(tile):
        step = "%b_ld" if tile.b_format == "row" else 1
        call = f"columns(ptr %b, i64 {step}, i64 {step}, ptr %a, i64 %a_ld, ptr %c, i64 %ldc, i64 %m, i64 %k)"
        _call_if_one(code, "column", "%n", f"@{name}_{call}")


def _call_if_one(code: FunctionBuilder, dim: str, size: str, call: str) -> None:
    is_one = code.let(f"is_one_{dim}", f"icmp eq i64 {size}, 1")
    code.branch(is_one, f"one_{dim}", f"no_one_{dim}")
    code.block(f"one_{dim}")
    code.do(f"call void {call}")
    code.jump("exit")
    code.block(f"no_one_{dim}")


def _has_function_for_row(tile: GemmTile) -> bool:
    return tile.group == 1 and not tile.b_made


def _row_function(tile: GemmTile) -> str:
    return "panels" if tile.b_packed else "rows" if tile.b_format == "row" else "columns"


def _has_function_for_column(tile: GemmTile) -> bool:
    """One column is one row of the product with its operands exchanged."""
    plain = not (tile.a_packed or tile.b_packed or tile.b_made)
    return tile.group == 1 and plain and tile.a_format == "row"
