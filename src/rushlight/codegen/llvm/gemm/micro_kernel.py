"""Micro-kernels of matrix products: a register tile of rows by vectors of columns, summed along k.

Input: a `MicroKernel`, the tile's shape. Output: the text of one LLVM function. docs/compiler/micro-kernel.md walks
through it.

One call runs one block of at most 256 steps along k. Each sum is one ascending chain of fused multiply-adds from +0.0;
it is then stored, or added to the stored sum of earlier blocks. That is the reduction order `BLOCKED`, so neither the
register tile nor an edge changes a bit. A pair of bfloat16 is one step in the instruction's own order: the odd element
first, then the even one, denormals as zeros throughout.

The full kernel serves the inside of a matrix. Edge kernels take any number of rows and columns up to their size. They
read only elements that exist: a denormal number in the padding would cost a hundred cycles in each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rushlight.codegen.llvm.builder.function_builder import Carried, FunctionBuilder
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
from rushlight.ir.target import Target

PARAMETERS = (
    "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, "
    "ptr %prefetch, i64 %prefetch_step"
)
# Rows of the larger edge kernel. With 32 vector registers 8 rows x 2 vectors fit, with 16 (AVX2) 4 x 2.
_MOST_EDGE_ROWS = {64: 8, 32: 4, 16: 8}


@dataclass(frozen=True)
class MicroKernel:
    """One micro-kernel, `rows` x `vectors`; an edge kernel also serves fewer rows and fewer columns.

    A full kernel with fewer vectors than the tile serves all of the tile's rows and fewer columns.
    """

    tile: GemmTile
    rows: int
    vectors: int
    edge: bool

    @property
    def name(self) -> str:
        """The suffix of this kernel's symbol, after the core's name."""
        if self.edge:
            return f"edge_{self.rows}x{self.vectors}"
        return f"full_{self.vectors}" if self.is_part else "full"

    @property
    def is_part(self) -> bool:
        """Whether this is a full kernel with an argument for the columns of its last vector."""
        return not self.edge and self.vectors < self.tile.vectors

    def mask(self, vector: int) -> str | None:
        """The mask of a vector of columns; None if all its lanes exist."""
        return "%mask" if (self.edge or self.is_part) and vector == self.vectors - 1 else None


def full_kernel(tile: GemmTile) -> MicroKernel:
    """The kernel for the inside of a matrix."""
    return MicroKernel(tile, tile.mr, tile.vectors, edge=False)


def part_kernels(tile: GemmTile) -> tuple[MicroKernel, ...]:
    """Full kernels for fewer vectors, where edge kernels have too few rows to hide the latency of fma."""
    many = edge_rows(tile)[1]
    return tuple(
        [MicroKernel(tile, tile.mr, vectors, edge=False) for vectors in range(1, tile.vectors) if many < tile.mr]
    )


def edge_rows(tile: GemmTile) -> tuple[int, int]:
    """Rows of the two sizes of edge kernels."""
    most = min(_MOST_EDGE_ROWS[tile.vector_bytes], tile.mr)
    return max(1, most // 2), most


def reads_in_place(tile: GemmTile) -> bool:
    """Whether a kernel may read `b` in place; the memory beyond its edges may then belong to others."""
    return not (tile.b_packed or tile.b_made) and tile.b_format == "row" and tile.group == 1


def edge_kernels(tile: GemmTile) -> tuple[MicroKernel, ...]:
    """The edge kernels, from the fewest rows to the most, each from one vector to all."""
    return tuple(
        MicroKernel(tile, rows, vectors, edge=True)
        for rows in edge_rows(tile)
        for vectors in range(1, tile.vectors + 1)
    )


def emit_micro(kernel: MicroKernel, name: str) -> str:
    """An internal function: `c = a b` if `first`, else `c += a b`, for `steps` steps along k.

    `void @name(a, b, c, b_stride, ldc, steps, first, prefetch, prefetch_step)`: `a` is in a packed format; `b_stride`,
    the elements from one step to the next in `b`, is `nr` unless `b` is read in place. The full kernel needs at least
    `unroll` steps. An edge kernel has two more parameters: `rows`, at least one, and `columns`, those of its last
    vector. Each step prefetches the cache lines of `nr` elements at `prefetch`, for each member of a group
    `prefetch_step` bytes apart, and advances that address.
    """
    return _emit_edge(kernel, name) if kernel.edge else _emit_full(kernel, name)


def _emit_full(kernel: MicroKernel, name: str) -> str:
    """All rows exist, and all columns but those of a part kernel: an unrolled loop, then one over the other steps."""
    tile = kernel.tile
    columns = ", i64 %columns" if kernel.is_part else ""
    code = FunctionBuilder(f"define internal void @{name}({PARAMETERS}{columns}) noinline {tile.attributes}")
    if kernel.is_part:
        lane_mask(code, tile.lanes, "%columns")
    _load_compensation(code, kernel)
    c_rows = ["%c"]
    for row in range(1, kernel.rows):
        c_rows.append(code.address(f"c_row{row}", tile.element, c_rows[-1], "%ldc"))
    _prefetch_c(code, kernel, c_rows)
    remainder = code.let("remainder", f"urem i64 %steps, {tile.unroll}")
    unrolled_steps = code.let("unrolled_steps", f"sub i64 %steps, {remainder}")
    sums = _sums(kernel)
    carried = (Carried("a_at", "ptr", "%a"), Carried("b_at", "ptr", "%b"), Carried("line", "ptr", "%prefetch"), *sums)
    with code.countdown("unrolled", "left", unrolled_steps, step=tile.unroll, carried=carried) as loop:
        values: Mapping[str, str] = loop.values
        for step in range(tile.unroll):
            values = _full_step(code, kernel, values, step, "_next" if step == tile.unroll - 1 else f"_{step}")
        loop.next.update(values)
    no_remainder = code.is_zero("no_remainder", remainder)
    again = [Carried(f"{value.name}_single", value.type, values[value.name]) for value in carried]
    with code.countdown("single", "single_left", remainder, carried=again, skip=no_remainder, after="done") as loop:
        values = {value.name: loop.values[f"{value.name}_single"] for value in carried}
        values = _full_step(code, kernel, values, tile.unroll, "_last")
        loop.next.update({f"{name}_single": value for name, value in values.items()})
    _write(code, kernel, c_rows, loop.results(again[-len(sums) :], "_total"))
    return code.finish()


def _full_step(
    code: FunctionBuilder, kernel: MicroKernel, values: Mapping[str, str], step: int, suffix: str
) -> dict[str, str]:
    """One step of the full kernel; returns the carried values after it. `suffix` makes their names unique."""
    tile = kernel.tile
    stride = tile.block_steps if tile.a_format == "row" else 1
    after = {"line": _prefetch_step(code, tile, values["line"], f"line{suffix}")}
    a_rows = [
        code.address(f"a{step}_{row}_at", tile.element, values["a_at"], row * stride) for row in range(kernel.rows)
    ]
    after.update(_step(code, kernel, values, a_rows, step, suffix))
    after["a_at"] = code.address(f"a_at{suffix}", tile.element, values["a_at"], _a_step(tile))
    return after


def _emit_edge(kernel: MicroKernel, name: str) -> str:
    """A row that does not exist is the last row again: it computes and stores the same values at the same address."""
    tile = kernel.tile
    parameters = f"{PARAMETERS}, i64 %rows, i64 %columns"
    code = FunctionBuilder(f"define internal void @{name}({parameters}) noinline {tile.attributes}")
    lane_mask(code, tile.lanes, "%columns")
    _load_compensation(code, kernel)
    last = code.let("last", "sub i64 %rows, 1")
    rows: list[str] = []
    a_rows: list[str] = []
    for row in range(kernel.rows):
        rows.append(code.let(f"row{row}", f"call i64 @llvm.umin.i64(i64 {last}, i64 {row})"))
        stride = tile.block_steps if tile.a_format == "row" else 1
        a_rows.append(code.row(f"a_row{row}", tile.element, "%a", rows[-1], stride))
    no_steps = code.is_zero("no_steps", "%steps")
    sums = _sums(kernel)
    carried = (Carried("offset", "i64", "0"), Carried("b_at", "ptr", "%b"), Carried("line", "ptr", "%prefetch"), *sums)
    with code.countdown("step", "left", "%steps", carried=carried, skip=no_steps, after="done") as loop:
        loop.next["line"] = _prefetch_step(code, tile, "%line", "line_next")
        elements = [
            code.address(f"a0_{row}_at", tile.element, address, "%offset") for row, address in enumerate(a_rows)
        ]
        loop.next.update(_step(code, kernel, loop.values, elements, 0, "_next"))
        loop.next["offset"] = code.let("offset_next", f"add i64 %offset, {_a_step(tile)}")
    totals = loop.results(sums, "_total")
    c_rows: list[str] = []
    for row, number in enumerate(rows):
        c_rows.append(code.row(f"c_row{row}", tile.element, "%c", number, "%ldc"))
    _write(code, kernel, c_rows, totals)
    return code.finish()


def _prefetch_step(code: FunctionBuilder, tile: GemmTile, line: str, after: str) -> str:
    """Prefetches the lines of one step of a panel; returns the address of the next step.

    They go to the second-level cache: the first is full of the current panel. The address of a prefetch is the last
    byte of a line: a panel that starts within a line shares it with its predecessor, and its last one with its
    successor.
    """
    for member in range(tile.group):
        name = f"{line[1:]}_row{member}"
        distance = code.let(f"{name}_bytes", f"mul i64 %prefetch_step, {member}")
        row = code.address(name, "i8", line, distance)
        for byte in range(Target.LINE_BYTES - 1, tile.nr * tile.source_bytes, Target.LINE_BYTES):
            address = code.address(f"{name}_{byte}", "i8", row, byte)
            code.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 2, i32 1)")
    step = code.let(f"{after}_bytes", f"mul i64 %prefetch_step, {tile.group}")
    return code.address(after, "i8", line, step)


def _sums(kernel: MicroKernel) -> tuple[Carried, ...]:
    """The register tile: one accumulator for each row and vector of columns."""
    tile = kernel.tile
    return tuple(
        Carried(f"sum{row}_{vector}", tile.vector, f"%start{vector}" if tile.is_offset else "zeroinitializer")
        for row in range(kernel.rows)
        for vector in range(kernel.vectors)
    )


def _load_compensation(code: FunctionBuilder, kernel: MicroKernel) -> None:
    """Loads the start of the sums for int8: minus what 128 in each element of `a` adds (`emit_compensation`)."""
    tile = kernel.tile
    if tile.is_offset:
        for vector in range(kernel.vectors):
            offset = tile.nr * tile.block_steps + vector * tile.lanes
            address = code.address(f"start{vector}_at", tile.element, "%b", offset)
            load_vector(code, sum_vectors(tile), f"start{vector}", address)


def _a_step(tile: GemmTile) -> int:
    """Elements from one step along k to the next in a packed `a`."""
    return 1 if tile.a_format == "row" else tile.mr


def _prefetch_c(code: FunctionBuilder, kernel: MicroKernel, rows: Sequence[str]) -> None:
    """Prefetches the lines of `c` for writing: they are needed when the loop over k ends."""
    for number, row in enumerate(rows):
        for byte in range(0, kernel.vectors * kernel.tile.vector_bytes, Target.LINE_BYTES):
            address = code.address(f"c_line{number}_{byte}", "i8", row, byte)
            code.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 1, i32 3, i32 1)")


def _step(
    code: FunctionBuilder, kernel: MicroKernel, values: Mapping[str, str], a_rows: Sequence[str], step: int, suffix: str
) -> dict[str, str]:
    """One step along k, an outer product: each row's element of `a` times the vectors of `b`.

    The vectors of `b` stay in registers for all rows; each element of `a` is broadcast once, by the load itself on x86.
    """
    tile = kernel.tile
    after: dict[str, str] = {}
    b: list[str] = []
    for vector in range(kernel.vectors):
        address = code.address(f"b{step}_{vector}_at", tile.element, values["b_at"], vector * tile.lanes)
        b.append(_load_b(code, kernel, f"b{step}_{vector}", address, vector))
    for row, address in enumerate(a_rows):
        name = f"a{step}_{row}"
        element = code.load(name, tile.element, address, tile.itemsize)
        every = broadcast(code, sum_vectors(tile), f"{name}_all", element)
        for vector in range(kernel.vectors):
            total = f"sum{row}_{vector}"
            after[total] = multiply_add(code, tile, f"{total}{suffix}", (every, b[vector], values[total]))
    b_step = "%b_stride" if reads_in_place(tile) else tile.nr
    after["b_at"] = code.address(f"b_at{suffix}", tile.element, values["b_at"], b_step)
    return after


def _load_b(code: FunctionBuilder, kernel: MicroKernel, name: str, address: str, vector: int) -> str:
    """Loads a vector of `b`; columns that do not exist are +0.0."""
    tile, mask = kernel.tile, kernel.mask(vector)
    if mask is None or reads_in_place(tile):
        return load_vector(code, sum_vectors(tile), name, address, mask)
    return load_packed(code, tile, name, address, mask)


def _write(code: FunctionBuilder, kernel: MicroKernel, rows: Sequence[str], sums: Sequence[str]) -> None:
    """Stores the sums, or adds them to the stored ones.

    The first block is added to +0.0. In an edge kernel several rows may be the same row: it loads all before it stores
    any, so that no sum is added twice.
    """
    tile = kernel.tile
    kind = sum_vectors(tile)
    flags = f"<{tile.lanes} x i1>"
    one = code.let("first_one", f"insertelement {flags} poison, i1 %first, i32 0")
    zeros = f"<{tile.lanes} x i32> zeroinitializer"
    firsts = code.let("firsts", f"shufflevector {flags} {one}, {flags} poison, {zeros}")
    stores: list[tuple[str, str, str | None]] = []
    for row, start in enumerate(rows):
        for vector in range(kernel.vectors):
            name, mask = f"c{row}_{vector}", kernel.mask(vector)
            address = code.address(f"{name}_at", tile.element, start, vector * tile.lanes)
            stored = load_vector(code, kind, f"{name}_stored", address, mask)
            chosen = f"{flags} {firsts}, {tile.vector} zeroinitializer, {tile.vector} {stored}"
            old = code.let(f"{name}_old", f"select {chosen}")
            total = code.let(name, f"{tile.add} {tile.vector} {old}, {sums[row * kernel.vectors + vector]}")
            stores.append((total, address, mask))
        if not kernel.edge:
            _store_all(code, tile, stores)
            stores = []
    _store_all(code, tile, stores)


def _store_all(code: FunctionBuilder, tile: GemmTile, stores: Sequence[tuple[str, str, str | None]]) -> None:
    for value, address, mask in stores:
        store_vector(code, sum_vectors(tile), value, address, mask)
