"""Products with one row, or one column, as LLVM IR text: `b` is read once, where it lies, as fast as memory is.

A core calls one of these functions in place of its loops over panels. They read long pieces of memory in order, a few
of them side by side, and keep each sum in the order `BLOCKED`: the bits are those of the inner kernels.

An `a` of one row is any vector: element t of the block that starts at `k0` is `a[k0 * a_per_k + t * a_step]`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from rushlight.codegen.llvm.gemm.micro_kernel import (
    broadcast,
    load_packed,
    load_vector,
    mask_lines,
    multiply_add,
    store_vector,
    sum_vectors,
)
from rushlight.codegen.llvm.gemm.transpose import column_addresses, load_column_address, transpose, transpose_pieces
from rushlight.ir.gemm_tile import GemmTile

# Pieces of rows that are read side by side: 8 are 1.2 times as fast as 4, and those 1.3 times as fast as 2.
_ROWS_TOGETHER = 8
# Packed panels that are read side by side: two are 1.2 times as fast as one, and faster than one with prefetches.
_PANELS_TOGETHER = 2

_BLOCK = """\
  %k_left = sub i64 %k, %k0
  %steps = call i64 @llvm.smin.i64(i64 %k_left, i64 {kc})
  %k0_next = add i64 %k0, {kc}
  %more_blocks = icmp slt i64 %k0_next, %k
  %a_start = mul i64 %k0, %a_per_k
  %a_block = getelementptr {element}, ptr %a, i64 %a_start"""

_COLUMNS = """\
define internal void @{name}(ptr noalias readonly %a, i64 %a_per_k, i64 %a_step, ptr noalias readonly %b, \
i64 %b_ld, ptr noalias %c, i64 %c_step, i64 %n, i64 %k) noinline {attributes} {{
entry:
  %results = alloca {vector}, align 64
  %starts = alloca [{lanes} x ptr], align 8
  %column_last = sub i64 %n, 1
  %is_row = icmp eq i64 %c_step, 1
  br label %group
group:
  %j = phi i64 [ 0, %entry ], [ %j_next, %group_end ]
{starts}
  br label %block
block:
  %k0 = phi i64 [ 0, %lanes_end ], [ %k0_next, %block_end ]
  %total = phi {vector} [ zeroinitializer, %lanes_end ], [ %total_next, %block_end ]
{block}
  %rest = urem i64 %steps, {lanes}
  %whole = sub i64 %steps, %rest
  %short = icmp eq i64 %whole, 0
  br i1 %short, label %tail, label %square
square:
  %t = phi i64 [ 0, %block ], [ %t_next, %square ]
  %sum0 = phi {vector} [ zeroinitializer, %block ], [ %sum{lanes}, %square ]
  %t_next = add i64 %t, {lanes}
  %a0_start = mul i64 %t, %a_step
  %a0_at = getelementptr {element}, ptr %a_block, i64 %a0_start
{square}
  %more_squares = icmp slt i64 %t_next, %whole
  br i1 %more_squares, label %square, label %tail
tail:
  %sum_whole = phi {vector} [ zeroinitializer, %block ], [ %sum{lanes}, %square ]
  %no_tail = icmp eq i64 %rest, 0
  br i1 %no_tail, label %block_end, label %some_tail
some_tail:
  store {vector} %sum_whole, ptr %results, align 64
  br label %column
column:
  %v = phi i64 [ 0, %some_tail ], [ %v_next, %column_end ]
  %v_at = getelementptr {element}, ptr %results, i64 %v
  %v_before = load {element}, ptr %v_at, align {itemsize}
  %start_at = getelementptr ptr, ptr %starts, i64 %v
  %start = load ptr, ptr %start_at, align 8
  %v_from = getelementptr {element}, ptr %start, i64 %k0
  br label %one
one:
  %u = phi i64 [ %whole, %column ], [ %u_next, %one ]
  %v_sum = phi {element} [ %v_before, %column ], [ %v_sum_next, %one ]
  %b_one_at = getelementptr {element}, ptr %v_from, i64 %u
  %b_one = load {element}, ptr %b_one_at, align {itemsize}
  %a_one_start = mul i64 %u, %a_step
  %a_one_at = getelementptr {element}, ptr %a_block, i64 %a_one_start
  %a_one = load {element}, ptr %a_one_at, align {itemsize}
  %v_sum_next = call {element} @llvm.fma.{suffix}({element} %a_one, {element} %b_one, {element} %v_sum)
  %u_next = add i64 %u, 1
  %more_ones = icmp slt i64 %u_next, %steps
  br i1 %more_ones, label %one, label %column_end
column_end:
  store {element} %v_sum_next, ptr %v_at, align {itemsize}
  %v_next = add i64 %v, 1
  %more_columns = icmp slt i64 %v_next, {lanes}
  br i1 %more_columns, label %column, label %last
last:
  %sum_after = load {vector}, ptr %results, align 64
  br label %block_end
block_end:
  %sum = phi {vector} [ %sum_whole, %tail ], [ %sum_after, %last ]
  %total_next = fadd {vector} %total, %sum
  br i1 %more_blocks, label %block, label %store
store:
  %columns_left = sub i64 %n, %j
  %columns = call i64 @llvm.smin.i64(i64 %columns_left, i64 {lanes})
  %c_start = mul i64 %j, %c_step
  %c_at = getelementptr {element}, ptr %c, i64 %c_start
  br i1 %is_row, label %in_row, label %in_column
in_row:
{mask}
{store}
  br label %group_end
in_column:
  store {vector} %total_next, ptr %results, align 64
  br label %each
each:
  %place = phi i64 [ 0, %in_column ], [ %place_next, %each ]
  %result_at = getelementptr {element}, ptr %results, i64 %place
  %result = load {element}, ptr %result_at, align {itemsize}
  %to_start = mul i64 %place, %c_step
  %to = getelementptr {element}, ptr %c_at, i64 %to_start
  store {element} %result, ptr %to, align {itemsize}
  %place_next = add i64 %place, 1
  %more_results = icmp slt i64 %place_next, %columns
  br i1 %more_results, label %each, label %group_end
group_end:
  %j_next = add i64 %j, {lanes}
  %more_groups = icmp slt i64 %j_next, %n
  br i1 %more_groups, label %group, label %exit
exit:
  ret void
}}
"""


def _fields(tile: GemmTile, name: str) -> dict[str, object]:
    """What all functions here are made of."""
    return {
        "name": name,
        "attributes": tile.attributes,
        "element": tile.element,
        "itemsize": tile.itemsize,
        "vector": tile.vector,
        "lanes": tile.lanes,
        "block": _BLOCK.format(kc=tile.kc, element=tile.element),
    }


def emit_columns(tile: GemmTile, name: str) -> str:
    """IR of `void @name(a, a_per_k, a_step, b, b_ld, c, c_step, n, k)`: `b` holds columns, transposed in registers.

    Element (k, n) is `b[n * b_ld + k]`, and results are stored `c_step` elements apart.
    """
    return _COLUMNS.format(
        **_fields(tile, name),
        starts=column_addresses(tile),
        square="\n".join(_square(tile)),
        suffix=f"f{8 * tile.itemsize}",
        mask="\n".join(mask_lines(tile.lanes, "%columns")),
        store=store_vector(sum_vectors(tile), "%total_next", "%c_at", "%mask"),
    )


def _square(tile: GemmTile) -> Iterator[str]:
    yield "  %k_at = add i64 %k0, %t"
    for lane in range(tile.lanes):
        yield from load_column_address(f"%start{lane}", lane)
        yield f"  %column{lane}_at = getelementptr {tile.element}, ptr %start{lane}, i64 %k_at"
        yield load_vector(sum_vectors(tile), f"%column_of{lane}", f"%column{lane}_at")
    pieces = yield from transpose(tile, [f"%column_of{lane}" for lane in range(tile.lanes)])
    step = 0
    for number, piece in enumerate(pieces):
        names = yield from transpose_pieces(tile, piece, number)
        for name in names:
            yield from _broadcast(tile, f"%a{step}", f"%a{step}_at")
            yield f"  %a{step + 1}_at = getelementptr {tile.element}, ptr %a{step}_at, i64 %a_step"
            yield from multiply_add(tile, f"%sum{step + 1}", (f"%a{step}", name, f"%sum{step}"))
            step += 1


def _broadcast(tile: GemmTile, name: str, address: str) -> Iterator[str]:
    """A vector with the element at an address in all its lanes."""
    yield f"  {name}_scalar = load {tile.element}, ptr {address}, align {tile.itemsize}"
    yield from broadcast(sum_vectors(tile), name, f"{name}_scalar")


def _element_of_a(tile: GemmTile, name: str, step: str) -> Iterator[str]:
    """A vector with an element of `a` in all its lanes, that of a step of the block."""
    yield f"  {name}_start = mul i64 {step}, %a_step"
    yield f"  {name}_at = getelementptr {tile.element}, ptr %a_block, i64 {name}_start"
    yield from _broadcast(tile, name, f"{name}_at")


_ROWS = """\
define internal void @{name}(ptr noalias readonly %a, i64 %a_per_k, i64 %a_step, ptr noalias readonly %b, i64 %b_ld, \
ptr noalias %c, i64 %n, i64 %k) noinline {attributes} {{
entry:
  %sums = alloca [{strip} x {element}], align 64
  br label %strip
strip:
  %j0 = phi i64 [ 0, %entry ], [ %j0_next, %strip_end ]
  %n_left = sub i64 %n, %j0
  %columns = call i64 @llvm.smin.i64(i64 %n_left, i64 {strip})
  %rest = urem i64 %columns, {lanes}
  %whole = sub i64 %columns, %rest
  %no_rest = icmp eq i64 %rest, 0
  %narrow = icmp eq i64 %whole, 0
{mask}
  %b_strip = getelementptr {element}, ptr %b, i64 %j0
  %c_strip = getelementptr {element}, ptr %c, i64 %j0
  br label %block
block:
  %k0 = phi i64 [ 0, %strip ], [ %k0_next, %block_end ]
{block}
  %first = icmp eq i64 %k0, 0
  %steps_rest = urem i64 %steps, {together}
  %steps_whole = sub i64 %steps, %steps_rest
  br label %clear
clear:
  %z = phi i64 [ 0, %block ], [ %z_next, %clear ]
  %z_at = getelementptr {element}, ptr %sums, i64 %z
  store {vector} zeroinitializer, ptr %z_at, align {itemsize}
  %z_next = add i64 %z, {lanes}
  %more_clear = icmp slt i64 %z_next, %columns
  br i1 %more_clear, label %clear, label %many
{many}
{one}
add:
{add}
block_end:
  br i1 %more_blocks, label %block, label %strip_end
strip_end:
  %j0_next = add i64 %j0, {strip}
  %more_strips = icmp slt i64 %j0_next, %n
  br i1 %more_strips, label %strip, label %exit
exit:
  ret void
}}
"""


def emit_rows(tile: GemmTile, name: str) -> str:
    """IR of `void @name(a, a_per_k, a_step, b, b_ld, c, n, k)`: `b` holds rows, element (k, n) at `b[k * b_ld + n]`.

    A few rows at a time are added to sums that stay in the nearest cache, across all columns of a strip.
    """
    return _ROWS.format(
        **_fields(tile, name),
        strip=tile.nc,
        together=_ROWS_TOGETHER,
        mask="\n".join(mask_lines(tile.lanes, "%rest")),
        many="\n".join(_turns(tile, "many", _ROWS_TOGETHER, ("0", "%steps_whole"), "one")),
        one="\n".join(_turns(tile, "one", 1, ("%steps_whole", "%steps"), "add")),
        add="\n".join(across(tile, "add", functools.partial(_add_sums, tile), "block_end")),
    )


def _turns(tile: GemmTile, label: str, rows: int, steps: tuple[str, str], after: str) -> Iterator[str]:
    """Steps along k from the first to the last, `rows` at a time, then on to the label `after`."""
    first, end = steps
    yield f"{label}:"
    yield f"  %{label}_none = icmp sge i64 {first}, {end}"
    yield f"  br i1 %{label}_none, label %{after}, label %{label}_turn"
    yield f"{label}_turn:"
    yield f"  %{label}_t = phi i64 [ {first}, %{label} ], [ %{label}_t_next, %{label}_end ]"
    yield f"  %{label}_t_next = add i64 %{label}_t, {rows}"
    yield f"  %{label}_k = add i64 %k0, %{label}_t"
    yield f"  %{label}_start = mul i64 %{label}_k, %b_ld"
    yield f"  %{label}_row0 = getelementptr {tile.element}, ptr %b_strip, i64 %{label}_start"
    for row in range(rows):
        if row:
            yield f"  %{label}_row{row} = getelementptr {tile.element}, ptr %{label}_row{row - 1}, i64 %b_ld"
        yield f"  %{label}_t{row} = add i64 %{label}_t, {row}"
        yield from _element_of_a(tile, f"%{label}_a{row}", f"%{label}_t{row}")
    yield from across(tile, label, functools.partial(_add_rows, tile, label, rows), f"{label}_end")
    yield f"{label}_end:"
    yield f"  %{label}_more = icmp slt i64 %{label}_t_next, {end}"
    yield f"  br i1 %{label}_more, label %{label}_turn, label %{after}"


def across(
    tile: GemmTile, label: str, body: Callable[[str, str, str | None], Iterator[str]], after: str
) -> Iterator[str]:
    """Runs `body(prefix, place, mask)` on each vector of a strip, then branches to `after`. It ends a block."""
    yield f"  br label %{label}_across"
    yield f"{label}_across:"
    yield f"  br i1 %narrow, label %{label}_tail, label %{label}_vector"
    yield f"{label}_vector:"
    yield f"  %{label}_j = phi i64 [ 0, %{label}_across ], [ %{label}_j_next, %{label}_vector ]"
    yield from body(f"%{label}_whole", f"%{label}_j", None)
    yield f"  %{label}_j_next = add i64 %{label}_j, {tile.lanes}"
    yield f"  %{label}_more_vectors = icmp slt i64 %{label}_j_next, %whole"
    yield f"  br i1 %{label}_more_vectors, label %{label}_vector, label %{label}_tail"
    yield f"{label}_tail:"
    yield f"  br i1 %no_rest, label %{after}, label %{label}_last"
    yield f"{label}_last:"
    yield from body(f"%{label}_part", "%whole", "%mask")
    yield f"  br label %{after}"


def _add_rows(tile: GemmTile, label: str, rows: int, prefix: str, place: str, mask: str | None) -> Iterator[str]:
    """Add the products of some rows to the sums of a vector of columns."""
    kind = sum_vectors(tile)
    yield f"  {prefix}_at = getelementptr {tile.element}, ptr %sums, i64 {place}"
    yield load_vector(kind, f"{prefix}_sum0", f"{prefix}_at")
    for row in range(rows):
        yield f"  {prefix}_at{row} = getelementptr {tile.element}, ptr %{label}_row{row}, i64 {place}"
        yield load_vector(kind, f"{prefix}_b{row}", f"{prefix}_at{row}", mask)
        operands = (f"%{label}_a{row}", f"{prefix}_b{row}", f"{prefix}_sum{row}")
        yield from multiply_add(tile, f"{prefix}_sum{row + 1}", operands)
    yield store_vector(kind, f"{prefix}_sum{rows}", f"{prefix}_at")


def _add_sums(tile: GemmTile, prefix: str, place: str, mask: str | None) -> Iterator[str]:
    """Add the sums of a block to what is stored of a vector of columns, in the first block to +0.0."""
    kind = sum_vectors(tile)
    yield f"  {prefix}_at = getelementptr {tile.element}, ptr %sums, i64 {place}"
    yield load_vector(kind, f"{prefix}_sum", f"{prefix}_at")
    yield f"  {prefix}_c_at = getelementptr {tile.element}, ptr %c_strip, i64 {place}"
    yield load_vector(kind, f"{prefix}_stored", f"{prefix}_c_at", mask)
    yield f"  {prefix}_old = select i1 %first, {tile.vector} zeroinitializer, {tile.vector} {prefix}_stored"
    yield f"  {prefix}_new = fadd {tile.vector} {prefix}_old, {prefix}_sum"
    yield store_vector(kind, f"{prefix}_new", f"{prefix}_c_at", mask)


_PANELS = """\
define internal void @{name}(ptr noalias readonly %a, i64 %a_per_k, i64 %a_step, ptr noalias readonly %b, \
ptr noalias %c, i64 %n, i64 %k) noinline {attributes} {{
entry:
  br label %group
group:
  %j = phi i64 [ 0, %entry ], [ %j_next, %store ]
{panels}
  br label %block
block:
  %k0 = phi i64 [ 0, %group ], [ %k0_next, %block_end ]
{totals}
{block}
  %none = icmp eq i64 %steps, 0
  br i1 %none, label %block_end, label %step
step:
  %t = phi i64 [ 0, %block ], [ %t_next, %step ]
{sums}
  %t_next = add i64 %t, 1
  %t_all = add i64 %k0, %t
  %t_start = mul i64 %t_all, {nr}
{step}
  %more_steps = icmp slt i64 %t_next, %steps
  br i1 %more_steps, label %step, label %block_end
block_end:
{add}
  br i1 %more_blocks, label %block, label %store
store:
{store}
  %j_next = add i64 %j, {together}
  %more_groups = icmp slt i64 %j_next, %n
  br i1 %more_groups, label %group, label %exit
exit:
  ret void
}}
"""


def emit_panels(tile: GemmTile, name: str) -> str:
    """IR of `void @name(a, a_per_k, a_step, b, c, n, k)`: `b` is packed; a few panels are read from end to end."""
    vector = tile.vector
    places = [f"{panel}_{place}" for panel in range(_PANELS_TOGETHER) for place in range(tile.vectors)]
    totals = [
        f"  %total{at} = phi {vector} [ zeroinitializer, %group ], [ %total{at}_next, %block_end ]" for at in places
    ]
    sums = [f"  %sum{at} = phi {vector} [ zeroinitializer, %block ], [ %sum{at}_next, %step ]" for at in places]
    add = [f"  %all{at} = phi {vector} [ zeroinitializer, %block ], [ %sum{at}_next, %step ]" for at in places]
    add += [f"  %total{at}_next = fadd {vector} %total{at}, %all{at}" for at in places]
    kind = sum_vectors(tile)
    return _PANELS.format(
        **_fields(tile, name),
        nr=tile.nr,
        together=_PANELS_TOGETHER * tile.nr,
        panels="\n".join(_panels(tile)),
        totals="\n".join(totals),
        sums="\n".join(sums),
        step="\n".join(_panel_step(tile)),
        add="\n".join(add),
        store="\n".join(store_vector(kind, f"%total{at}_next", f"%c_at{at}", f"%mask{at}") for at in places),
    )


def _panels(tile: GemmTile) -> Iterator[str]:
    """Emits the addresses in `b` and `c` and the column masks of a group of panels.

    A panel that does not exist has no active columns, and reads the group's first panel of `b`.
    """
    for panel in range(_PANELS_TOGETHER):
        yield f"  %j{panel}_wish = add i64 %j, {panel * tile.nr}"
        yield f"  %j{panel}_exists = icmp slt i64 %j{panel}_wish, %n"
        yield f"  %j{panel} = select i1 %j{panel}_exists, i64 %j{panel}_wish, i64 %j"
        yield f"  %panel{panel}_start = mul i64 %j{panel}, %k"
        yield f"  %panel{panel} = getelementptr {tile.element}, ptr %b, i64 %panel{panel}_start"
        yield f"  %left{panel} = sub i64 %n, %j{panel}_wish"
        for vector in range(tile.vectors):
            at = f"{panel}_{vector}"
            yield f"  %c_index{at} = add i64 %j{panel}, {vector * tile.lanes}"
            yield f"  %c_at{at} = getelementptr {tile.element}, ptr %c, i64 %c_index{at}"
            yield f"  %left{at} = sub i64 %left{panel}, {vector * tile.lanes}"
            yield f"  %columns{at} = call i64 @llvm.smax.i64(i64 %left{at}, i64 0)"
            yield from mask_lines(tile.lanes, f"%columns{at}", at)


def _panel_step(tile: GemmTile) -> Iterator[str]:
    yield from _element_of_a(tile, "%a_all", "%t")
    for panel in range(_PANELS_TOGETHER):
        yield f"  %panel{panel}_at = getelementptr {tile.element}, ptr %panel{panel}, i64 %t_start"
        for vector in range(tile.vectors):
            at = f"{panel}_{vector}"
            yield f"  %b{at}_at = getelementptr {tile.element}, ptr %panel{panel}_at, i64 {vector * tile.lanes}"
            yield from load_packed(tile, f"%b{at}", f"%b{at}_at", f"%mask{at}")
            yield from multiply_add(tile, f"%sum{at}_next", ("%a_all", f"%b{at}", f"%sum{at}"))


def emit_gemv(tile: GemmTile, name: str) -> str:
    """IR of the functions `@name_…` that the branches of `alone` call."""
    parts = []
    if _has_function_for_row(tile):
        function = f"{name}_{_row_function(tile)}"
        parts.append(
            {"panels": emit_panels, "rows": emit_rows, "columns": emit_columns}[_row_function(tile)](tile, function)
        )
    if _has_function_for_column(tile) and _row_function(tile) != "columns":
        parts.append(emit_columns(tile, f"{name}_columns"))
    return "\n".join(parts)


def gemv_cases(tile: GemmTile, name: str, a_per_k: int | str) -> Iterator[str]:
    """Emits the branches of a core that hand a product with one row or one column to its function."""
    if _has_function_for_row(tile):
        a_step = 1 if tile.a_format == "row" else tile.mr if tile.a_packed else "%a_ld"
        b = "ptr %b" if tile.b_packed else "ptr %b, i64 %b_ld"
        c = "ptr %c, i64 1" if _row_function(tile) == "columns" else "ptr %c"
        call = f"{_row_function(tile)}(ptr %a, i64 {a_per_k}, i64 {a_step}, {b}, {c}, i64 %n, i64 %k)"
        yield from _leave("row", "%m", f"@{name}_{call}")
    if _has_function_for_column(tile):
        step = "%b_ld" if tile.b_format == "row" else 1
        call = f"columns(ptr %b, i64 {step}, i64 {step}, ptr %a, i64 %a_ld, ptr %c, i64 %ldc, i64 %m, i64 %k)"
        yield from _leave("column", "%n", f"@{name}_{call}")


def _leave(what: str, size: str, call: str) -> Iterator[str]:
    yield f"  %is_one_{what} = icmp eq i64 {size}, 1"
    yield f"  br i1 %is_one_{what}, label %one_{what}, label %no_one_{what}"
    yield f"one_{what}:"
    yield f"  call void {call}"
    yield "  br label %exit"
    yield f"no_one_{what}:"


def _has_function_for_row(tile: GemmTile) -> bool:
    return tile.group == 1 and not tile.b_made


def _row_function(tile: GemmTile) -> str:
    return "panels" if tile.b_packed else "rows" if tile.b_format == "row" else "columns"


def _has_function_for_column(tile: GemmTile) -> bool:
    """One column is one row of the product with its operands exchanged."""
    plain = not (tile.a_packed or tile.b_packed or tile.b_made)
    return tile.group == 1 and plain and tile.a_format == "row"
