"""The inner kernels of matrix products: a few rows by a few vectors of columns, summed in registers, as LLVM IR text.

One call runs one block of at most 256 steps along k: each sum is one ascending chain of fused multiply-adds from +0.0.
It is then stored, or added to what is stored already. That is the order `BLOCKED` of reductions, so neither a kernel's
shape nor an edge can change a bit. Pairs of bfloat16 are one step, and the instruction's order is the order: the odd
element first, then the even one, denormal numbers as zeros throughout.

The full kernel serves the inside of a matrix. Edge kernels take any number of rows and columns up to their size; they
read exactly the elements that exist, since a denormal number in the padding would cost a hundred cycles in each step.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from rushlight.ir.gemm_tile import GemmTile

PARAMETERS = (
    "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %b_stride, i64 %ldc, i64 %steps, i1 %first, "
    "ptr %ahead, i64 %ahead_step"
)
LINE_BYTES = 64
# By dtype and bytes of a vector: the LLVM type of a factor's elements, the instruction, and whether it adds.
_GROUP_PRODUCTS = {
    ("bfloat16", 64): ("bfloat", "llvm.x86.avx512bf16.dpbf16ps.512", True),
    ("int8", 64): ("i8", "llvm.x86.avx512.vpdpbusd.512", True),
    ("int8", 32): ("i16", "llvm.x86.avx2.pmadd.wd", False),
    ("int8", 16): ("i16", "llvm.x86.sse2.pmadd.wd", False),
}
_MOST_EDGE_ROWS = {64: 8, 32: 4, 16: 8}


@dataclass(frozen=True)
class MicroKernel:
    """One inner kernel, `rows` x `vectors`; an edge kernel also serves fewer rows and fewer columns.

    One that is a full kernel for a part of the tile's vectors serves fewer columns, of all its rows.
    """

    tile: GemmTile
    rows: int
    vectors: int
    edge: bool

    @property
    def name(self) -> str:
        """What follows the core's name in this kernel's symbol."""
        if self.edge:
            return f"edge_{self.rows}x{self.vectors}"
        return f"full_{self.vectors}" if self.is_part else "full"

    @property
    def is_part(self) -> bool:
        """Whether a full kernel takes the number of columns in its last vector."""
        return not self.edge and self.vectors < self.tile.vectors

    def mask(self, vector: int) -> str | None:
        """The mask of a vector of columns; None where all its lanes exist."""
        return "%mask" if (self.edge or self.is_part) and vector == self.vectors - 1 else None


@dataclass(frozen=True)
class _Carried:
    """A value that the loop over k carries: its name, its type and what it starts from."""

    name: str
    type: str
    start: str


def full_kernel(tile: GemmTile) -> MicroKernel:
    """The kernel for the inside of a matrix."""
    return MicroKernel(tile, tile.mr, tile.vectors, edge=False)


def part_kernels(tile: GemmTile) -> tuple[MicroKernel, ...]:
    """Full kernels for fewer vectors: they fill the machine where edge kernels of fewer rows have too few chains."""
    many = edge_rows(tile)[1]
    return tuple(
        [MicroKernel(tile, tile.mr, vectors, edge=False) for vectors in range(1, tile.vectors) if many < tile.mr]
    )


def edge_rows(tile: GemmTile) -> tuple[int, int]:
    """Rows of the two kinds of kernel for edges."""
    most = min(_MOST_EDGE_ROWS[tile.vector_bytes], tile.mr)
    return max(1, most // 2), most


def reads_in_place(tile: GemmTile) -> bool:
    """Whether a kernel may read `b` where it lies, with memory beyond its edges that is not ours."""
    return not (tile.b_packed or tile.b_made) and tile.b_format == "row" and tile.group == 1


def edge_kernels(tile: GemmTile) -> tuple[MicroKernel, ...]:
    """The kernels for edges, from the fewest rows to the most, each from one vector to all."""
    return tuple(
        MicroKernel(tile, rows, vectors, edge=True)
        for rows in edge_rows(tile)
        for vectors in range(1, tile.vectors + 1)
    )


def emit_micro(kernel: MicroKernel, name: str) -> str:
    """Emits a function that computes `c = a b` if `first`, else `c += a b`, for `steps` steps along k.

    `void @name(a, b, c, b_stride, ldc, steps, first, …)`: `a` is in a packed format; `b_stride`, the elements from one
    step to the next in `b`, is `nr` unless `b` is read in place. The full kernel needs as many steps as the tile's
    `unroll` at least. An edge kernel takes `rows`, at least one, and `columns`, those of its last vector. In each
    step a kernel asks for the cache lines of `nr` elements at `ahead`, for each member of a group, `ahead_step` bytes
    apart, and moves on.
    """
    return "\n".join(_edge_lines(kernel, name) if kernel.edge else _full_lines(kernel, name)) + "\n"


def mask_lines(lanes: int, count: str, name: str = "") -> Iterator[str]:
    """`%mask` and `name`: true in the first `count` (an i64) of a vector's lanes."""
    numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
    vector = f"<{lanes} x i32>"
    yield f"  %count{name} = trunc i64 {count} to i32"
    yield f"  %count_one{name} = insertelement {vector} poison, i32 %count{name}, i32 0"
    yield f"  %count_all{name} = shufflevector {vector} %count_one{name}, {vector} poison, {vector} zeroinitializer"
    yield f"  %mask{name} = icmp ult {vector} <{numbers}>, %count_all{name}"


