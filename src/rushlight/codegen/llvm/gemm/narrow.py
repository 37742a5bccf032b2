"""The last few columns of a panel of `b`, with rows of `a` in the lanes of vectors, as LLVM IR text.

A vector of columns costs as much for one column as for all of its lanes: 49 columns in vectors of 16 are as slow as 64.
Rows that lie side by side in a packed `a` fill the lanes instead, and a step costs one product for each column. Panels
of rows run side by side, since each step of a chain waits for the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rushlight.codegen.llvm.gemm.micro_kernel import Vectors, broadcast, load_vector, store_vector
from rushlight.ir.gemm_tile import GemmTile

# Sums of vectors of rows side by side: as many chains as hide the latency of their steps.
_CHAINS = 8

_PARAMETERS = (
    "ptr noalias readonly %a, i64 %a_panel, ptr noalias readonly %b, ptr noalias %c, "
    "i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, i64 %panels"
)

_COLUMNS = """\
define internal void @{name}({parameters}) noinline {attributes} {{
entry:
  %sums = alloca [{elements} x {element}], align 64
  %panel_last = sub i64 %panels, 1
  %no_steps = icmp eq i64 %steps, 0
  br label %group
group:
  %p = phi i64 [ 0, %entry ], [ %p_next, %group_end ]
{panels}
  br i1 %no_steps, label %done, label %loop
loop:
  %left = phi i64 [ %steps, %group ], [ %left_next, %loop ]
  %a_offset = phi i64 [ 0, %group ], [ %a_offset_next, %loop ]
  %b_at = phi ptr [ %b, %group ], [ %b_at_next, %loop ]
{sums}
{step}
  %a_offset_next = add i64 %a_offset, {mr}
  %b_at_next = getelementptr {element}, ptr %b_at, i64 %b_stride
  %left_next = sub i64 %left, 1
  %end = icmp eq i64 %left_next, 0
  br i1 %end, label %done, label %loop
done:
{totals}
  %panels_left = sub i64 %panels, %p
  %panels_here = call i64 @llvm.smin.i64(i64 %panels_left, i64 {together})
  %rows = mul i64 %panels_here, {mr}
  %first_row = mul i64 %p, {mr}
  %c_start = mul i64 %first_row, %ldc
  %c_rows = getelementptr {element}, ptr %c, i64 %c_start
  br label %row
row:
  %i = phi i64 [ 0, %done ], [ %i_next, %row ]
  %c_row = phi ptr [ %c_rows, %done ], [ %c_row_next, %row ]
{row}
  %i_next = add i64 %i, 1
  %c_row_next = getelementptr {element}, ptr %c_row, i64 %ldc
  %more_rows = icmp slt i64 %i_next, %rows
  br i1 %more_rows, label %row, label %group_end
group_end:
  %p_next = add i64 %p, {together}
  %more_panels = icmp sle i64 %p_next, %panel_last
  br i1 %more_panels, label %group, label %exit
exit:
  ret void
}}
"""


def most_narrow(tile: GemmTile) -> int:
    """Returns the most columns of a last vector that count as narrow. It is 0 unless rows of `a` are adjacent."""
    return tile.lanes // 4 if tile.a_format == "column" and tile.group == 1 else 0


def emit_narrow(tile: GemmTile, name: str) -> str:
    """Emits a function that computes a few columns of all rows: `c = a b` if `first`, else `c += a b`.

    `void @name(a, a_panel, b, c, b_stride, ldc, steps, first, panels, columns)`: `a` is in the packed format "column",
    its full panels of rows `a_panel` elements apart, and `b` and `c` point to the first of up to `most_narrow` columns.
    """
    powers = [1 << bit for bit in reversed(range(most_narrow(tile).bit_length()))]
    lines = [
        f"define internal void @{name}({_PARAMETERS}, i64 %columns) noinline {tile.attributes} {{",
        "entry:",
        "  %no_panels = icmp eq i64 %panels, 0",
        f"  br i1 %no_panels, label %exit, label %some{powers[0]}",
    ]
    for columns in powers:
        after = f"some{columns // 2}" if columns > 1 else "exit"
        arguments = f"ptr %a, i64 %a_panel, ptr %b{columns}, ptr %c{columns}, i64 %b_stride, i64 %ldc, i64 %steps, "
        lines += [
            f"some{columns}:",
            f"  %bit{columns} = and i64 %columns, {columns}",
            f"  %none{columns} = icmp eq i64 %bit{columns}, 0",
            f"  br i1 %none{columns}, label %{after}, label %columns{columns}",
            f"columns{columns}:",
            f"  %before{columns} = and i64 %columns, {-2 * columns}",
            f"  %b{columns} = getelementptr {tile.element}, ptr %b, i64 %before{columns}",
            f"  %c{columns} = getelementptr {tile.element}, ptr %c, i64 %before{columns}",
            f"  call void @{name}_{columns}({arguments}i1 %first, i64 %panels)",
            f"  br label %{after}",
        ]
    lines += ["exit:", "  ret void", "}"]
    return "\n".join([*(_emit_columns(tile, f"{name}_{columns}", columns) for columns in powers), *lines]) + "\n"


def _emit_columns(tile: GemmTile, name: str, columns: int) -> str:
    """IR of the function for a fixed number of columns."""
    pieces = tuple(_pieces(tile))
    together = max(1, _CHAINS // (len(pieces) * columns))
    panels, all_rows = range(together), together * tile.mr
    chains = [
        (f"{p}_{start}_{x}", rows, x * all_rows + p * tile.mr + start)
        for x in range(columns)
        for p in panels
        for start, rows in pieces
    ]
    sums = [f"  %sum{at} = phi {rows.type} [ zeroinitializer, %group ], [ %next{at}, %loop ]" for at, rows, _ in chains]
    totals = [line.replace("%sum", "%total", 1) for line in sums]
    for at, rows, place in chains:
        totals.append(f"  %total{at}_at = getelementptr {tile.element}, ptr %sums, i64 {place}")
        totals.append(store_vector(rows, f"%total{at}", f"%total{at}_at"))
    return _COLUMNS.format(
        name=name,
        parameters=_PARAMETERS,
        attributes=tile.attributes,
        element=tile.element,
        mr=tile.mr,
        elements=columns * all_rows,
        together=together,
        panels="\n".join(_panel_lines(tile, panels)),
        sums="\n".join(sums),
        step="\n".join(_step_lines(pieces, panels, columns)),
        totals="\n".join(totals),
        row="\n".join(_row_lines(tile, columns, all_rows)),
    )


def _pieces(tile: GemmTile) -> Iterator[tuple[int, Vectors]]:
    """The first row of each vector that a panel's rows fill, and its kind: as few as can be."""
    start = 0
    while start < tile.mr:
        lanes = min(tile.lanes, 1 << (tile.mr - start).bit_length() - 1)
        yield start, Vectors(tile.element, tile.itemsize, lanes)
        start += lanes


