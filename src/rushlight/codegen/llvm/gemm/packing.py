"""Packing as LLVM IR text: blocks of `a` and panels of `b`, inside the core."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from rushlight.codegen.llvm.gemm.micro_kernel import (
    Vectors,
    load_vector,
    mask_lines,
    member_vectors,
    multiply_add,
    source_vectors,
    store_vector,
    sum_vectors,
    widened,
)
from rushlight.codegen.llvm.gemm.transpose import column_addresses, load_column_address, transpose, transpose_pieces
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
  %to_row = getelementptr {member}, ptr %to, i64 %to_start
  %short = icmp eq i64 %whole, 0
  br i1 %short, label %tail, label %vector
vector:
  %t = phi i64 [ 0, %row ], [ %t_next, %vector ]
  %from_at = getelementptr {element}, ptr %from_row, i64 %t
  %ahead = getelementptr {element}, ptr %from_at, i64 %two_rows
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 2, i32 1)
{load}
  %to_at = getelementptr {member}, ptr %to_row, i64 %t
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
  %to_last = getelementptr {member}, ptr %to_row, i64 %whole
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
# each panel is written in one piece. Groups of steps that do not exist are the last one again.
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
  %to_panel_start = mul i64 %i, {block_steps}
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
    """Emits `void @name(to, from, from_ld, rows, steps)`, which packs a block of a plain `a`.

    `to` is laid out as the packed format of a whole operand with 256 steps along k.
    """
    fields = {"name": name, "attributes": tile.attributes}
    if tile.a_format == "column":
        return _PACK_A_COLUMNS.format(
            **fields,
            block_steps=tile.block_steps,
            mr=tile.mr,
            together=_STEPS_TOGETHER * tile.group,
            addresses="\n".join(_step_addresses(tile)),
            copies="\n".join(_panel_copies(tile)),
        )
    kind = source_vectors(tile, tile.vector_bytes // tile.member_bytes)
    return _PACK_A_ROWS.format(
        **fields,
        element=tile.source,
        member=tile.member,
        kc=tile.kc,
        lanes=kind.lanes,
        mask="\n".join(mask_lines(kind.lanes, "%rest")),
        load=load_vector(kind, "%value", "%from_at"),
        store="\n".join(_store_members(tile, kind.lanes, "%value", "%to_at")),
        load_last=load_vector(kind, "%value_last", "%from_last", "%mask"),
        store_last="\n".join(
            _store_members(tile, kind.lanes, "%value_last", "%to_last", "%mask" if tile.group == 1 else None)
        ),
    )


def _step_addresses(tile: GemmTile) -> Iterator[str]:
    """`%from0` …: where the steps along k that are taken together start in `a`; `%to0` …: in each packed panel."""
    yield f"  %group_last = udiv i64 %last, {tile.group}"
    yield f"  %group_first = udiv i64 %t, {tile.group}"
    for number in range(_STEPS_TOGETHER):
        yield f"  %group_wish{number} = add i64 %group_first, {number}"
        yield f"  %group{number} = call i64 @llvm.smin.i64(i64 %group_wish{number}, i64 %group_last)"
        yield f"  %to_start{number} = mul i64 %group{number}, {tile.mr}"
        yield f"  %to{number} = getelementptr {tile.element}, ptr %to, i64 %to_start{number}"
        yield f"  %group_step{number} = mul i64 %group{number}, {tile.group}"
        for step in range(number * tile.group, (number + 1) * tile.group):
            yield from _existing_step(f"%group_step{number}", step - number * tile.group, "%last", f"%t{step}")
            yield f"  %from_start{step} = mul i64 %t{step}, %from_ld"
            yield f"  %from{step} = getelementptr {tile.source}, ptr %from, i64 %from_start{step}"


def _existing_step(first: str, number: int, last: str, name: str) -> Iterator[str]:
    """`name`: step `first + number` along k, or the `last` one where it does not exist, as `name_exists` says."""
    yield f"  {name}_wish = add i64 {first}, {number}"
    yield f"  {name}_exists = icmp slt i64 {name}_wish, %steps"
    yield f"  {name} = call i64 @llvm.smin.i64(i64 {name}_wish, i64 {last})"


def _panel_copies(tile: GemmTile) -> Iterator[str]:
    """One panel's rows in each of the steps that are taken together."""
    vectors = -(-tile.mr // tile.lanes)
    for vector in range(vectors):
        yield f"  %rows{vector} = sub i64 %panel_rows, {vector * tile.lanes}"
        yield f"  %rows_left{vector} = call i64 @llvm.smax.i64(i64 %rows{vector}, i64 0)"
        yield from mask_lines(tile.lanes, f"%rows_left{vector}", str(vector))
    for number in range(_STEPS_TOGETHER):
        for vector in range(vectors):
            at = f"{number}_{vector}"
            yield f"  %row{at} = add i64 %i, {vector * tile.lanes}"
            yield f"  %place{at} = add i64 %to_panel_start, {vector * tile.lanes}"
            members = []
            for step in range(number * tile.group, (number + 1) * tile.group):
                name = f"%value{step}_{vector}"
                yield f"  {name}_at = getelementptr {tile.source}, ptr %from{step}, i64 %row{at}"
                yield load_vector(source_vectors(tile, tile.lanes), name, f"{name}_at", f"%mask{vector}")
                members.append((name, f"%t{step}_exists"))
            value = yield from _grouped(tile, members, f"<{tile.lanes} x ")
            yield f"  %to_at{at} = getelementptr {tile.element}, ptr %to{number}, i64 %place{at}"
            yield from _store_of_a(tile, sum_vectors(tile), value, f"%to_at{at}", f"%mask{vector}")


def _store_members(tile: GemmTile, lanes: int, value: str, address: str, mask: str | None = None) -> Iterator[str]:
    """Store a vector of a plain `a` whose groups lie side by side in it."""
    value = yield from widened(tile, lanes, value)
    yield from _store_of_a(tile, member_vectors(tile, lanes), value, address, mask)


def _store_of_a(tile: GemmTile, kind: Vectors, value: str, address: str, mask: str | None = None) -> Iterator[str]:
    """Store a vector of a packed `a`, with 128 added to each element where the tile wants that."""
    if tile.is_offset:
        bits = int.from_bytes(b"\x80" * kind.itemsize, signed=True)
        yield f"  {value}_offset = xor {kind.type} {value}, splat ({kind.element} {bits})"
        value = f"{value}_offset"
    yield store_vector(kind, value, address, mask)


def _grouped(tile: GemmTile, members: list[tuple[str, str]], prefix: str = "") -> Generator[str, None, str]:
    """Joins members into a group and returns its name. Absent members are zero; `prefix` begins a vector's type."""
    if tile.group == 1:
        return members[0][0]
    end = ">" if prefix else ""
    narrow, member = f"{prefix}{tile.source}{end}", f"{prefix}{tile.member}{end}"
    wide = f"{prefix}i{8 * tile.itemsize}{end}"
    bits = 8 * tile.member_bytes
    zero, total = "zeroinitializer" if prefix else "0", ""
    for place, (name, exists) in enumerate(members):
        yield f"  {name}_kept = select i1 {exists}, {narrow} {name}, {narrow} {zero}"
        kept = f"{name}_kept"
        if member != narrow:
            yield f"  {name}_signed = sext {narrow} {name}_kept to {member}"
            kept = f"{name}_signed"
        yield f"  {name}_wide = zext {member} {kept} to {wide}"
        shift = f"splat (i{8 * tile.itemsize} {place * bits})" if prefix else str(place * bits)
        yield f"  {name}_moved = shl {wide} {name}_wide, {shift}"
        if total:
            yield f"  {name}_total = or {wide} {total}, {name}_moved"
        total = f"{name}_total" if total else f"{name}_moved"
    yield f"  {total}_group = bitcast {wide} {total} to {prefix}{tile.element}{end}"
    return f"{total}_group"


def emit_compensation(tile: GemmTile, name: str) -> str:
    """IR of the internal function `void @name(panel, groups)`: what 128 in each element of `a` adds, negated.

    It goes behind a packed panel of `b`, one element for each column.
    """
    element, vector = tile.element, tile.vector
    totals = [f"%total{place}" for place in range(tile.vectors)]
    lines = [
        f"define internal void @{name}(ptr %panel, i64 %groups) noinline {tile.attributes} {{",
        "entry:",
        "  %none = icmp eq i64 %groups, 0",
        "  br i1 %none, label %done, label %loop",
        "loop:",
        "  %t = phi i64 [ 0, %entry ], [ %t_next, %loop ]",
        *(f"  {total} = phi {vector} [ zeroinitializer, %entry ], [ {total}_next, %loop ]" for total in totals),
        f"  %start = mul i64 %t, {tile.nr}",
        f"  %all = select i1 true, {vector} splat ({element} -2139062144), {vector} zeroinitializer",
    ]
    for place, total in enumerate(totals):
        lines.append(f"  %index{place} = add i64 %start, {place * tile.lanes}")
        lines.append(f"  %at{place} = getelementptr {element}, ptr %panel, i64 %index{place}")
        lines.append(load_vector(sum_vectors(tile), f"%b{place}", f"%at{place}"))
        lines += multiply_add(tile, f"{total}_next", ("%all", f"%b{place}", total))
    lines += [
        "  %t_next = add i64 %t, 1",
        "  %more = icmp slt i64 %t_next, %groups",
        "  br i1 %more, label %loop, label %done",
    ]
    lines.append("done:")
    for place, total in enumerate(totals):
        lines.append(f"  %sum{place} = phi {vector} [ zeroinitializer, %entry ], [ {total}_next, %loop ]")
    for place in range(tile.vectors):
        end = tile.nr * tile.block_steps + place * tile.lanes
        lines.append(f"  %minus{place} = sub {vector} zeroinitializer, %sum{place}")
        lines.append(f"  %end{place} = getelementptr {element}, ptr %panel, i64 {end}")
        lines.append(store_vector(sum_vectors(tile), f"%minus{place}", f"%end{place}"))
    return "\n".join([*lines, "  ret void", "}"]) + "\n"


_PANEL_OF_ROWS = """\
define internal void @{name}(ptr noalias %to, ptr noalias readonly %from, \
i64 %from_ld, i64 %columns, i64 %steps) noinline {attributes} {{
entry:
  %none = icmp eq i64 %steps, 0
  br i1 %none, label %exit, label %some
some:
  %rest = urem i64 %steps, {group}
  %all_groups = icmp eq i64 %rest, 0
  %all_columns = icmp eq i64 %columns, {nr}
  %is_full = and i1 %all_groups, %all_columns
  br i1 %is_full, label %full, label %step
full:
  %u = phi i64 [ 0, %some ], [ %u_next, %full ]
  %from_full = phi ptr [ %from, %some ], [ %from_full{group}, %full ]
  %to_full = phi ptr [ %to, %some ], [ %to_next, %full ]
{full}
  %to_next = getelementptr {element}, ptr %to_full, i64 {nr}
  %u_next = add i64 %u, {group}
  %more_full = icmp slt i64 %u_next, %steps
  br i1 %more_full, label %full, label %exit
step:
  %t = phi i64 [ 0, %some ], [ %t_next, %step_end ]
{addresses}
  %number = udiv i64 %t, {group}
  %to_start = mul i64 %number, {nr}
  %to_step = getelementptr {element}, ptr %to, i64 %to_start
  br label %vector
vector:
  %j = phi i64 [ 0, %step ], [ %j_next, %vector ]
  %remaining = sub i64 %columns, %j
{mask}
  %to_at = getelementptr {element}, ptr %to_step, i64 %j
{copy}
  %j_next = add i64 %j, {lanes}
  %more = icmp slt i64 %j_next, %columns
  br i1 %more, label %vector, label %step_end
step_end:
  %t_next = add i64 %t, {group}
  %more_steps = icmp slt i64 %t_next, %steps
  br i1 %more_steps, label %step, label %exit
exit:
  ret void
}}
"""

_PANEL_OF_COLUMNS = """\
define internal void @{name}(ptr noalias %to, ptr noalias readonly %b, \
i64 %b_ld, i64 %columns, i64 %steps) noinline {attributes} {{
entry:
  %starts = alloca [{lanes} x ptr], align 8
  %rest = urem i64 %steps, {square_steps}
  %whole = sub i64 %steps, %rest
  %step_last = sub i64 %steps, 1
  %column_last = sub i64 %columns, 1
  br label %group
group:
  %j = phi i64 [ 0, %entry ], [ %j_next, %group_end ]
{starts}
  %short = icmp eq i64 %whole, 0
  br i1 %short, label %tail, label %square
square:
  %t = phi i64 [ 0, %lanes_end ], [ %t_next, %square ]
{square}
  %t_next = add i64 %t, {square_steps}
  %more = icmp slt i64 %t_next, %whole
  br i1 %more, label %square, label %tail
tail:
  %no_tail = icmp eq i64 %rest, 0
  br i1 %no_tail, label %group_end, label %one
one:
  %u = phi i64 [ %whole, %tail ], [ %u_next, %one ]
{one}
  %u_next = add i64 %u, {group}
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


def emit_pack_b_panel(tile: GemmTile, name: str, *, transposed: bool) -> str:
    """Emits `void @name(to, from, from_ld, columns, steps)`, which packs a panel of a plain `b`."""
    fields = {
        "name": name,
        "attributes": tile.attributes,
        "element": tile.element,
        "lanes": tile.lanes,
        "nr": tile.nr,
        "group": tile.group,
    }
    if transposed:
        return _PANEL_OF_COLUMNS.format(
            **fields,
            square_steps=tile.lanes * tile.group,
            starts=column_addresses(tile),
            square="\n".join(_square(tile)),
            one="\n".join(_one_step(tile)),
        )
    return _PANEL_OF_ROWS.format(
        **fields,
        full="\n".join(_full_step(tile)),
        addresses="\n".join(_row_addresses(tile)),
        mask="\n".join(mask_lines(tile.lanes, "%remaining")),
        copy="\n".join(_masked_step(tile)),
    )


def _full_step(tile: GemmTile) -> Iterator[str]:
    """One group of steps along k of a panel that has all its columns."""
    for row in range(tile.group):
        before = f"%from_full{row}" if row else "%from_full"
        yield f"  %from_full{row + 1} = getelementptr {tile.source}, ptr {before}, i64 %from_ld"
    values = []
    for vector in range(tile.vectors):
        members = []
        for row in range(tile.group):
            name = f"%full{vector}_{row}"
            start = f"%from_full{row}" if row else "%from_full"
            yield f"  {name}_at = getelementptr {tile.source}, ptr {start}, i64 {vector * tile.lanes}"
            yield load_vector(source_vectors(tile, tile.lanes), name, f"{name}_at")
            members.append((name, "true"))
        values.append((yield from _grouped(tile, members, f"<{tile.lanes} x ")))
    for vector, value in enumerate(values):
        yield f"  %to_full_at{vector} = getelementptr {tile.element}, ptr %to_full, i64 {vector * tile.lanes}"
        yield store_vector(sum_vectors(tile), value, f"%to_full_at{vector}")


def _row_addresses(tile: GemmTile) -> Iterator[str]:
    """`%from_step0` …: where the steps of a group start; steps that do not exist are the last one again."""
    yield "  %step_last = sub i64 %steps, 1"
    for row in range(tile.group):
        yield from _existing_step("%t", row, "%step_last", f"%step{row}")
        yield f"  %step_start{row} = mul i64 %step{row}, %from_ld"
        yield f"  %from_step{row} = getelementptr {tile.source}, ptr %from, i64 %step_start{row}"


def _masked_step(tile: GemmTile) -> Iterator[str]:
    """One vector of a group of steps, with the columns that exist."""
    members = []
    for row in range(tile.group):
        yield f"  %value_at{row} = getelementptr {tile.source}, ptr %from_step{row}, i64 %j"
        yield load_vector(source_vectors(tile, tile.lanes), f"%part{row}", f"%value_at{row}", "%mask")
        members.append((f"%part{row}", f"%step{row}_exists"))
    value = yield from _grouped(tile, members, f"<{tile.lanes} x ")
    yield store_vector(sum_vectors(tile), value, "%to_at")


def _square(tile: GemmTile) -> Iterator[str]:
    """Transpose a square of `lanes` columns by `lanes` groups of steps along k."""
    names = []
    for lane in range(tile.lanes):
        yield from load_column_address(f"%start{lane}", lane)
        yield f"  %square{lane}_at = getelementptr {tile.source}, ptr %start{lane}, i64 %t"
        lanes = tile.lanes * tile.group
        yield load_vector(source_vectors(tile, lanes), f"%plain{lane}", f"%square{lane}_at")
        members = yield from widened(tile, lanes, f"%plain{lane}")
        yield f"  %square{lane} = bitcast {member_vectors(tile, lanes).type} {members} to {tile.vector}"
        names.append(f"%square{lane}")
    pieces = yield from transpose(tile, names)
    yield f"  %t_group = udiv i64 %t, {tile.group}"
    for number, piece in enumerate(pieces):
        names = yield from transpose_pieces(tile, piece, number)
        yield from _store_steps(tile, names, number * len(names))


def _store_steps(tile: GemmTile, names: list[str], first: int) -> Iterator[str]:
    """Store vectors of consecutive steps of a square, the first of which has a number."""
    for lane, name in enumerate(names, first):
        yield f"  %step{lane} = add i64 %t_group, {lane}"
        yield f"  %step{lane}_start = mul i64 %step{lane}, {tile.nr}"
        yield f"  %step{lane}_index = add i64 %step{lane}_start, %j"
        yield f"  %step{lane}_at = getelementptr {tile.element}, ptr %to, i64 %step{lane}_index"
        yield store_vector(sum_vectors(tile), name, f"%step{lane}_at")


def _one_step(tile: GemmTile) -> Iterator[str]:
    """Gather one group of steps along k from the columns of a group."""
    for step in range(tile.group):
        yield from _existing_step("%u", step, "%step_last", f"%one_k{step}")
    value = "poison"
    for lane in range(tile.lanes):
        members = []
        yield from load_column_address(f"%one_start{lane}", lane)
        for step in range(tile.group):
            name = f"%one{lane}_{step}"
            yield f"  {name}_at = getelementptr {tile.source}, ptr %one_start{lane}, i64 %one_k{step}"
            yield f"  {name} = load {tile.source}, ptr {name}_at, align {tile.source_bytes}"
            members.append((name, f"%one_k{step}_exists"))
        one = yield from _grouped(tile, members)
        yield f"  %ones{lane} = insertelement {tile.vector} {value}, {tile.element} {one}, i32 {lane}"
        value = f"%ones{lane}"
    yield f"  %one_group = udiv i64 %u, {tile.group}"
    yield f"  %one_start = mul i64 %one_group, {tile.nr}"
    yield "  %one_index = add i64 %one_start, %j"
    yield f"  %one_at = getelementptr {tile.element}, ptr %to, i64 %one_index"
    yield store_vector(sum_vectors(tile), value, "%one_at")