@dataclass(frozen=True)
class Vectors:
    """A kind of vectors: the LLVM type and bytes of an element, and how many."""

    element: str
    itemsize: int
    lanes: int

    @property
    def type(self) -> str:
        """The LLVM type."""
        return f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """The type as the names of intrinsics spell it."""
        return f"v{self.lanes}{'i' if self.element.startswith('i') else 'f'}{8 * self.itemsize}"


def sum_vectors(tile: GemmTile) -> Vectors:
    """Vectors of sums, or of packed operands."""
    return Vectors(tile.element, tile.itemsize, tile.lanes)


def source_vectors(tile: GemmTile, lanes: int) -> Vectors:
    """Vectors of elements of a plain operand."""
    return Vectors(tile.source, tile.source_bytes, lanes)


def member_vectors(tile: GemmTile, lanes: int) -> Vectors:
    """Vectors of such elements as they lie in packed groups."""
    return Vectors(tile.member, tile.member_bytes, lanes)


def widened(tile: GemmTile, lanes: int, value: str) -> Generator[str, None, str]:
    """The name of a vector of a plain operand's elements as members of groups."""
    if tile.member_bytes == tile.source_bytes:
        return value
    narrow, wide = source_vectors(tile, lanes).type, member_vectors(tile, lanes).type
    yield f"  {value}_member = sext {narrow} {value} to {wide}"
    return f"{value}_member"


def load_vector(kind: Vectors, name: str, address: str, mask: str | None = None) -> str:
    """A load of one vector; lanes that a mask leaves out are +0.0."""
    if mask is None:
        return f"  {name} = load {kind.type}, ptr {address}, align {kind.itemsize}"
    operands = f"ptr align {kind.itemsize} {address}, <{kind.lanes} x i1> {mask}, {kind.type} zeroinitializer"
    return f"  {name} = call {kind.type} @llvm.masked.load.{kind.suffix}.p0({operands})"


def store_vector(kind: Vectors, value: str, address: str, mask: str | None = None) -> str:
    """A store of one vector, or of the lanes that a mask names."""
    if mask is None:
        return f"  store {kind.type} {value}, ptr {address}, align {kind.itemsize}"
    operands = f"{kind.type} {value}, ptr align {kind.itemsize} {address}, <{kind.lanes} x i1> {mask}"
    return f"  call void @llvm.masked.store.{kind.suffix}.p0({operands})"


def broadcast(kind: Vectors, name: str, value: str) -> Iterator[str]:
    """A vector with an element in all its lanes."""
    yield f"  {name}_one = insertelement {kind.type} poison, {kind.element} {value}, i32 0"
    yield f"  {name} = shufflevector {kind.type} {name}_one, {kind.type} poison, <{kind.lanes} x i32> zeroinitializer"


