"""The last few columns of a panel of `b`, with rows of `a` in the lanes of vectors.

A vector of columns costs as much for one column as for all of its lanes: 49 columns in vectors of 16 are as slow as 64.
Here the rows, which are adjacent in a packed `a`, fill the lanes, and a step costs one product for each column. Several
panels of rows run side by side, since each step of a chain waits for the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rushlight.codegen.llvm.builder.function_builder import Carried, FunctionBuilder, Loop
from rushlight.codegen.llvm.gemm.vectors import Vectors, broadcast, load_vector, store_vector
from rushlight.ir.gemm_tile import GemmTile

# Chains of multiply-adds that run side by side: as many as hide the latency of their steps.
_CHAINS = 8

_PARAMETERS = (
    "ptr noalias readonly %a, i64 %a_panel, ptr noalias readonly %b, ptr noalias %c, "
    "i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, i64 %panels"
)


def most_narrow(tile: GemmTile) -> int:
    """The most columns of a last vector that count as narrow; 0 unless rows of `a` are adjacent."""
    return tile.lanes // 4 if tile.a_format == "column" and tile.group == 1 else 0


def emit_narrow(tile: GemmTile, name: str) -> str:
    """Emits a function that computes a few columns of all rows: `c = a b` if `first`, else `c += a b`.

    `void @name(a, a_panel, b, c, b_stride, ldc, steps, first, panels, columns)`: `a` is in the packed format "column",
    its full panels of rows are `a_panel` elements apart, and `b` and `c` point to the first of up to `most_narrow`
    columns. There is an inner function for each power of two of columns.
    """
    powers = [1 << bit for bit in reversed(range(most_narrow(tile).bit_length()))]
    texts = [_emit_columns(tile, f"{name}_{columns}", columns) for columns in powers]
    code = FunctionBuilder(f"define internal void @{name}({_PARAMETERS}, i64 %columns) noinline {tile.attributes}")
    code.branch(code.is_zero("no_panels", "%panels"), "exit", f"test{powers[0]}")
    code.block(f"test{powers[0]}")
    for columns in powers:
        bit = code.let(f"bit{columns}", f"and i64 %columns, {columns}")
        none = code.is_zero(f"none{columns}", bit)
        after = f"test{columns // 2}" if columns > 1 else "exit"
        with code.unless(none, f"columns{columns}", after):
            before = code.let(f"before{columns}", f"and i64 %columns, {-2 * columns}")
            b = code.address(f"b{columns}", tile.element, "%b", before)
            c = code.address(f"c{columns}", tile.element, "%c", before)
            arguments = f"ptr %a, i64 %a_panel, ptr {b}, ptr {c}, i64 %b_stride, i64 %ldc, i64 %steps, i1 %first"
            code.do(f"call void @{name}_{columns}({arguments}, i64 %panels)")
    return "\n".join([*texts, code.finish()])


def _emit_columns(tile: GemmTile, name: str, columns: int) -> str:
    """Emits the function for a fixed number of columns: sums of a group of panels in registers, then on the stack."""
    pieces = tuple(_pieces(tile))
    together = max(1, _CHAINS // (len(pieces) * columns))
    rows = together * tile.mr
    # For each chain: its name, its vectors, and the offset of its sums, which are stored column by column.
    chains = [
        (f"{panel}_{start}_{column}", kind, column * rows + panel * tile.mr + start)
        for column in range(columns)
        for panel in range(together)
        for start, kind in pieces
    ]
    sums = [Carried(f"sum{chain}", kind.type, "zeroinitializer") for chain, kind, _ in chains]
    code = FunctionBuilder(f"define internal void @{name}({_PARAMETERS}) noinline {tile.attributes}")
    code.let("sums", f"alloca [{columns * rows} x {tile.element}], align 64")
    last = code.let("panel_last", "sub i64 %panels, 1")
    no_steps = code.is_zero("no_steps", "%steps")
    with code.loop("group", "p", last, step=together, relation="sle", after="exit") as group:
        panels = [_panel_address(code, tile, group.index, panel) for panel in range(together)]
        carried = (Carried("a_offset", "i64", "0"), Carried("b_at", "ptr", "%b"), *sums)
        with code.countdown("step", "left", "%steps", carried=carried, skip=no_steps, after="done") as loop:
            _add_step(code, loop, pieces, panels, columns)
            loop.next["a_offset"] = code.let("a_offset_next", f"add i64 {loop.values['a_offset']}, {tile.mr}")
            loop.next["b_at"] = code.address("b_at_next", tile.element, loop.values["b_at"], "%b_stride")
        for total, (chain, kind, offset) in zip(loop.results(sums, "_total"), chains, strict=True):
            store_vector(code, kind, total, code.address(f"total{chain}_at", tile.element, "%sums", offset))
        _write_rows(code, tile, columns, together, group.index)
    return code.finish()


def _pieces(tile: GemmTile) -> Iterator[tuple[int, Vectors]]:
    """The first row and the type of each vector that the rows of a panel fill: as few vectors as possible."""
    start = 0
    while start < tile.mr:
        lanes = min(tile.lanes, 1 << (tile.mr - start).bit_length() - 1)
        yield start, Vectors(tile.element, tile.itemsize, lanes)
        start += lanes


def _panel_address(code: FunctionBuilder, tile: GemmTile, first: str, number: int) -> str:
    """The address of panel `first + number` of rows, or of the last panel if there are fewer."""
    requested = code.let(f"p{number}_requested", f"add i64 {first}, {number}")
    panel = code.minimum(f"p{number}", requested, "%panel_last")
    return code.row(f"a{number}", tile.element, "%a", panel, "%a_panel")


def _add_step(
    code: FunctionBuilder, loop: Loop, pieces: Sequence[tuple[int, Vectors]], panels: Sequence[str], columns: int
) -> None:
    """One step along k: vectors of the panels' rows times one element of each column."""
    element, itemsize = pieces[0][1].element, pieces[0][1].itemsize
    b: dict[tuple[int, Vectors], str] = {}
    for column in range(columns):
        address = code.address(f"b{column}_at", element, loop.values["b_at"], column)
        scalar = code.load(f"b{column}", element, address, itemsize)
        for kind in dict.fromkeys([kind for _, kind in pieces]):
            b[column, kind] = broadcast(code, kind, f"b{column}_all{kind.lanes}", scalar)
    for panel, panel_at in enumerate(panels):
        for start, kind in pieces:
            name = f"a{panel}_{start}"
            index = code.let(f"{name}_index", f"add i64 {loop.values['a_offset']}, {start}")
            a = load_vector(code, kind, name, code.address(f"{name}_at", element, panel_at, index))
            for column in range(columns):
                chain = f"{panel}_{start}_{column}"
                total = loop.values[f"sum{chain}"]
                operands = f"{kind.type} {a}, {kind.type} {b[column, kind]}, {kind.type} {total}"
                call = f"call {kind.type} @llvm.fma.{kind.suffix}({operands})"
                loop.next[f"sum{chain}"] = code.let(f"sum{chain}_next", call)


