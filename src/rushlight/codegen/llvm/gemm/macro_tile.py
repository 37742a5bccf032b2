"""Matrix products as LLVM IR text: the core that computes a macro tile and the task that a thread pool runs.

The core works over all of k: blocks of k outermost, then panels of columns, then panels of rows, so that one panel of
`b` is used from the nearest caches for all rows of the tile; one row, or one column, is left to `gemm_row`, and a few
columns at a panel's end to `gemm_narrow`. It has no epilogue and depends on nothing but its `GemmTile`, so one compiled
core serves eager and compiled code. An epilogue is a function that the task calls on each finished tile while the tile
is in the cache. `gemm_tile` says how operands lie in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from rushlight.codegen.llvm.gemm.gemv import emit_gemv, gemv_cases
from rushlight.codegen.llvm.gemm.micro_kernel import (
    LINE_BYTES,
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
from rushlight.codegen.llvm.gemm.split_k import TASK_PART, emit_reduce_partials, split_k_product
from rushlight.ir.gemm_tile import MADE_AROUND, GemmTile, choose_tile, plan_tiles
from rushlight.ir.kernel import TASK_ARGS

__all__ = [
    "TASK_ARGS",
    "GemmTile",
    "choose_tile",
    "declare_core",
    "emit_core",
    "emit_task",
    "plan_tiles",
]

_CORE_TYPES = "ptr, ptr, ptr, i64, i64, i64, i64, i64, i64"

_MICRO_ARGUMENTS = "ptr %a_at, ptr %b_at, ptr %c_at, i64 %b_stride, i64 %ldc, i64 %groups, i1 %first, \
ptr %ahead, i64 %ahead_step"

_USE_A = "  %a_block = getelementptr i8, ptr %a_there, i64 0"
_PACK_A = "  call void @{name}_pack_a(ptr %a_block, ptr %a_there, i64 %a_ld, i64 %m, i64 %steps)"

_USE_B = """\
  %b_at = getelementptr i8, ptr %b_there, i64 0
  %b_stride = add i64 0, {nr}"""

_PACK_B = """\
  call void @{name}_pack_b(ptr %b_panel, ptr %b_there, i64 %b_ld, i64 %columns, i64 %steps)
{starts}
  %b_at = getelementptr i8, ptr %b_panel, i64 0
  %b_stride = add i64 0, {nr}"""

# What `b` points to where it is made: the function, its arguments, the batch, and the first column and step of k.
_FIND_MAKER = """\
  %panel = load ptr, ptr %b, align 8
  %words_at = getelementptr i64, ptr %b, i64 1
  %words = load ptr, ptr %words_at, align 8
  %batch_at = getelementptr i64, ptr %b, i64 2
  %batch = load i64, ptr %batch_at, align 8
  %first_at = getelementptr i64, ptr %b, i64 3
  %first_column = load i64, ptr %first_at, align 8
  %step_at = getelementptr i64, ptr %b, i64 4
  %first_step = load i64, ptr %step_at, align 8"""

_MAKE_B = """\
  %made_column = add i64 %first_column, %j
  %made_step = add i64 %first_step, %k0
  call void %panel(ptr %words, ptr {made}, i64 %batch, i64 %made_step, i64 %made_column, i64 %steps, i64 %columns)
{pack}  %b_at = getelementptr i8, ptr %b_panel, i64 0
  %b_stride = add i64 0, {nr}"""

_PACK_MADE_B = """\
  call void @{name}_pack_b(ptr %b_panel, ptr %b_made, i64 {made_ld}, i64 %columns, i64 %steps)
{starts}
"""

_SET_STARTS = "  call void @{name}_starts(ptr %b_panel, i64 %groups)"

# Few rows meet each element of b so seldom that packing it would cost more than it saves.
_PACK_OR_USE_B = """\
  br i1 %in_place, label %ready, label %pack_b