def _full_lines(kernel: MicroKernel, name: str) -> Iterator[str]:
    tile = kernel.tile
    totals = _sums(kernel)
    carried = (
        _Carried("%a_at", "ptr", "%a"),
        _Carried("%b_at", "ptr", "%b"),
        _Carried("%ahead_at", "ptr", "%ahead"),
        *totals,
    )
    columns = ", i64 %columns" if kernel.is_part else ""
    yield f"define internal void @{name}({PARAMETERS}{columns}) noinline {tile.attributes} {{"
    yield "entry:"
    if kernel.is_part:
        yield from mask_lines(tile.lanes, "%columns")
    yield from _starts(kernel)
    c_rows = yield from _rows_in_order(kernel)
    yield from _prefetch_c(kernel, c_rows)
    yield f"  %rest = urem i64 %steps, {tile.unroll}"
    yield "  %whole = sub i64 %steps, %rest"
    yield "  br label %loop"
    yield "loop:"
    yield from _phis("%left", "i64", "%whole")
    for value in carried:
        yield from _phis(value.name, value.type, value.start)
    names = {value.name: value.name for value in carried}
    for step in range(tile.unroll):
        names = yield from _full_step(kernel, names, step, "_next" if step == tile.unroll - 1 else f"_{step}")
    yield f"  %left_next = sub i64 %left, {tile.unroll}"
    yield "  %end = icmp eq i64 %left_next, 0"
    yield "  br i1 %end, label %whole_done, label %loop"
    yield "whole_done:"
    yield "  %none_left = icmp eq i64 %rest, 0"
    yield "  br i1 %none_left, label %done, label %one"
    yield "one:"
    yield "  %rest_left = phi i64 [ %rest, %whole_done ], [ %rest_next, %one ]"
    for value in carried:
        yield f"  {value.name}_one = phi {value.type} [ {value.name}_next, %whole_done ], [ {value.name}_last, %one ]"
    yield from _full_step(kernel, {value.name: f"{value.name}_one" for value in carried}, tile.unroll, "_last")
    yield "  %rest_next = sub i64 %rest_left, 1"
    yield "  %rest_end = icmp eq i64 %rest_next, 0"
    yield "  br i1 %rest_end, label %done, label %one"
    yield "done:"
    for value in totals:
        yield f"  {value.name}_total = phi {value.type} [ {value.name}_next, %whole_done ], [ {value.name}_last, %one ]"
    yield from _write(kernel, c_rows, tuple(f"{value.name}_total" for value in totals))
    yield "}"


def _full_step(
    kernel: MicroKernel, names: dict[str, str], step: int, after: str
) -> Generator[str, None, dict[str, str]]:
    """A step of the full kernel; the names of what is carried after it."""
    tile = kernel.tile
    stride = tile.block_steps if tile.a_format == "row" else 1
    yield from _prefetch_step(tile, names["%ahead_at"], f"%ahead_at{after}")
    a_rows = [f"%a{step}_{row}_at" for row in range(kernel.rows)]
    for row, address in enumerate(a_rows):
        yield f"  {address} = getelementptr {tile.element}, ptr {names['%a_at']}, i64 {row * stride}"
    yield from _step(kernel, names, a_rows, step, after)
    yield f"  %a_at{after} = getelementptr {tile.element}, ptr {names['%a_at']}, i64 {_a_step(tile)}"
    return {value: f"{value}{after}" for value in names}


def _edge_lines(kernel: MicroKernel, name: str) -> Iterator[str]:
    """Rows that do not exist are the last row again: they compute and store the same values in the same place."""
    tile = kernel.tile
    totals = _sums(kernel)
    carried = (
        _Carried("%offset", "i64", "0"),
        _Carried("%b_at", "ptr", "%b"),
        _Carried("%ahead_at", "ptr", "%ahead"),
        *totals,
    )
    yield f"define internal void @{name}({PARAMETERS}, i64 %rows, i64 %columns) noinline {tile.attributes} {{"
    yield "entry:"
    yield from mask_lines(tile.lanes, "%columns")
    yield from _starts(kernel)
    yield "  %last = sub i64 %rows, 1"
    for row in range(kernel.rows):
        yield f"  %row{row} = call i64 @llvm.umin.i64(i64 %last, i64 {row})"
        yield f"  %row{row}_start = mul i64 %row{row}, {tile.block_steps if tile.a_format == 'row' else 1}"
        yield f"  %a_row{row} = getelementptr {tile.element}, ptr %a, i64 %row{row}_start"
    yield "  %none = icmp eq i64 %steps, 0"
    yield "  br i1 %none, label %done, label %loop"
    yield "loop:"
    yield from _phis("%left", "i64", "%steps")
    for value in carried:
        yield from _phis(value.name, value.type, value.start)
    yield from _prefetch_step(tile, "%ahead_at", "%ahead_at_next")
    a_rows = [f"%a0_{row}_at" for row in range(kernel.rows)]
    for row, address in enumerate(a_rows):
        yield f"  {address} = getelementptr {tile.element}, ptr %a_row{row}, i64 %offset"
    yield from _step(kernel, {value.name: value.name for value in carried}, a_rows, 0, "_next")
    yield f"  %offset_next = add i64 %offset, {_a_step(tile)}"
    yield "  %left_next = sub i64 %left, 1"
    yield "  %end = icmp eq i64 %left_next, 0"
    yield "  br i1 %end, label %done, label %loop"
    yield "done:"
    for value in totals:
        yield f"  {value.name}_total = phi {value.type} [ {value.start}, %entry ], [ {value.name}_next, %loop ]"
    c_rows = []
    for row in range(kernel.rows):
        yield f"  %c_row{row}_start = mul i64 %row{row}, %ldc"
        yield f"  %c_row{row} = getelementptr {tile.element}, ptr %c, i64 %c_row{row}_start"
        c_rows.append(f"%c_row{row}")
    yield from _write(kernel, c_rows, tuple(f"{value.name}_total" for value in totals))
    yield "}"