def _panel_lines(tile: GemmTile, panels: range) -> Iterator[str]:
    """Where panels of rows start; one that does not exist is the last one again."""
    for p in panels:
        yield f"  %p{p}_wish = add i64 %p, {p}"
        yield f"  %p{p} = call i64 @llvm.smin.i64(i64 %p{p}_wish, i64 %panel_last)"
        yield f"  %a{p}_start = mul i64 %p{p}, %a_panel"
        yield f"  %a{p} = getelementptr {tile.element}, ptr %a, i64 %a{p}_start"


def _step_lines(pieces: Sequence[tuple[int, Vectors]], panels: range, columns: int) -> Iterator[str]:
    """One step along k: vectors of panels' rows times an element of each column."""
    element = pieces[0][1].element
    for x in range(columns):
        yield f"  %b{x}_at = getelementptr {element}, ptr %b_at, i64 {x}"
        yield f"  %b{x} = load {element}, ptr %b{x}_at, align {pieces[0][1].itemsize}"
        for rows in dict.fromkeys([rows for _, rows in pieces]):
            yield from broadcast(rows, f"%b{x}_all{rows.lanes}", f"%b{x}")
    for p in panels:
        for start, rows in pieces:
            a, kind = f"%a{p}_{start}", rows.type
            yield f"  {a}_place = add i64 %a_offset, {start}"
            yield f"  {a}_at = getelementptr {element}, ptr %a{p}, i64 {a}_place"
            yield load_vector(rows, a, f"{a}_at")
            for x in range(columns):
                factors = f"{kind} {a}, {kind} %b{x}_all{rows.lanes}, {kind} %sum{p}_{start}_{x}"
                yield f"  %next{p}_{start}_{x} = call {kind} @llvm.fma.{rows.suffix}({factors})"


def _row_lines(tile: GemmTile, columns: int, apart: int) -> Iterator[str]:
    """Stores one row's sums, or adds them to `c`. The sums lie column by column, `apart` elements from each other."""
    element, align = tile.element, f"align {tile.itemsize}"
    for x in range(columns):
        yield f"  %place{x} = add i64 %i, {x * apart}"
        yield f"  %sum{x}_at = getelementptr {element}, ptr %sums, i64 %place{x}"
        yield f"  %sum{x} = load {element}, ptr %sum{x}_at, {align}"
        yield f"  %c{x}_at = getelementptr {element}, ptr %c_row, i64 {x}"
        yield f"  %stored{x} = load {element}, ptr %c{x}_at, {align}"
        yield f"  %old{x} = select i1 %first, {element} 0.0, {element} %stored{x}"
        yield f"  %new{x} = fadd {element} %old{x}, %sum{x}"
        yield f"  store {element} %new{x}, ptr %c{x}_at, {align}"