def _write_rows(code: FunctionBuilder, tile: GemmTile, columns: int, together: int, first_panel: str) -> None:
    """Stores the sums of a group of panels row by row, or adds them to `c`, for panels that exist."""
    left = code.let("panels_left", f"sub i64 %panels, {first_panel}")
    panels = code.minimum("panels_here", left, together)
    rows = code.let("rows", f"mul i64 {panels}, {tile.mr}")
    first_row = code.let("first_row", f"mul i64 {first_panel}, {tile.mr}")
    c_rows = code.row("c_rows", tile.element, "%c", first_row, "%ldc")
    with code.loop("row", "i", rows, carried=(Carried("c_row", "ptr", c_rows),), after="group_end") as row:
        for column in range(columns):
            _write_element(code, tile, column, code.let(f"index{column}", f"add i64 %i, {column * together * tile.mr}"))
        row.advance()
        row.next["c_row"] = code.address("c_row_next", tile.element, row.values["c_row"], "%ldc")


def _write_element(code: FunctionBuilder, tile: GemmTile, column: int, index: str) -> None:
    """Stores one sum, or adds it to `c`; the first block of k is added to +0.0."""
    element, itemsize = tile.element, tile.itemsize
    total = code.load(f"sum{column}", element, code.address(f"sum{column}_at", element, "%sums", index), itemsize)
    c_at = code.address(f"c{column}_at", element, "%c_row", column)
    stored = code.load(f"stored{column}", element, c_at, itemsize)
    old = code.let(f"old{column}", f"select i1 %first, {element} 0.0, {element} {stored}")
    code.store(element, code.let(f"new{column}", f"fadd {element} {old}, {total}"), c_at, itemsize)
