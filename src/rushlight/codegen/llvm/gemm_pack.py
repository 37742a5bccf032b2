"""Packing as LLVM IR text: blocks of `a` inside the core, and whole operands `b` as a task of their own."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator

from rushlight.codegen.llvm.gemm_micro import load_vector, mask_lines, store_vector
from rushlight.ir.gemm_tile import GemmTile

_PACK_A_ROWS = """\
define internal void @{name}(ptr noalias %to, ptr noalias readonly %from, i64 %from_ld, i64 %rows, i64 %steps) \
noinline {attributes} {{
entry:
  %rest = urem i64 %steps, {lanes}
  %whole = sub i64 %steps, %rest
  %two_rows = shl i64 %from_ld, 1
{mask}
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i_next, %row_end ]
  %from_start = mul i64 %i, %from_ld
  %from_row = getelementptr {element}, ptr %from, i64 %from_start
  %to_start = mul i64 %i, {kc}
  %to_row = getelementptr {element}, ptr %to, i64 %to_start
  %short = icmp eq i64 %whole, 0
  br i1 %short, label %tail, label %vector
vector:
  %t = phi i64 [ 0, %row ], [ %t_next, %vector ]
  %from_at = getelementptr {element}, ptr %from_row, i64 %t
  %ahead = getelementptr {element}, ptr %from_at, i64 %two_rows
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 2, i32 1)
{load}
  %to_at = getelementptr {element}, ptr %to_row, i64 %t
{store}
  %t_next = add i64 %t, {lanes}
  %more = icmp slt i64 %t_next, %whole
  br i1 %more, label %vector, label %tail
tail:
  %no_tail = icmp eq i64 %rest, 0
  br i1 %no_tail, label %row_end, label %last
last:
  %from_last = getelementptr {element}, ptr %from_row, i64 %whole
{load_last}
  %to_last = getelementptr {element}, ptr %to_row, i64 %whole
{store_last}
  br label %row_end
row_end:
  %i_next = add i64 %i, 1
  %more_rows = icmp slt i64 %i_next, %rows
  br i1 %more_rows, label %row, label %exit
