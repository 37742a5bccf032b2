"""The last few columns of a panel of `b`, with rows of `a` in the lanes of vectors, as LLVM IR text.

A vector of columns costs as much for one column as for all of its lanes: 49 columns in vectors of 16 are as slow as 64.
Rows that lie side by side in a packed `a` fill the lanes instead, and a step costs one product for each column. Panels
of rows run side by side, since each step of a chain waits for the one before.
"""

from __future__ import annotations

from collections.abc import Iterator

from rushlight.codegen.llvm.gemm_micro import load_packed, mask_lines, multiply_add, store_vector, sum_vectors
from rushlight.ir.gemm_tile import GemmTile

# Columns and vectors of rows that are summed side by side: as many chains as hide the latency of their steps.
_COLUMNS_TOGETHER = 2
_VECTORS_TOGETHER = 4

_NARROW = """\
define internal void @{name}(ptr noalias readonly %a, i64 %a_panel, ptr noalias readonly %b, ptr noalias %c, \
i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, i64 %rows, i64 %columns) noinline {attributes} {{
entry:
  %sums = alloca [{elements} x {element}], align 64
  %rows_less = sub i64 %rows, 1
  %panel_last = udiv i64 %rows_less, {mr}
  %column_last = sub i64 %columns, 1
  %none = icmp eq i64 %steps, 0
  br label %panels
panels:
  %p = phi i64 [ 0, %entry ], [ %p_next, %panels_end ]
{panels}
  br label %pair
pair:
  %j = phi i64 [ 0, %panels ], [ %j_next, %pair_end ]
{columns}
  br i1 %none, label %done, label %loop
loop:
  %left = phi i64 [ %steps, %pair ], [ %left_next, %loop ]
  %a_offset = phi i64 [ 0, %pair ], [ %a_offset_next, %loop ]
  %b_offset = phi i64 [ 0, %pair ], [ %b_offset_next, %loop ]
{sums}
{step}
  %a_offset_next = add i64 %a_offset, {mr}
  %b_offset_next = add i64 %b_offset, %b_stride
  %left_next = sub i64 %left, 1
  %end = icmp eq i64 %left_next, 0
  br i1 %end, label %done, label %loop
done:
{totals}
  br label %row
row:
  %i = phi i64 [ 0, %done ], [ %i_next, %row_end ]
  %number = udiv i64 %i, {mr}
  %within = urem i64 %i, {mr}
  %sum_row = mul i64 %number, {panel_elements}
  %sum_start = add i64 %sum_row, %within
  %c_start = mul i64 %i, %ldc
  br label %column
column:
  %x = phi i64 [ 0, %row ], [ %x_next, %column ]
  %sum_column = mul i64 %x, {column_elements}
  %sum_index = add i64 %sum_start, %sum_column
  %sum_at = getelementptr {element}, ptr %sums, i64 %sum_index
  %sum = load {element}, ptr %sum_at, align {itemsize}
  %c_index = add i64 %c_start, %x
  %c_at = getelementptr {element}, ptr %c_pair, i64 %c_index
  %stored = load {element}, ptr %c_at, align {itemsize}
  %old = select i1 %first, {element} 0.0, {element} %stored
  %new = fadd {element} %old, %sum
  store {element} %new, ptr %c_at, align {itemsize}
  %x_next = add i64 %x, 1
  %more_columns = icmp slt i64 %x_next, %pair_columns
  br i1 %more_columns, label %column, label %row_end
row_end:
  %i_next = add i64 %i, 1
  %more_rows = icmp slt i64 %i_next, %panels_rows
  br i1 %more_rows, label %row, label %pair_end
pair_end:
  %j_next = add i64 %j, {together}
  %more_pairs = icmp slt i64 %j_next, %columns
  br i1 %more_pairs, label %pair, label %panels_end
panels_end:
  %p_next = add i64 %p, {panels_together}
  %more_panels = icmp sle i64 %p_next, %panel_last
  br i1 %more_panels, label %panels, label %exit
exit:
  ret void
}}
"""


def most_narrow(tile: GemmTile) -> int:
    """The columns of a last vector up to which they are narrow; 0 where rows of `a` do not lie side by side."""
    return tile.lanes // 4 if tile.a_format == "column" and tile.group == 1 else 0