def _prefetch_step(tile: GemmTile, name: str, after: str) -> Iterator[str]:
    """Ask for the lines of one step of a panel, into the second cache: the present panel fills the first.

    Each line is asked for by its last byte, since a panel that starts within a line shares that one with its
    predecessor, and its last one with its successor.
    """
    for row in range(tile.group):
        start = f"{name}_row{row}"
        yield f"  {start}_bytes = mul i64 %ahead_step, {row}"
        yield f"  {start} = getelementptr i8, ptr {name}, i64 {start}_bytes"
        for byte in range(LINE_BYTES - 1, tile.nr * tile.source_bytes, LINE_BYTES):
            yield f"  {start}_{byte} = getelementptr i8, ptr {start}, i64 {byte}"
            yield f"  call void @llvm.prefetch.p0(ptr {start}_{byte}, i32 0, i32 2, i32 1)"
    yield f"  {after}_bytes = mul i64 %ahead_step, {tile.group}"
    yield f"  {after} = getelementptr i8, ptr {name}, i64 {after}_bytes"


def _sums(kernel: MicroKernel) -> tuple[_Carried, ...]:
    return tuple(
        _Carried(f"%sum{row}_{vector}", kernel.tile.vector, _start(kernel.tile, vector))
        for row in range(kernel.rows)
        for vector in range(kernel.vectors)
    )


def _start(tile: GemmTile, vector: int) -> str:
    """What the sums of a vector of columns start from."""
    return f"%start{vector}" if tile.is_offset else "zeroinitializer"


def _starts(kernel: MicroKernel) -> Iterator[str]:
    tile = kernel.tile
    if tile.is_offset:
        for vector in range(kernel.vectors):
            place = tile.nr * tile.block_steps + vector * tile.lanes
            yield f"  %start{vector}_at = getelementptr {tile.element}, ptr %b, i64 {place}"
            yield load_vector(sum_vectors(tile), f"%start{vector}", f"%start{vector}_at")


def _phis(name: str, type_: str, start: str) -> Iterator[str]:
    yield f"  {name} = phi {type_} [ {start}, %entry ], [ {name}_next, %loop ]"


def _a_step(tile: GemmTile) -> int:
    """Elements from one step along k to the next in a packed `a`."""
    return 1 if tile.a_format == "row" else tile.mr


def _rows_in_order(kernel: MicroKernel) -> Generator[str, None, list[str]]:
    """The addresses of a full tile's rows of `c`."""
    rows = ["%c"]
    for row in range(1, kernel.rows):
        yield f"  %c_row{row} = getelementptr {kernel.tile.element}, ptr {rows[-1]}, i64 %ldc"
        rows.append(f"%c_row{row}")
    return rows


def _prefetch_c(kernel: MicroKernel, rows: list[str]) -> Iterator[str]:
    """Ask for the lines of `c` now: they are needed when the loop over k ends."""
    for number, row in enumerate(rows):
        for byte in range(0, kernel.vectors * kernel.tile.vector_bytes, LINE_BYTES):
            yield f"  %line{number}_{byte} = getelementptr i8, ptr {row}, i64 {byte}"
            yield f"  call void @llvm.prefetch.p0(ptr %line{number}_{byte}, i32 1, i32 3, i32 1)"


