"""Packs blocks of `a` and panels of `b` in the order in which the micro-kernels read them.

The core calls these functions on operands that are not packed up front. `rushlight.ir.gemm_tile` has the formats. Where
one instruction multiplies a group of elements along k, packing puts these side by side and fills the last group up with
zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rushlight.codegen.llvm.builder.function_builder import Carried, FunctionBuilder
from rushlight.codegen.llvm.gemm.transpose import (
    load_column_start,
    store_column_starts,
    transpose,
    transpose_pieces,
)
from rushlight.codegen.llvm.gemm.vectors import (
    Vectors,
    lane_mask,
    load_vector,
    member_vectors,
    multiply_add,
    source_vectors,
    store_vector,
    sum_vectors,
    widen_members,
)
from rushlight.ir.gemm_tile import GemmTile

# Groups of steps along k that one pass over an `a` by columns packs. A panel reads part of a cache line of each step:
# the line is still in the cache for the next panel, and each panel is written in one piece.
_GROUPS_TOGETHER = 4


class _Row(NamedTuple):
    """The address of a step along k in a plain operand, and an i1, whether the step exists."""

    start: str
    exists: str


class _Member(NamedTuple):
    """An element of a group, or a vector of them, and an i1, whether it exists."""

    value: str
    exists: str


def emit_pack_a_block(tile: GemmTile, name: str) -> str:
    """Emits `void @name(to, from, from_ld, rows, steps)`, which packs a block of a plain `a`.

    `to` has the packed format of a whole operand with one block of steps along k.
    """
    parameters = "ptr noalias %to, ptr noalias readonly %from, i64 %from_ld, i64 %rows, i64 %steps"
    code = FunctionBuilder(f"define internal void @{name}({parameters}) noinline {tile.attributes}")
    if tile.a_format == "column":
        _pack_a_columns(code, tile)
    else:
        _pack_a_rows(code, tile)
    return code.finish()


def _pack_a_rows(code: FunctionBuilder, tile: GemmTile) -> None:
    """Copies row by row: in the format "row" the steps of a row, and so its groups, are adjacent."""
    kind = source_vectors(tile, tile.vector_bytes // tile.member_bytes)
    rest = code.let("rest", f"urem i64 %steps, {kind.lanes}")
    whole = code.let("whole", f"sub i64 %steps, {rest}")
    two_rows = code.let("two_rows", "shl i64 %from_ld, 1")
    mask = lane_mask(code, kind.lanes, rest)
    with code.loop("row", "i", "%rows", after="exit") as row:
        from_row = code.row("from_row", tile.source, "%from", row.index, "%from_ld")
        to_row = code.row("to_row", tile.member, "%to", row.index, tile.kc)
        short = code.is_zero("short", whole)
        with code.loop("vector", "t", whole, step=kind.lanes, skip=short, after="tail") as vector:
            from_at = code.address("from_at", tile.source, from_row, vector.index)
            # The row after the next: hardware prefetches along a row, and not from one row to another.
            line = code.address("prefetch", tile.source, from_at, two_rows)
            code.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 2, i32 1)")
            value = load_vector(code, kind, "value", from_at)
            to_at = code.address("to_at", tile.member, to_row, vector.index)
            _store_members(code, tile, kind.lanes, value, to_at)
        with code.unless(code.is_zero("no_tail", rest), "last", "row_end"):
            from_last = code.address("from_last", tile.source, from_row, whole)
            value = load_vector(code, kind, "value_last", from_last, mask)
            to_last = code.address("to_last", tile.member, to_row, whole)
            # Groups have zeros after the last step: all lanes are stored.
            _store_members(code, tile, kind.lanes, value, to_last, mask if tile.group == 1 else None)


def _pack_a_columns(code: FunctionBuilder, tile: GemmTile) -> None:
    """Copies a few groups of steps along k for all panels of rows, then the next groups."""
    no_steps = code.is_zero("no_steps", "%steps")
    last = code.let("last", "sub i64 %steps, 1")
    together = _GROUPS_TOGETHER * tile.group
    with code.loop("step", "t", "%steps", step=together, skip=no_steps, after="exit") as block:
        group_last = code.let("group_last", f"udiv i64 {last}, {tile.group}")
        group_first = code.let("group_first", f"udiv i64 {block.index}, {tile.group}")
        groups = [_group_addresses(code, tile, number, group_first, group_last) for number in range(_GROUPS_TOGETHER)]
        with code.loop("panel", "i", "%rows", step=tile.mr, after="step_end") as panel:
            _copy_panel(code, tile, panel.index, groups)


class _Group(NamedTuple):
    """A group of steps along k: its address in a packed panel of `a`, and its steps in the plain `a`."""

    to: str
    steps: list[_Row]


def _group_addresses(code: FunctionBuilder, tile: GemmTile, number: int, first: str, last: str) -> _Group:
    """The addresses of group `first + number`, or of group `last` if there are fewer."""
    requested = code.let(f"group_requested{number}", f"add i64 {first}, {number}")
    group = code.minimum(f"group{number}", requested, last)
    to = code.row(f"to{number}", tile.element, "%to", group, tile.mr)
    first_step = code.let(f"group_step{number}", f"mul i64 {group}, {tile.group}")
    names = range(number * tile.group, (number + 1) * tile.group)
    return _Group(
        to, [_step_address(code, tile, first_step, step, "%last", str(name)) for step, name in enumerate(names)]
    )


def _existing_step(code: FunctionBuilder, first: str, number: int, last: str, name: str) -> tuple[str, str]:
    """The number of step `first + number` along k, at most `last`, and an i1, whether the step exists."""
    requested = code.let(f"{name}_requested", f"add i64 {first}, {number}")
    exists = code.let(f"{name}_exists", f"icmp slt i64 {requested}, %steps")
    return code.minimum(name, requested, last), exists


def _step_address(code: FunctionBuilder, tile: GemmTile, first: str, number: int, last: str, suffix: str) -> _Row:
    """The address of step `first + number` along k in `%from`, or of the `last` one if it does not exist."""
    step, exists = _existing_step(code, first, number, last, f"step{suffix}")
    return _Row(code.row(f"from{suffix}", tile.source, "%from", step, "%from_ld"), exists)


def _copy_panel(code: FunctionBuilder, tile: GemmTile, first_row: str, groups: Sequence[_Group]) -> None:
    """Copies the rows of one panel in vectors across rows, masked to the rows that exist."""
    panel_start = code.let("to_panel_start", f"mul i64 {first_row}, {tile.block_steps}")
    left = code.let("left", f"sub i64 %rows, {first_row}")
    panel_rows = code.minimum("panel_rows", left, tile.mr)
    masks: list[str] = []
    for vector in range(-(-tile.mr // tile.lanes)):
        rows = code.let(f"rows{vector}", f"sub i64 {panel_rows}, {vector * tile.lanes}")
        rows_left = code.maximum(f"rows_left{vector}", rows, 0)
        masks.append(lane_mask(code, tile.lanes, rows_left, str(vector)))
    for number, group in enumerate(groups):
        for vector, mask in enumerate(masks):
            name = f"{number}_{vector}"
            row = code.let(f"row{name}", f"add i64 {first_row}, {vector * tile.lanes}")
            offset = code.let(f"offset{name}", f"add i64 {panel_start}, {vector * tile.lanes}")
            members: list[_Member] = []
            for step, (start, exists) in enumerate(group.steps):
                value = f"value{name}_{step}"
                address = code.address(f"{value}_at", tile.source, start, row)
                kind = source_vectors(tile, tile.lanes)
                members.append(_Member(load_vector(code, kind, value, address, mask), exists))
            packed = _join_group(code, tile, members, tile.lanes)
            to_at = code.address(f"to_at{name}", tile.element, group.to, offset)
            _store_of_a(code, tile, sum_vectors(tile), packed, to_at, mask)


def _store_members(
    code: FunctionBuilder, tile: GemmTile, lanes: int, value: str, address: str, mask: str | None = None
) -> None:
    """Stores a vector of a plain `a` whose groups are adjacent in it."""
    value = widen_members(code, tile, lanes, value)
    _store_of_a(code, tile, member_vectors(tile, lanes), value, address, mask)


def _store_of_a(
    code: FunctionBuilder, tile: GemmTile, kind: Vectors, value: str, address: str, mask: str | None = None
) -> None:
    """Stores a vector of a packed `a`. For `vpdpbusd`, whose first factor is unsigned, it adds 128."""
    if tile.is_offset:
        # To add 128 modulo 256 is to flip the top bit of each byte.
        bits = int.from_bytes(bytes([128] * kind.itemsize), signed=True)
        value = code.let(f"{value[1:]}_offset", f"xor {kind.type} {value}, splat ({kind.element} {bits})")
    store_vector(code, kind, value, address, mask)


def _join_group(code: FunctionBuilder, tile: GemmTile, members: Sequence[_Member], lanes: int = 0) -> str:
    """Joins the members of a group into one element, or vectors of members into a vector of groups.

    A member that does not exist is zero. The first member takes the lowest bits.
    """
    if tile.group == 1:
        return members[0].value

    def typed(element: str) -> str:
        return f"<{lanes} x {element}>" if lanes else element

    narrow, member_type, wide = typed(tile.source), typed(tile.member), typed(f"i{8 * tile.itemsize}")
    total = ""
    for number, (value, exists) in enumerate(members):
        name = value[1:]
        zero = "zeroinitializer" if lanes else "0"
        member = code.let(f"{name}_or_zero", f"select i1 {exists}, {narrow} {value}, {narrow} {zero}")
        if member_type != narrow:
            member = code.let(f"{name}_signed", f"sext {narrow} {member} to {member_type}")
        bits = code.let(f"{name}_wide", f"zext {member_type} {member} to {wide}")
        distance = 8 * tile.member_bytes * number
        shift = f"splat (i{8 * tile.itemsize} {distance})" if lanes else str(distance)
        moved = code.let(f"{name}_moved", f"shl {wide} {bits}, {shift}")
        total = code.let(f"{name}_total", f"or {wide} {total}, {moved}") if total else moved
    return code.let(f"{total[1:]}_group", f"bitcast {wide} {total} to {typed(tile.element)}")


def emit_compensation(tile: GemmTile, name: str) -> str:
    """Emits `void @name(panel, groups)`: for each column, minus what 128 in each element of `a` adds to its sum.

    It writes these behind the packed panel of `b`; the micro-kernels start their sums there.
    """
    code = FunctionBuilder(f"define internal void @{name}(ptr %panel, i64 %groups) noinline {tile.attributes}")
    element, vector, kind = tile.element, tile.vector, sum_vectors(tile)
    totals = [Carried(f"total{number}", vector, "zeroinitializer") for number in range(tile.vectors)]
    all_128 = f"splat ({element} {int.from_bytes(bytes([128] * 4), signed=True)})"
    no_groups = code.is_zero("no_groups", "%groups")
    with code.loop("group", "t", "%groups", carried=totals, skip=no_groups, after="done") as loop:
        start = code.let("start", f"mul i64 {loop.index}, {tile.nr}")
        for number, total in enumerate(totals):
            index = code.let(f"index{number}", f"add i64 {start}, {number * tile.lanes}")
            b = load_vector(code, kind, f"b{number}", code.address(f"b{number}_at", element, "%panel", index))
            operands = (all_128, b, loop.values[total.name])
            loop.next[total.name] = multiply_add(code, tile, f"{total.name}_next", operands)
    for number, total in enumerate(loop.results(totals, "_all")):
        offset = tile.nr * tile.block_steps + number * tile.lanes
        negated = code.let(f"negated{number}", f"sub {vector} zeroinitializer, {total}")
        store_vector(code, kind, negated, code.address(f"end{number}", element, "%panel", offset))
    return code.finish()


def emit_pack_b_panel(tile: GemmTile, name: str, *, transposed: bool) -> str:
    """Emits `void @name(to, from, from_ld, columns, steps)`, which packs a panel of a plain `b`."""
    source = "b" if transposed else "from"
    parameters = f"ptr noalias %to, ptr noalias readonly %{source}, i64 %{source}_ld, i64 %columns, i64 %steps"
    code = FunctionBuilder(f"define internal void @{name}({parameters}) noinline {tile.attributes}")
    if transposed:
        _pack_b_columns(code, tile)
    else:
        _pack_b_rows(code, tile)
    return code.finish()


def _pack_b_rows(code: FunctionBuilder, tile: GemmTile) -> None:
    """Copies the rows of a panel. A panel with all columns and whole groups, the usual one, needs no masks."""
    code.branch(code.is_zero("no_steps", "%steps"), "exit", "some")
    code.block("some")
    all_groups = code.is_zero("all_groups", code.let("rest", f"urem i64 %steps, {tile.group}"))
    all_columns = code.let("all_columns", f"icmp eq i64 %columns, {tile.nr}")
    code.branch(code.let("is_full", f"and i1 {all_groups}, {all_columns}"), "full", "step")
    carried = (Carried("from_full", "ptr", "%from"), Carried("to_full", "ptr", "%to"))
    with code.loop(
        *("full", "u", "%steps"), step=tile.group, carried=carried, before="some", after="exit", opens_after=False
    ) as full:
        full.next["from_full"] = _copy_full_step(code, tile)
        full.next["to_full"] = code.address("to_full_next", tile.element, "%to_full", tile.nr)
    with code.loop("step", "t", "%steps", step=tile.group, before="some", after="exit") as step:
        last = code.let("step_last", "sub i64 %steps, 1")
        rows = [_step_address(code, tile, step.index, row, last, str(row)) for row in range(tile.group)]
        number = code.let("number", f"udiv i64 {step.index}, {tile.group}")
        to_step = code.row("to_step", tile.element, "%to", number, tile.nr)
        with code.loop("vector", "j", "%columns", step=tile.lanes, after="step_end") as vector:
            mask = lane_mask(code, tile.lanes, code.let("remaining", f"sub i64 %columns, {vector.index}"))
            to_at = code.address("to_at", tile.element, to_step, vector.index)
            members: list[_Member] = []
            for row, (start, exists) in enumerate(rows):
                address = code.address(f"value{row}_at", tile.source, start, vector.index)
                value = load_vector(code, source_vectors(tile, tile.lanes), f"value{row}", address, mask)
                members.append(_Member(value, exists))
            store_vector(code, sum_vectors(tile), _join_group(code, tile, members, tile.lanes), to_at)


def _copy_full_step(code: FunctionBuilder, tile: GemmTile) -> str:
    """Copies one group of steps of a panel with all columns; returns the next group's address in `b`."""
    rows = ["%from_full"]
    for row in range(tile.group):
        rows.append(code.address(f"from_full{row + 1}", tile.source, rows[-1], "%from_ld"))
    values: list[str] = []
    for vector in range(tile.vectors):
        members: list[_Member] = []
        for row, start in enumerate(rows[:-1]):
            name = f"full{vector}_{row}"
            address = code.address(f"{name}_at", tile.source, start, vector * tile.lanes)
            members.append(_Member(load_vector(code, source_vectors(tile, tile.lanes), name, address), "true"))
        values.append(_join_group(code, tile, members, tile.lanes))
    for vector, value in enumerate(values):
        address = code.address(f"to_full_at{vector}", tile.element, "%to_full", vector * tile.lanes)
        store_vector(code, sum_vectors(tile), value, address)
    return rows[-1]