exit:
  ret void
}}
"""

# A few steps along k at a time: the lines that one panel reads in part are still in the cache for the next panel, and
# each panel is written in one piece. Steps that do not exist are the last one again.
_PACK_A_COLUMNS = """\
define internal void @{name}(ptr noalias %to, ptr noalias readonly %from, i64 %from_ld, i64 %rows, i64 %steps) \
noinline {attributes} {{
entry:
  %none = icmp eq i64 %steps, 0
  %last = sub i64 %steps, 1
  br i1 %none, label %exit, label %step
step:
  %t = phi i64 [ 0, %entry ], [ %t_next, %step_end ]
{addresses}
  br label %panel
panel:
  %i = phi i64 [ 0, %step ], [ %i_next, %panel ]
  %to_panel_start = mul i64 %i, {kc}
  %left = sub i64 %rows, %i
  %panel_rows = call i64 @llvm.smin.i64(i64 %left, i64 {mr})
{copies}
  %i_next = add i64 %i, {mr}
  %more_panels = icmp slt i64 %i_next, %rows
  br i1 %more_panels, label %panel, label %step_end
step_end:
  %t_next = add i64 %t, {together}
  %more_steps = icmp slt i64 %t_next, %steps
  br i1 %more_steps, label %step, label %exit
exit:
  ret void
}}
"""
_STEPS_TOGETHER = 4


def emit_pack_a_block(tile: GemmTile, name: str) -> str:
    """IR of the internal function `void @name(to, from, from_ld, rows, steps)` that packs a block of a plain `a`.

    `to` is laid out as the packed format of a whole operand with 256 steps along k.
    """
    fields = {"name": name, "attributes": tile.attributes, "element": tile.element, "kc": tile.kc}
    if tile.a_format == "column":
        addresses, copies = "\n".join(_step_addresses(tile)), "\n".join(_panel_copies(tile))
        return _PACK_A_COLUMNS.format(
            **fields, mr=tile.mr, together=_STEPS_TOGETHER, addresses=addresses, copies=copies
        )
    return _PACK_A_ROWS.format(
        **fields,
        lanes=tile.lanes,
        mask="\n".join(mask_lines(tile.lanes, "%rest")),
        load=load_vector(tile, "%value", "%from_at"),
        store=store_vector(tile, "%value", "%to_at"),
        load_last=load_vector(tile, "%value_last", "%from_last", "%mask"),
        store_last=store_vector(tile, "%value_last", "%to_last", "%mask"),
    )


def _step_addresses(tile: GemmTile) -> Iterator[str]:
    """`%from0`, `%to0` …: where the steps along k that are taken together start, in `a` and in each packed panel."""
    for step in range(_STEPS_TOGETHER):
        yield f"  %wish{step} = add i64 %t, {step}"
        yield f"  %t{step} = call i64 @llvm.smin.i64(i64 %wish{step}, i64 %last)"
        yield f"  %from_start{step} = mul i64 %t{step}, %from_ld"
        yield f"  %from{step} = getelementptr {tile.element}, ptr %from, i64 %from_start{step}"
        yield f"  %to_start{step} = mul i64 %t{step}, {tile.mr}"
        yield f"  %to{step} = getelementptr {tile.element}, ptr %to, i64 %to_start{step}"


def _panel_copies(tile: GemmTile) -> Iterator[str]:
    """One panel's rows in each of the steps that are taken together."""
    vectors = -(-tile.mr // tile.lanes)
    for vector in range(vectors):
        yield f"  %rows{vector} = sub i64 %panel_rows, {vector * tile.lanes}"
        yield f"  %rows_left{vector} = call i64 @llvm.smax.i64(i64 %rows{vector}, i64 0)"
        yield from mask_lines(tile.lanes, f"%rows_left{vector}", str(vector))
    for step in range(_STEPS_TOGETHER):
        for vector in range(vectors):
            at = f"{step}_{vector}"
            yield f"  %row{at} = add i64 %i, {vector * tile.lanes}"
            yield f"  %place{at} = add i64 %to_panel_start, {vector * tile.lanes}"
            yield f"  %from_at{at} = getelementptr {tile.element}, ptr %from{step}, i64 %row{at}"
            yield f"  %to_at{at} = getelementptr {tile.element}, ptr %to{step}, i64 %place{at}"
            yield load_vector(tile, f"%value{at}", f"%from_at{at}", f"%mask{vector}")
            yield store_vector(tile, f"%value{at}", f"%to_at{at}", f"%mask{vector}")


PACK_WORDS = ("b", "packed", "n", "k", "b_ld", "b_batch", "packed_batch")
"""The i64 words of the arguments of a task that packs `b`: two addresses, then sizes and strides in elements."""

_PACK_B = """\
define void @{name}(ptr %args, i64 %begin, i64 %end) {attributes} {{
entry:
{loads}
  %n_less = sub i64 %n, 1
  %panels_less = udiv i64 %n_less, {nr}
  %panels = add i64 %panels_less, 1
  %k_less = add i64 %k, {kc_less}
  %blocks = udiv i64 %k_less, {kc}
  %per_batch = mul i64 %panels, %blocks
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %task, label %exit
task:
  %index = phi i64 [ %begin, %entry ], [ %index_next, %task ]
  %batch = udiv i64 %index, %per_batch
  %within = urem i64 %index, %per_batch
  %panel = udiv i64 %within, %blocks
  %block = urem i64 %within, %blocks
  %n0 = mul i64 %panel, {nr}
  %k0 = mul i64 %block, {kc}
  %n_left = sub i64 %n, %n0
  %columns = call i64 @llvm.smin.i64(i64 %n_left, i64 {nr})
  %k_left = sub i64 %k, %k0
  %steps = call i64 @llvm.smin.i64(i64 %k_left, i64 {kc})
  %b_first = mul i64 %batch, %b_batch
  %b_row = mul i64 %k0, {b_per_k}
  %b_column = mul i64 %n0, {b_per_n}
  %b_start = add i64 %b_row, %b_column
  %b_index = add i64 %b_first, %b_start
  %from = getelementptr {element}, ptr %b, i64 %b_index
  %packed_first = mul i64 %batch, %packed_batch
  %packed_column = mul i64 %n0, %k
  %packed_row = mul i64 %k0, {nr}
  %packed_start = add i64 %packed_column, %packed_row
  %packed_index = add i64 %packed_first, %packed_start
  %to = getelementptr {element}, ptr %packed, i64 %packed_index
  call void @{name}_panel(ptr %to, ptr %from, i64 %b_ld, i64 %columns, i64 %steps)
  %index_next = add i64 %index, 1
  %more = icmp slt i64 %index_next, %end
  br i1 %more, label %task, label %exit
exit:
  ret void
}}
"""

_PANEL_OF_ROWS = """\
define internal void @{name}(ptr noalias %to, ptr noalias readonly %from, \
i64 %from_ld, i64 %columns, i64 %steps) noinline {attributes} {{
entry:
  %none = icmp eq i64 %steps, 0
  br i1 %none, label %exit, label %some
some:
  %is_full = icmp eq i64 %columns, {nr}
  br i1 %is_full, label %full, label %step
full:
  %u = phi i64 [ 0, %some ], [ %u_next, %full ]
  %from_full = phi ptr [ %from, %some ], [ %from_next, %full ]
  %to_full = phi ptr [ %to, %some ], [ %to_next, %full ]
{full}
  %from_next = getelementptr {element}, ptr %from_full, i64 %from_ld
  %to_next = getelementptr {element}, ptr %to_full, i64 {nr}
  %u_next = add i64 %u, 1
  %more_full = icmp slt i64 %u_next, %steps
  br i1 %more_full, label %full, label %exit
step:
  %t = phi i64 [ 0, %some ], [ %t_next, %step_end ]
  %from_start = mul i64 %t, %from_ld
  %from_step = getelementptr {element}, ptr %from, i64 %from_start
  %to_start = mul i64 %t, {nr}
  %to_step = getelementptr {element}, ptr %to, i64 %to_start
  br label %vector
vector:
  %j = phi i64 [ 0, %step ], [ %j_next, %vector ]
  %remaining = sub i64 %columns, %j
{mask}
  %from_at = getelementptr {element}, ptr %from_step, i64 %j
{load}
  %to_at = getelementptr {element}, ptr %to_step, i64 %j
{store}
  %j_next = add i64 %j, {lanes}
  %more = icmp slt i64 %j_next, %columns
  br i1 %more, label %vector, label %step_end
step_end:
  %t_next = add i64 %t, 1
  %more_steps = icmp slt i64 %t_next, %steps
  br i1 %more_steps, label %step, label %exit
exit:
  ret void
}}
"""

_PANEL_OF_COLUMNS = """\
define internal void @{name}(ptr noalias %to, ptr noalias readonly %from, \
i64 %from_ld, i64 %columns, i64 %steps) noinline {attributes} {{
entry:
  %rest = urem i64 %steps, {lanes}
  %whole = sub i64 %steps, %rest
  %column_last = sub i64 %columns, 1
  br label %group
group:
  %j = phi i64 [ 0, %entry ], [ %j_next, %group_end ]
{rows}
  %short = icmp eq i64 %whole, 0
  br i1 %short, label %tail, label %square
square:
  %t = phi i64 [ 0, %group ], [ %t_next, %square ]
{square}
  %t_next = add i64 %t, {lanes}
  %more = icmp slt i64 %t_next, %whole
  br i1 %more, label %square, label %tail
tail:
  %no_tail = icmp eq i64 %rest, 0
  br i1 %no_tail, label %group_end, label %one
one:
  %u = phi i64 [ %whole, %tail ], [ %u_next, %one ]
{one}
  %u_next = add i64 %u, 1
  %more_ones = icmp slt i64 %u_next, %steps
  br i1 %more_ones, label %one, label %group_end
group_end:
  %j_next = add i64 %j, {lanes}
  %more_groups = icmp slt i64 %j_next, %columns
  br i1 %more_groups, label %group, label %exit
exit:
  ret void
}}
"""


def emit_pack_b(tile: GemmTile, name: str, *, transposed: bool = False) -> str:
    """IR of the kernel `void @name(args, begin, end)` that packs a batch of operands `b`.

    Its arguments are `PACK_WORDS`. Element (k, n) is at `k * b_ld + n`, or if `transposed` at `n * b_ld + k`. The
    parallel index counts batches, panels of `nr` columns and blocks of 256 along k, in row-major order.
    """
    loads = []
    for index, word in enumerate(PACK_WORDS):
        loads.append(f"  %{word}_word = getelementptr i64, ptr %args, i64 {index}")
        loads.append(f"  %{word} = load {'ptr' if index < 2 else 'i64'}, ptr %{word}_word, align 8")
    task = _PACK_B.format(
        name=name,
        attributes=tile.attributes,
        element=tile.element,
        nr=tile.nr,
        kc=tile.kc,
        kc_less=tile.kc - 1,
        loads="\n".join(loads),
        b_per_k=1 if transposed else "%b_ld",
        b_per_n="%b_ld" if transposed else 1,
    )
    return f"{emit_pack_b_panel(tile, f'{name}_panel', transposed=transposed)}\n{task}"


def emit_pack_b_panel(tile: GemmTile, name: str, *, transposed: bool) -> str:
    """IR of the internal function `void @name(to, from, from_ld, columns, steps)` that packs a panel of a plain `b`."""
    fields = {
        "name": name,
        "attributes": tile.attributes,
        "element": tile.element,
        "lanes": tile.lanes,
        "nr": tile.nr,
    }
    if transposed:
        return _PANEL_OF_COLUMNS.format(
            **fields,
            rows="\n".join(_column_addresses(tile)),
            square="\n".join(_square(tile)),
            one="\n".join(_one_step(tile)),
        )
    return _PANEL_OF_ROWS.format(
        **fields,
        full="\n".join(_full_step(tile)),
        mask="\n".join(mask_lines(tile.lanes, "%remaining")),
        load=load_vector(tile, "%value", "%from_at", "%mask"),
        store=store_vector(tile, "%value", "%to_at"),
    )


def _full_step(tile: GemmTile) -> Iterator[str]:
    """One step along k of a panel that has all its columns."""
    for vector in range(tile.vectors):
        for word in ("from", "to"):
            yield f"  %{word}_full{vector} = getelementptr {tile.element}, ptr %{word}_full, i64 {vector * tile.lanes}"
        yield load_vector(tile, f"%full{vector}", f"%from_full{vector}")
    for vector in range(tile.vectors):
        yield store_vector(tile, f"%full{vector}", f"%to_full{vector}")


def _column_addresses(tile: GemmTile) -> Iterator[str]:
    """`%from0` …: where the columns of a group start; columns that do not exist are the last one again."""
    for lane in range(tile.lanes):
        yield f"  %column{lane}_wish = add i64 %j, {lane}"
        yield f"  %column{lane} = call i64 @llvm.smin.i64(i64 %column{lane}_wish, i64 %column_last)"
        yield f"  %from{lane}_start = mul i64 %column{lane}, %from_ld"
        yield f"  %from{lane} = getelementptr {tile.element}, ptr %from, i64 %from{lane}_start"


def _square(tile: GemmTile) -> Iterator[str]:
    """Transpose a square of `lanes` columns by `lanes` steps along k."""
    names = []
    for lane in range(tile.lanes):
        yield f"  %square{lane}_at = getelementptr {tile.element}, ptr %from{lane}, i64 %t"
        yield load_vector(tile, f"%square{lane}", f"%square{lane}_at")
        names.append(f"%square{lane}")
    names = yield from _transpose(tile, names)
    for lane, name in enumerate(names):
        yield f"  %step{lane} = add i64 %t, {lane}"
        yield f"  %step{lane}_start = mul i64 %step{lane}, {tile.nr}"
        yield f"  %step{lane}_index = add i64 %step{lane}_start, %j"
        yield f"  %step{lane}_at = getelementptr {tile.element}, ptr %to, i64 %step{lane}_index"
        yield store_vector(tile, name, f"%step{lane}_at")


def _transpose(tile: GemmTile, names: list[str]) -> Generator[str, None, list[str]]:
    """Transpose as many vectors as they have lanes, with shuffles that are one short instruction each.

    First within pieces of 16 bytes: to interleave the halves of vectors i and i + half, for all i in the lower half,
    rotates the bits of (vector, lane) by one, so that as many rounds as a lane number has bits exchange the two. Then
    pieces move as a whole: even pieces of two neighbours make one vector and odd ones another, which rotates the other
    way.
    """
    lanes, piece = tile.lanes, 16 // tile.itemsize
    groups, half = lanes // piece, piece // 2
    for turn in range(piece.bit_length() - 1):
        firsts = [group * piece + low for group in range(groups) for low in range(half)]
        pairs = [(names[first], names[first + half]) for first in firsts]
        names = yield from _shuffle(tile, f"%zip{turn}", pairs, _interleaved_halves(lanes, piece))
    columns = [[names[group * piece + low] for group in range(groups)] for low in range(piece)]
    for low in range(piece):
        for turn in range(groups.bit_length() - 1):
            pairs = list(zip(columns[low][::2], columns[low][1::2], strict=True))
            both = yield from _shuffle(tile, f"%piece{turn}_{low}", pairs, _pieces(lanes, piece))
            columns[low] = both[::2] + both[1::2]
    return [columns[lane % piece][lane // piece] for lane in range(lanes)]


def _interleaved_halves(lanes: int, piece: int) -> tuple[list[int], ...]:
    """The lanes of two vectors with lower halves of their pieces interleaved, and those with upper halves."""
    return tuple(
        [
            start + place + other
            for start in range(0, lanes, piece)
            for place in range(first, first + piece // 2)
            for other in (0, lanes)
        ]
        for first in (0, piece // 2)
    )


def _pieces(lanes: int, piece: int) -> tuple[list[int], ...]:
    """The lanes of the even pieces of two vectors, and of the odd ones."""
    return tuple(
        [start + place for start in range(first, 2 * lanes, 2 * piece) for place in range(piece)]
        for first in (0, piece)
    )


def _shuffle(
    tile: GemmTile, name: str, pairs: list[tuple[str, str]], masks: tuple[list[int], ...]
) -> Generator[str, None, list[str]]:
    """Shuffle each pair of vectors by each mask; the names of the results, those of a pair beside each other."""
    names: list[str] = []
    for pair, mask in itertools.product(pairs, masks):
        names.append(f"{name}_{len(names)}")
        numbers = ", ".join(f"i32 {lane}" for lane in mask)
        operands = f"{tile.vector} {pair[0]}, {tile.vector} {pair[1]}"
        yield f"  {names[-1]} = shufflevector {operands}, <{tile.lanes} x i32> <{numbers}>"
    return names


def _one_step(tile: GemmTile) -> Iterator[str]:
    """Gather one step along k from the columns of a group."""
    value = "poison"
    for lane in range(tile.lanes):
        yield f"  %one{lane}_at = getelementptr {tile.element}, ptr %from{lane}, i64 %u"
        yield f"  %one{lane} = load {tile.element}, ptr %one{lane}_at, align {tile.itemsize}"
        yield f"  %ones{lane} = insertelement {tile.vector} {value}, {tile.element} %one{lane}, i32 {lane}"
        value = f"%ones{lane}"
    yield f"  %one_start = mul i64 %u, {tile.nr}"
    yield "  %one_index = add i64 %one_start, %j"
    yield f"  %one_at = getelementptr {tile.element}, ptr %to, i64 %one_index"
    yield store_vector(tile, value, "%one_at")