def _step(kernel: MicroKernel, names: dict[str, str], a_rows: list[str], step: int, after: str) -> Iterator[str]:
    """One step along k: load the vectors of `b`; for each row broadcast an element of `a`, multiply and add.

    `names` maps what the loop carries to its present names; `after` follows the names of the results.
    """
    tile = kernel.tile
    for vector in range(kernel.vectors):
        address = f"%b{step}_{vector}_at"
        yield f"  {address} = getelementptr {tile.element}, ptr {names['%b_at']}, i64 {vector * tile.lanes}"
        yield from _load_b(kernel, f"%b{step}_{vector}", address, vector)
    for row, address in enumerate(a_rows):
        scalar = f"%a{step}_{row}"
        yield f"  {scalar} = load {tile.element}, ptr {address}, align {tile.itemsize}"
        yield from broadcast(sum_vectors(tile), f"{scalar}_all", scalar)
        for vector in range(kernel.vectors):
            total = f"%sum{row}_{vector}"
            yield from multiply_add(tile, f"{total}{after}", (f"{scalar}_all", f"%b{step}_{vector}", names[total]))
    b_step = "%b_stride" if reads_in_place(tile) else tile.nr
    yield f"  %b_at{after} = getelementptr {tile.element}, ptr {names['%b_at']}, i64 {b_step}"


def multiply_add(tile: GemmTile, name: str, operands: tuple[str, str, str]) -> Iterator[str]:
    """The product of two vectors, of groups or of elements, added to a third."""
    if tile.group == 1:
        typed = ", ".join(f"{tile.vector} {operand}" for operand in operands)
        yield f"  {name} = call {tile.vector} @llvm.fma.{tile.suffix}({typed})"
        return
    element, instruction, adds = _GROUP_PRODUCTS[tile.dtype, tile.vector_bytes]
    groups = f"<{tile.group * tile.lanes} x {element}>"
    for place, operand in enumerate(operands[:2]):
        yield f"  {name}_{place} = bitcast {tile.vector} {operand} to {groups}"
    factors = f"{groups} {name}_0, {groups} {name}_1"
    if adds:
        yield f"  {name} = call {tile.vector} @{instruction}({tile.vector} {operands[2]}, {factors})"
        return
    yield f"  {name}_product = call {tile.vector} @{instruction}({factors})"
    yield f"  {name} = add {tile.vector} {operands[2]}, {name}_product"


def _load_b(kernel: MicroKernel, name: str, address: str, vector: int) -> Iterator[str]:
    """Load a vector of `b`; columns that do not exist are +0.0."""
    tile, mask = kernel.tile, kernel.mask(vector)
    if mask is None or reads_in_place(tile):
        yield load_vector(sum_vectors(tile), name, address, mask)
    else:
        yield from load_packed(tile, name, address, mask)


def load_packed(tile: GemmTile, name: str, address: str, mask: str) -> Iterator[str]:
    """Load a vector of a packed `b`; columns that a mask leaves out are +0.0.

    Where the machine has no masked loads, the padding is loaded and discarded.
    """
    if tile.vector_bytes > 16:
        yield load_vector(sum_vectors(tile), name, address, mask)
    else:
        yield load_vector(sum_vectors(tile), f"{name}_padded", address)
        yield (
            f"  {name} = select <{tile.lanes} x i1> {mask}, {tile.vector} {name}_padded, {tile.vector} zeroinitializer"
        )


def _write(kernel: MicroKernel, rows: list[str], sums: tuple[str, ...]) -> Iterator[str]:
    """Store the sums, or add them to what is stored, and return.

    The first block is added to +0.0. An edge kernel, whose rows may be the same, loads all before it stores any.
    """
    tile = kernel.tile
    flags = f"<{tile.lanes} x i1>"
    yield f"  %first_one = insertelement {flags} poison, i1 %first, i32 0"
    yield f"  %firsts = shufflevector {flags} %first_one, {flags} poison, <{tile.lanes} x i32> zeroinitializer"
    stores = []
    for row, start in enumerate(rows):
        for vector in range(kernel.vectors):
            mask = kernel.mask(vector)
            name = f"%c{row}_{vector}"
            yield f"  {name}_at = getelementptr {tile.element}, ptr {start}, i64 {vector * tile.lanes}"
            yield load_vector(sum_vectors(tile), f"{name}_stored", f"{name}_at", mask)
            yield f"  {name}_old = select {flags} %firsts, {tile.vector} zeroinitializer, {tile.vector} {name}_stored"
            yield f"  {name} = {tile.add} {tile.vector} {name}_old, {sums[row * kernel.vectors + vector]}"
            stores.append(store_vector(sum_vectors(tile), name, f"{name}_at", mask))
        if not kernel.edge:
            yield from stores
            stores = []
    yield from stores
    yield "  ret void"