pack_b:
  call void @{name}_pack_b(ptr %b_panel, ptr %b_there, i64 %b_ld, i64 %columns, i64 %steps)
  br label %ready
ready:
  %b_at = phi ptr [ %b_there, %column ], [ %b_panel, %pack_b ]
  %b_stride = phi i64 [ %b_ld, %column ], [ {nr}, %pack_b ]"""

_CORE = """\
define {linkage}void @{name}(ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, \
i64 %a_ld, i64 %b_ld, i64 %ldc, i64 %m, i64 %n, i64 %k) {attributes} {{
entry:
{scratch}
  %no_m = icmp sle i64 %m, 0
  %no_n = icmp sle i64 %n, 0
  %empty = or i1 %no_m, %no_n
  br i1 %empty, label %exit, label %some
some:
{alone}
  br label %start
start:
  br label %block
block:
  %k0 = phi i64 [ 0, %start ], [ %k_next, %block_end ]
  %first = icmp eq i64 %k0, 0
  %k_left = sub i64 %k, %k0
  %steps = call i64 @llvm.smin.i64(i64 %k_left, i64 {kc})
  %steps_more = add i64 %steps, {group_less}
  %groups = udiv i64 %steps_more, {group}
  %steps_full = icmp uge i64 %groups, {unroll}
  %a_offset = mul i64 %k0, {a_per_k}
  %a_there = getelementptr {a_element}, ptr %a, i64 %a_offset
{pack_a}
  %b_offset = mul i64 %k0, {b_per_k}
  %b_block = getelementptr {b_element}, ptr %b, i64 %b_offset
  %b_block_elements = mul i64 {kc}, {b_per_k}
  %b_block_next = getelementptr {b_element}, ptr %b_block, i64 %b_block_elements
  %b_step_bytes = mul i64 {b_per_k}, {b_step}
  br label %column
column:
  %j = phi i64 [ 0, %block ], [ %j_next, %column_end ]
  %j_next = add i64 %j, {nr}
  %more_columns = icmp slt i64 %j_next, %n
  %columns_left = sub i64 %n, %j
  %columns = call i64 @llvm.smin.i64(i64 %columns_left, i64 {nr})
{narrow}
  %columns_full = icmp eq i64 %columns_wide, {nr}
  %inside = and i1 %steps_full, %columns_full
  %b_start = mul i64 %j, {b_per_n}
  %b_there = getelementptr {b_element}, ptr %b_block, i64 %b_start
{pack_b}
  %b_next_start = mul i64 %j_next, {b_per_n}
  %b_beside = getelementptr {b_element}, ptr %b_block, i64 %b_next_start
  %b_next = select i1 %more_columns, ptr %b_beside, ptr %b_block_next
  %c_column = getelementptr {element}, ptr %c, i64 %j
{rows}
row:
  %i = phi i64 [ 0, {row_from} ], [ %i_next, %row_end ]
  %i_next = add i64 %i, {mr}
  %a_start = mul i64 %i, {a_per_m}
  %a_at = getelementptr {element}, ptr %a_block, i64 %a_start
  %c_start = mul i64 %i, %ldc
  %c_at = getelementptr {element}, ptr %c_column, i64 %c_start
  %rows_left = sub i64 %m, %i
  %rows = call i64 @llvm.smin.i64(i64 %rows_left, i64 {mr})
  %rows_full = icmp eq i64 %rows, {mr}
  %full = and i1 %rows_full, %inside
  %b_awaited = icmp eq i64 %i, {b_asking_row}
{ahead}
  br i1 %full, label %micro, label %edge
micro:
  call void @{name}_full({arguments})
  br label %row_end
edge:
  call void @{name}_edge({arguments}, i64 %rows, i64 %columns_wide)
  br label %row_end
row_end:
  %more_rows = icmp slt i64 %i_next, %m
  br i1 %more_rows, label %row, label %rows_end
rows_end:
{rest}
column_end:
  br i1 %more_columns, label %column, label %block_end
block_end:
  %k_next = add i64 %k0, {kc}
  %more_blocks = icmp slt i64 %k_next, %k
  br i1 %more_blocks, label %block, label %exit
exit:
  ret void
}}
"""

# The last few columns of a panel may be done apart, with rows in the lanes of vectors.
_NARROW = """\
  %columns_less = sub i64 %columns, 1
  %columns_rest = urem i64 %columns_less, {lanes}
  %is_narrow = icmp slt i64 %columns_rest, {most}
  %columns_before = sub i64 %columns_less, %columns_rest
  %columns_wide = select i1 %is_narrow, i64 %columns_before, i64 %columns"""

_ROWS = """\
  %no_wide = icmp eq i64 %columns_wide, 0
  br i1 %no_wide, label %rows_end, label %row"""

_REST = """\
  br i1 %is_narrow, label %rest, label %column_end