def _pack_b_columns(code: FunctionBuilder, tile: GemmTile) -> None:
    """Transposes squares of columns and steps in registers, and gathers the steps that fill no square."""
    code.let("starts", f"alloca [{tile.lanes} x ptr], align 8")
    square_steps = tile.lanes * tile.group
    rest = code.let("rest", f"urem i64 %steps, {square_steps}")
    whole = code.let("whole", f"sub i64 %steps, {rest}")
    code.let("step_last", "sub i64 %steps, 1")
    code.let("column_last", "sub i64 %columns, 1")
    with code.loop("group", "j", "%columns", step=tile.lanes, after="exit") as group:
        store_column_starts(code, tile)
        short = code.is_zero("short", whole)
        with code.loop("square", "t", whole, step=square_steps, skip=short, after="tail") as square:
            _pack_square(code, tile, square.index, group.index)
        no_tail = code.is_zero("no_tail", rest)
        with code.loop(
            *("one", "u", "%steps"), start=whole, step=tile.group, skip=no_tail, after="group_end"
        ) as single:
            _gather_step(code, tile, single.index, group.index)


def _pack_square(code: FunctionBuilder, tile: GemmTile, first_step: str, first_column: str) -> None:
    """Packs a square of `lanes` columns by `lanes` groups of steps along k."""
    lanes = tile.lanes * tile.group
    columns: list[str] = []
    for lane in range(tile.lanes):
        start = load_column_start(code, f"start{lane}", lane)
        address = code.address(f"square{lane}_at", tile.source, start, first_step)
        plain = load_vector(code, source_vectors(tile, lanes), f"plain{lane}", address)
        members = widen_members(code, tile, lanes, plain)
        groups = f"{member_vectors(tile, lanes).type} {members} to {tile.vector}"
        columns.append(code.let(f"square{lane}", f"bitcast {groups}"))
    pieces = transpose(code, tile, columns)
    first_group = code.let("t_group", f"udiv i64 {first_step}, {tile.group}")
    for number, piece in enumerate(pieces):
        steps = transpose_pieces(code, tile, piece, number)
        for lane, value in enumerate(steps, number * len(steps)):
            name = f"step{lane}"
            step = code.let(name, f"add i64 {first_group}, {lane}")
            start = code.let(f"{name}_start", f"mul i64 {step}, {tile.nr}")
            index = code.let(f"{name}_index", f"add i64 {start}, {first_column}")
            store_vector(code, sum_vectors(tile), value, code.address(f"{name}_at", tile.element, "%to", index))


def _gather_step(code: FunctionBuilder, tile: GemmTile, first_step: str, first_column: str) -> None:
    """Packs one group of steps along k, element by element, from one vector's worth of columns."""
    steps = [_existing_step(code, first_step, step, "%step_last", f"one_k{step}") for step in range(tile.group)]
    vector = "poison"
    for lane in range(tile.lanes):
        start = load_column_start(code, f"one_start{lane}", lane)
        members: list[_Member] = []
        for number, (step, exists) in enumerate(steps):
            name = f"one{lane}_{number}"
            address = code.address(f"{name}_at", tile.source, start, step)
            members.append(_Member(code.load(name, tile.source, address, tile.source_bytes), exists))
        group = _join_group(code, tile, members)
        inserted = f"{tile.vector} {vector}, {tile.element} {group}, i32 {lane}"
        vector = code.let(f"ones{lane}", f"insertelement {inserted}")
    group_number = code.let("one_group", f"udiv i64 {first_step}, {tile.group}")
    start = code.let("one_start", f"mul i64 {group_number}, {tile.nr}")
    index = code.let("one_index", f"add i64 {start}, {first_column}")
    store_vector(code, sum_vectors(tile), vector, code.address("one_at", tile.element, "%to", index))