def emit_narrow(tile: GemmTile, name: str) -> str:
    """IR of the internal function that computes `c = a b` if `first`, else `c += a b`, for a few columns of all rows.

    `void @name(a, a_panel, b, c, b_stride, ldc, steps, first, rows, columns)`: `a` is in the packed format "column",
    its panels of rows `a_panel` elements apart, and `b` and `c` point to the first of the columns.
    """
    vectors = -(-tile.mr // tile.lanes)
    panels = max(1, _VECTORS_TOGETHER // vectors)
    chains = [f"{p}_{x}_{v}" for p in range(panels) for x in range(_COLUMNS_TOGETHER) for v in range(vectors)]
    vector, kind = tile.vector, sum_vectors(tile)
    sums = [f"  %sum{at} = phi {vector} [ zeroinitializer, %pair ], [ %next{at}, %loop ]" for at in chains]
    totals = [f"  %total{at} = phi {vector} [ zeroinitializer, %pair ], [ %next{at}, %loop ]" for at in chains]
    for place, at in enumerate(chains):
        totals.append(f"  %total{at}_at = getelementptr {tile.element}, ptr %sums, i64 {place * tile.lanes}")
        totals.append(store_vector(kind, f"%total{at}", f"%total{at}_at"))
    return _NARROW.format(
        name=name,
        attributes=tile.attributes,
        element=tile.element,
        itemsize=tile.itemsize,
        mr=tile.mr,
        elements=len(chains) * tile.lanes,
        panel_elements=_COLUMNS_TOGETHER * vectors * tile.lanes,
        column_elements=vectors * tile.lanes,
        together=_COLUMNS_TOGETHER,
        panels_together=panels,
        panels="\n".join(_panel_lines(tile, panels, vectors)),
        columns="\n".join(_column_lines(tile)),
        sums="\n".join(sums),
        step="\n".join(_step_lines(tile, panels, vectors)),
        totals="\n".join(totals),
    )


def _panel_lines(tile: GemmTile, panels: int, vectors: int) -> Iterator[str]:
    """Where panels of rows start, and which of their rows exist; a panel that does not is the last one again."""
    for p in range(panels):
        yield f"  %p{p}_wish = add i64 %p, {p}"
        yield f"  %p{p} = call i64 @llvm.smin.i64(i64 %p{p}_wish, i64 %panel_last)"
        yield f"  %a{p}_start = mul i64 %p{p}, %a_panel"
        yield f"  %a{p} = getelementptr {tile.element}, ptr %a, i64 %a{p}_start"
        yield f"  %p{p}_row = mul i64 %p{p}, {tile.mr}"
        yield f"  %rows{p}_left = sub i64 %rows, %p{p}_row"
        yield f"  %rows{p} = call i64 @llvm.smin.i64(i64 %rows{p}_left, i64 {tile.mr})"
        for v in range(vectors):
            yield f"  %rows{p}_{v}_more = sub i64 %rows{p}, {v * tile.lanes}"
            yield f"  %rows{p}_{v} = call i64 @llvm.smax.i64(i64 %rows{p}_{v}_more, i64 0)"
            yield from mask_lines(tile.lanes, f"%rows{p}_{v}", f"{p}_{v}")
    yield f"  %first_row = mul i64 %p, {tile.mr}"
    yield "  %rows_left = sub i64 %rows, %first_row"
    yield f"  %panels_rows = call i64 @llvm.smin.i64(i64 %rows_left, i64 {panels * tile.mr})"
    yield "  %c_panel_start = mul i64 %first_row, %ldc"
    yield f"  %c_panels = getelementptr {tile.element}, ptr %c, i64 %c_panel_start"


def _column_lines(tile: GemmTile) -> Iterator[str]:
    """Where columns start; one that does not exist is the last one again."""
    for x in range(_COLUMNS_TOGETHER):
        yield f"  %j{x}_wish = add i64 %j, {x}"
        yield f"  %j{x} = call i64 @llvm.smin.i64(i64 %j{x}_wish, i64 %column_last)"
        yield f"  %b{x} = getelementptr {tile.element}, ptr %b, i64 %j{x}"
    yield "  %columns_left = sub i64 %columns, %j"
    yield f"  %pair_columns = call i64 @llvm.smin.i64(i64 %columns_left, i64 {_COLUMNS_TOGETHER})"
    yield f"  %c_pair = getelementptr {tile.element}, ptr %c_panels, i64 %j"


def _step_lines(tile: GemmTile, panels: int, vectors: int) -> Iterator[str]:
    element, vector = tile.element, tile.vector
    for x in range(_COLUMNS_TOGETHER):
        yield f"  %b{x}_at = getelementptr {element}, ptr %b{x}, i64 %b_offset"
        yield f"  %b{x}_value = load {element}, ptr %b{x}_at, align {tile.itemsize}"
        yield f"  %b{x}_one = insertelement {vector} poison, {element} %b{x}_value, i32 0"
        yield (f"  %b{x}_all = shufflevector {vector} %b{x}_one, {vector} poison, <{tile.lanes} x i32> zeroinitializer")
    for p in range(panels):
        yield f"  %a{p}_step = getelementptr {element}, ptr %a{p}, i64 %a_offset"
        for v in range(vectors):
            yield f"  %a{p}_{v}_at = getelementptr {element}, ptr %a{p}_step, i64 {v * tile.lanes}"
            yield from load_packed(tile, f"%a{p}_{v}", f"%a{p}_{v}_at", f"%mask{p}_{v}")
            for x in range(_COLUMNS_TOGETHER):
                at = f"{p}_{x}_{v}"
                yield from multiply_add(tile, f"%next{at}", (f"%a{p}_{v}", f"%b{x}_all", f"%sum{at}"))