rest:
  %b_rest = getelementptr {element}, ptr %b_at, i64 %columns_wide
  %c_rest = getelementptr {element}, ptr %c_column, i64 %columns_wide
  %a_panel = mul i64 {a_per_m}, {mr}
  %columns_narrow = sub i64 %columns, %columns_wide
  %panels_full = udiv i64 %m, {mr}
  call void @{name}_narrow(ptr %a_block, i64 %a_panel, ptr %b_rest, ptr %c_rest, i64 %b_stride, i64 %ldc, \
i64 %groups, i1 %first, i64 %panels_full, i64 %columns_narrow)
  %m_panels = mul i64 %panels_full, {mr}
  %m_rest = sub i64 %m, %m_panels
  %no_rest = icmp eq i64 %m_rest, 0
  br i1 %no_rest, label %column_end, label %corner
corner:
  %a_corner_start = mul i64 %m_panels, {a_per_m}
  %a_corner = getelementptr {element}, ptr %a_block, i64 %a_corner_start
  %c_corner_start = mul i64 %m_panels, %ldc
  %c_corner = getelementptr {element}, ptr %c_rest, i64 %c_corner_start
  call void @{name}_edge(ptr %a_corner, ptr %b_rest, ptr %c_corner, i64 %b_stride, i64 %ldc, i64 %groups, i1 %first, \
ptr %b_at, i64 0, i64 %m_rest, i64 %columns_narrow)
  br label %column_end"""

# Ask for the next panel of b, with the first rows: hardware does not foresee it. It is 6 % of the whole at sizes over
# 512, and half of it with few rows. When there is nothing to ask for, a step of 0 repeats a line at hand.
_PREFETCH_B = """\
  %ahead = select i1 %b_awaited, ptr %b_next, ptr %b_at
  %ahead_step = select i1 %b_awaited, i64 {b_step_bytes}, i64 0"""

# A packed a is new to the cache in the first panel of columns: ask for the next panel of rows.
_PREFETCH_A_AND_B = """\
  %a_awaited = icmp eq i64 %j, 0
  %a_next_start = mul i64 %i_next, {a_per_m}
  %a_next = getelementptr {element}, ptr %a_block, i64 %a_next_start
  %a_or_none = select i1 %a_awaited, ptr %a_next, ptr %b_at
  %a_step = select i1 %a_awaited, i64 {line_bytes}, i64 0
  %ahead = select i1 %b_awaited, ptr %b_next, ptr %a_or_none
  %ahead_step = select i1 %b_awaited, i64 {b_step_bytes}, i64 %a_step"""


def emit_core(tile: GemmTile, name: str, linkage: str = "") -> str:
    """Emits the core `void @name(a, b, c, a_ld, b_ld, ldc, m, n, k)` and the functions that it calls.

    It computes `c[i * ldc + j]` for i in [0, m) and j in [0, n) over all of k, +0.0 where k = 0. `a` and `b` point
    where the tile's elements (0, 0) are; where `b` is made, it points to the function, its arguments, the batch, and
    the first column and step of k. `a_ld` is the number M of rows of the whole operand in the packed format "row", the
    stride of an `a` that is not packed, else unused; `b_ld` is the stride of a `b` that is not packed, else unused. `m`
    is at most `mc` where `a` is not packed; else any sizes are right, and those of a macro tile fast.
    """
    sources = {
        "element": tile.element,
        "kc": tile.kc,
        "a_per_m": _a_per_m(tile),
        "line_bytes": LINE_BYTES,
        "b_step_bytes": "%b_step_bytes",
    }
    core = _CORE.format(
        **sources,
        name=name,
        linkage=f"{linkage} " if linkage else "",
        attributes=tile.attributes,
        arguments=_MICRO_ARGUMENTS,
        mr=tile.mr,
        nr=tile.nr,
        unroll=tile.unroll,
        a_per_k=_a_per_k(tile),
        b_per_k=_b_per_k(tile),
        b_per_n=_b_per_n(tile),
        b_asking_row=-1 if tile.b_made or (not tile.b_packed and tile.b_format == "column") else 0,
        a_element=_operand(tile, tile.a_packed),
        b_element=_operand(tile, tile.b_packed),
        b_step=tile.itemsize if tile.b_packed else tile.source_bytes,
        group=tile.group,
        group_less=tile.group - 1,
        scratch="\n".join(_scratch(tile)),
        alone="\n".join(gemv_cases(tile, name, _a_per_k(tile))),
        pack_a=(_USE_A if tile.a_packed else _PACK_A).format(name=name),
        pack_b=_panel_of_b(tile, name),
        row_from="%ready" if reads_in_place(tile) else "%column",
        ahead=(_PREFETCH_A_AND_B if tile.a_packed else _PREFETCH_B).format(**sources),
        **_narrow_parts(tile, name),
    )
    kernels = (full_kernel(tile), *part_kernels(tile), *edge_kernels(tile))
    parts = [emit_micro(kernel, f"{name}_{kernel.name}") for kernel in kernels]
    parts += [_emit_edge(tile, name), emit_gemv(tile, name)]
    if most_narrow(tile):
        parts.append(emit_narrow(tile, f"{name}_narrow"))
    if not tile.a_packed:
        parts.append(emit_pack_a_block(tile, f"{name}_pack_a"))
    if not (tile.b_packed or tile.makes_packed):
        parts.append(emit_pack_b_panel(tile, f"{name}_pack_b", transposed=tile.b_format == "column"))
    if tile.is_offset:
        parts.append(emit_compensation(tile, f"{name}_starts"))
    return "\n".join((*parts, core))


def _narrow_parts(tile: GemmTile, name: str) -> dict[str, str]:
    """How the last few columns of a panel are done apart, where they are."""
    most = most_narrow(tile)
    if not most:
        wide = "  %columns_wide = add i64 %columns, 0"
        return {"narrow": wide, "rows": "  br label %row", "rest": "  br label %column_end"}
    fields = {"name": name, "element": tile.element, "a_per_m": _a_per_m(tile), "mr": tile.mr}
    return {"narrow": _NARROW.format(lanes=tile.lanes, most=most), "rows": _ROWS, "rest": _REST.format(**fields)}


def declare_core(name: str) -> str:
    """IR that declares a core which another module defines."""
    return f"declare void @{name}({_CORE_TYPES})\n"


def _scratch(tile: GemmTile) -> Iterator[str]:
    """The core's own memory for operands that it packs, and the question whether `b` is used in place."""
    if not tile.a_packed:
        yield f"  %a_block = alloca [{tile.mc * tile.block_steps} x {tile.element}], align 64"
    if not tile.b_packed:
        yield from _padded_panel("%b_panel", tile.panel_elements, tile.nr if tile.makes_packed else 0, tile.element)
    if tile.b_made:
        yield _FIND_MAKER
        if not tile.makes_packed:
            yield from _padded_panel(
                "%b_made", tile.nr * tile.kc, tile.nr if tile.b_format == "row" else 0, tile.source
            )
    if reads_in_place(tile):
        yield f"  %in_place = icmp sle i64 %m, {2 * tile.mr}"


def _padded_panel(name: str, elements: int, step: int, element: str) -> Iterator[str]:
    """Memory of a panel, with room around it for steps that were not asked for."""
    room = step * MADE_AROUND
    yield f"  {name}_memory = alloca [{elements + 2 * room} x {element}], align 64"
    yield f"  {name} = getelementptr {element}, ptr {name}_memory, i64 {room}"


def _panel_of_b(tile: GemmTile, name: str) -> str:
    """How a panel of `b` comes to lie as the inner kernels read it."""
    fields = {"name": name, "nr": tile.nr, "starts": _SET_STARTS.format(name=name) if tile.is_offset else ""}
    if tile.b_made:
        made, pack = ("%b_panel", "") if tile.makes_packed else ("%b_made", _PACK_MADE_B)
        return _MAKE_B.format(**fields, made=made, pack=pack.format(**fields, made_ld=tile.made_ld))
    if tile.b_packed:
        return _USE_B.format(**fields)
    return (_PACK_OR_USE_B if reads_in_place(tile) else _PACK_B).format(**fields)


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
    """IR of the internal function that covers any rows and columns up to a full tile with edge kernels.

    The kernel of the fewest rows takes what fits it, that of the most rows the rest, a kernel's rows at a time.
    """
    few, many = edge_rows(tile)
    lines = [
        f"define internal void @{name}_edge({PARAMETERS}, i64 %rows, i64 %columns) noinline {tile.attributes} {{",
        "entry:",
        "  %column = sub i64 %columns, 1",
        f"  %vector = udiv i64 %column, {tile.lanes}",
        f"  %before = mul i64 %vector, {tile.lanes}",
        "  %last = sub i64 %columns, %before",
        *_parts_of_all_rows(tile, name),
        "pieces:",
        "  br label %piece",
        "piece:",
        "  %row = phi i64 [ 0, %pieces ], [ %row_next, %piece_end ]",
        "  %rows_left = sub i64 %rows, %row",
        f"  %is_few = icmp sle i64 %rows_left, {few}",
        f"  %most = select i1 %is_few, i64 {few}, i64 {many}",
        "  %piece_rows = call i64 @llvm.smin.i64(i64 %rows_left, i64 %most)",
        f"  %a_start = mul i64 %row, {tile.block_steps if tile.a_format == 'row' else 1}",
        f"  %a_at = getelementptr {tile.element}, ptr %a, i64 %a_start",
        "  %c_start = mul i64 %row, %ldc",
        f"  %c_at = getelementptr {tile.element}, ptr %c, i64 %c_start",
        f"  %kernel = select i1 %is_few, i64 0, i64 {tile.vectors}",
        "  %number = add i64 %kernel, %vector",
        "  switch i64 %number, label %never [",
        *(f"    i64 {number}, label %{kernel.name}" for number, kernel in enumerate(edge_kernels(tile))),
        "  ]",
        "never:",
        "  unreachable",
    ]
    arguments = "ptr %a_at, ptr %b, ptr %c_at, i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, ptr %ahead, "
    arguments += "i64 %ahead_step, i64 %piece_rows"
    for kernel in edge_kernels(tile):
        lines += [
            f"{kernel.name}:",
            f"  call void @{name}_{kernel.name}({arguments}, i64 %last)",
            "  br label %piece_end",
        ]
    lines += [
        "piece_end:",
        "  %row_next = add i64 %row, %most",
        "  %more = icmp slt i64 %row_next, %rows",
        "  br i1 %more, label %piece, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _parts_of_all_rows(tile: GemmTile, name: str) -> Iterator[str]:
    """The start of an edge: all rows of fewer vectors are left to a full kernel for these, where there is one."""
    kernels = part_kernels(tile)
    yield f"  %rows_all = icmp eq i64 %rows, {tile.mr}"
    yield f"  %steps_full = icmp uge i64 %steps, {tile.unroll}"
    yield "  %is_part = and i1 %rows_all, %steps_full"
    yield f"  %part = select i1 %is_part, i64 %vector, i64 {tile.vectors}"
    yield "  switch i64 %part, label %pieces ["
    yield from (f"    i64 {kernel.vectors - 1}, label %{kernel.name}" for kernel in kernels)
    yield "  ]"
    for kernel in kernels:
        yield f"{kernel.name}:"
        arguments = (
            "ptr %a, ptr %b, ptr %c, i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, ptr %ahead, i64 %ahead_step"
        )
        yield f"  call void @{name}_{kernel.name}({arguments}, i64 %last)"
        yield "  br label %exit"


_ADDRESSES = ("a", "b", "c", "sums")
_TASK = """\
define void @{name}(ptr %args, i64 %begin, i64 %end) {attributes} {{
entry:
{loads}
  %m_before = sub i64 %m, 1
  %m_less = udiv i64 %m_before, %tile_m
  %m_tiles = add i64 %m_less, 1
  %n_before = sub i64 %n, 1
  %n_less = udiv i64 %n_before, %tile_n
  %n_tiles = add i64 %n_less, 1
{scratch}
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %task, label %exit
task:
  %index = phi i64 [ %begin, %entry ], [ %index_next, %next ]
{place}
  %rest = udiv i64 %tile, %m_tiles
  %m_tile = urem i64 %tile, %m_tiles
  %batch = udiv i64 %rest, %n_tiles
  %n_tile = urem i64 %rest, %n_tiles
  %outer = udiv i64 %batch, %inner_batches
  %inner = urem i64 %batch, %inner_batches
  %m0 = mul i64 %m_tile, %tile_m
  %n0 = mul i64 %n_tile, %tile_n
  %m_left = sub i64 %m, %m0
  %n_left = sub i64 %n, %n0
  %rows = call i64 @llvm.smin.i64(i64 %m_left, i64 %tile_m)
  %columns = call i64 @llvm.smin.i64(i64 %n_left, i64 %tile_n)
  %a_outer_at = mul i64 %outer, %a_batch
  %a_inner_at = mul i64 %inner, %a_inner
  %a_first = add i64 %a_outer_at, %a_inner_at
  %a_start = mul i64 %m0, {a_per_m}
  %a_index = add i64 %a_first, %a_start
  %a_at = getelementptr {a_element}, ptr %a, i64 %a_index
{operand}
{tile}
{product}
finished:
{epilogue}
  br label %next
next:
  %index_next = add i64 %index, 1
  %more = icmp slt i64 %index_next, %end
  br i1 %more, label %task, label %exit
exit:
  ret void
}}
"""

_WHOLE = """\
  call void @{core}(ptr %a_at, ptr %b_at, ptr %c_at, i64 %a_ld, i64 %b_ld, i64 {ldc}, \
i64 %rows, i64 %columns, i64 %k)
  br label %finished"""

_B_IN_MEMORY = """\
  %b_outer_at = mul i64 %outer, %b_batch
  %b_inner_at = mul i64 %inner, %b_inner
  %b_first = add i64 %b_outer_at, %b_inner_at
  %b_start = mul i64 %n0, {b_per_n}
  %b_index = add i64 %b_first, %b_start
  %b_at = getelementptr {b_element}, ptr %b, i64 %b_index"""

_B_MADE = """\
  store ptr @{panel}, ptr %b_at, align 8
  store ptr %args, ptr %words_at, align 8
  store i64 %batch, ptr %batch_at, align 8
  store i64 %n0, ptr %first_at, align 8
  store i64 0, ptr %step_at, align 8"""

_MAKER = """\
  %b_at = alloca [5 x i64], align 8
  %words_at = getelementptr i64, ptr %b_at, i64 1
  %batch_at = getelementptr i64, ptr %b_at, i64 2
  %first_at = getelementptr i64, ptr %b_at, i64 3
  %step_at = getelementptr i64, ptr %b_at, i64 4
"""

_TILE_IN_C = """\
  %c_outer_at = mul i64 %outer, %c_batch
  %c_inner_at = mul i64 %inner, %c_inner
  %c_first = add i64 %c_outer_at, %c_inner_at
  %c_row = mul i64 %m0, %ldc
  %c_start = add i64 %c_row, %n0
  %c_index = add i64 %c_first, %c_start
  %c_at = getelementptr {element}, ptr %c, i64 %c_index"""


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
    """IR of the kernel `void @name(args, begin, end)`: macro tiles [begin, end) of a batch of products.

    Tiles are numbered `(batch * n_tiles + n_tile) * m_tiles + m_tile`. The arguments begin with `TASK_ARGS`; where `a`
    is in the packed format "column", `tile_m` is a multiple of `mr`, and `tile_n` is one of `nr` where `b` is packed.
    Tiles are at most `mc` high where the core packs `a`, and `mc` x `scratch_nc` with `scratch`.

    With an `epilogue`, the function `void @epilogue(args, tile, tile_ld, batch, m0, n0, rows, columns)` is called on
    each finished tile, `tile[i * tile_ld + j]`. The tile is in `c`, or with `scratch` in memory of the task's own: its
    stack, `mc * scratch_nc` elements; `c` is then left alone.

    Where `b` is made, `void @panel(args, to, batch, k0, n0, steps, columns)` writes its elements (k0, n0) and so on, as
    many as it is told, to `to[t * made_ld + j]`, or to `to[t + j * made_ld]` in the format "column". In "row" it may
    write up to `MADE_AROUND` steps before and after these as well.

    With `split_k` a tile may have several tasks, `(tile number) * parts + part`, each of which computes the blocks of
    its part of k: `gemm_parts`.
    """
    loads = []
    for index, word in enumerate(TASK_ARGS):
        loads.append(f"  %{word}_word = getelementptr i64, ptr %args, i64 {index}")
        loads.append(f"  %{word} = load {'ptr' if word in _ADDRESSES else 'i64'}, ptr %{word}_word, align 8")
    ldc = "%tile_n" if scratch else "%ldc"
    arguments = f"ptr %args, ptr %c_at, i64 {ldc}, i64 %batch, i64 %m0, i64 %n0, i64 %rows, i64 %columns"
    call = f"  call void @{epilogue}({arguments})" if epilogue else ""
    product = _WHOLE.format(core=core, ldc=ldc)
    steps = {"a_per_k": _a_per_k(tile), "b_per_k": _b_per_k(tile)}
    operands = {"a_element": _operand(tile, tile.a_packed), "b_element": _operand(tile, tile.b_packed)}
    if split_k:
        product = split_k_product(tile, name, product, core=core, ldc=ldc, **steps, **operands)
    task = _TASK.format(
        name=name,
        place=TASK_PART if split_k else "  %tile = add i64 %index, 0",
        product=product,
        attributes=tile.attributes,
        a_element=operands["a_element"],
        loads="\n".join(loads),
        a_per_m=_a_tile_per_m(tile),
        operand=_B_MADE.format(panel=panel)
        if tile.b_made
        else _B_IN_MEMORY.format(b_per_n=_b_per_n(tile), b_element=_operand(tile, tile.b_packed)),
        scratch=(_MAKER if tile.b_made else "")
        + (f"  %c_at = alloca [{tile.mc * tile.scratch_nc} x {tile.element}], align 64" if scratch else ""),
        tile="" if scratch else _TILE_IN_C.format(element=tile.element),
        epilogue=call,
    )
    return emit_reduce_partials(tile, name) + task if split_k else task
