"""How matrix products are cut into tiles, and where packed operands keep their elements.

A product is `c[m, n] = sum over k of a[m, k] * b[k, n]`. An operand is packed up front, or used as it lies in memory:

| operand | format | packed | address of an element                           | elements of storage       |
|---------|--------|--------|-------------------------------------------------|---------------------------|
| a       | row    | yes    | `256 * m + k + 256 * (M - 1) * (k // 256)`      | `256 * M * ceil(K / 256)` |
| a       | row    | no     | `m * a_ld + k`                                  |                           |
| a       | column | yes    | `(m // mr) * mr * (K - 1) + k * mr + m`         | `ceil(M / mr) * mr * K`   |
| a       | column | no     | `k * a_ld + m`                                  |                           |
| b       |        | yes    | `(n // nr) * nr * (K - 1) + k * nr + n`         | `ceil(N / nr) * nr * K`   |
| b       | row    | no     | `k * b_ld + n`                                  |                           |
| b       | column | no     | `n * b_ld + k`                                  |                           |

An operand is packed by any code that writes `packed[address(m, k)] = a[m, k]` for all m and k. Elements of the storage
without an address are padding, which is never read. "row" suits an `a` whose rows are contiguous: the rows of a panel
are 256 elements apart, so the micro-kernel addresses all of them from one register, and the layout does not depend on
the tile. "column" suits an `a` whose columns are contiguous, and one that is packed once and used often: adjacent rows
fill the lanes of vectors when a panel's last vector has only a few columns (`codegen.llvm.gemm.narrow`). Operands need
not be packed up front: the core packs `a` in blocks of `mc` x 256, and `b` in panels of 256 x `nr`, on its stack; of
int8 it packs 256 groups. That costs less than a pass over memory, unless a transposed `b` ("column") meets many rows.

A `b` that is not in memory is *made*: for each panel the core calls a function, which writes a plain matrix of 256 x
`nr` into the core's own memory, row by row ("row") or column by column ("column"). By rows it may write up to
`MADE_AROUND` rows before and after the requested ones, because it writes whole columns of a window. The shifted pixels
that a convolution multiplies thus never exist in memory together.

If one instruction multiplies a `group` of elements along k for each sum, operands are never packed up front. The core
packs groups, which take the place of the elements above, and fills the last group with zeros. The instruction for
groups of four int8 takes an unsigned factor: the core adds 128 to each element of `a`, and sums start at minus what
that adds. With vectors of less than 64 bytes the instruction takes pairs of int16: packing widens elements to these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from rushlight.ir.target import Target

Format = Literal["row", "column"]

BLOCK = 256
# By dtype of the operands: LLVM type and bytes of a sum, LLVM type and bytes of an operand's element, and the number of
# elements along k that one instruction multiplies for each sum.
_SUMS = {"float32": ("float", 4), "float64": ("double", 8), "bfloat16": ("float", 4), "int8": ("i32", 4)}
_SOURCES = {"float32": ("float", 4), "float64": ("double", 8), "bfloat16": ("i16", 2), "int8": ("i8", 1)}
_GROUPS = {"float32": 1, "float64": 1, "bfloat16": 2, "int8": 4}
_GROUPS_OF_SHORT_VECTORS = {"int8": 2}
# Sums of integers do not depend on the size of blocks. A block has 256 groups instead of 256 elements, so that sums,
# which are wider than the operands, are stored and read again less often.
_ANY_ORDER = frozenset({"int8"})
_FEATURES = {"bfloat16": "+avx512bf16", "int8": "+avx512vnni"}
# Register tiles by the bytes of a vector, best first: rows and vectors of columns whose sums fill the registers.
_MICRO_SHAPES = {64: ((12, 2), (8, 3)), 32: ((6, 2),), 16: ((8, 3),)}
# Dtypes with one shape: on a Zen 4 8 x 3 takes 4 % less for int8 of 1,024 and 2,048 square, 2 to 8 % more for bf16.
_MICRO_SHAPES_OF = {("int8", 64): ((8, 3),), ("bfloat16", 64): ((12, 2),)}
_L2_BYTES = 1 << 20
_SCRATCH_BYTES = 384 << 10
_A_BLOCK_BYTES = 384 << 10
_ROW_BYTES = 4 << 10
SMALLEST_TASK = 1 << 18
# The most parts of k for each thread in split-K.
PARTS_PER_THREAD = 4
# Steps along k that take as long as storing and adding up the partial sums of a block.
ADD_UP_STEPS = 4
# Steps along k that a function which makes `b` by rows may write before and after the requested ones.
MADE_AROUND = 8


@dataclass(frozen=True)
class GemmTile:
    """The sizes of a matrix product's tiles, in elements; they change its speed, never its bits.

    `mr` x `nr` sums stay in registers. A macro tile, `mc` x `nc` at most, is the unit of parallel work; `mc` is a
    multiple of `mr`, and `nc` of `nr`. It is narrower, `scratch_nc`, where it lies on the task's stack. `unroll`
    divides `kc`, the block of the reduction's order, or of floats' order where any does.
    """

    mr: int
    nr: int
    mc: int
    nc: int
    vector_bytes: int
    dtype: str = "float32"
    a_format: Format = "row"
    a_packed: bool = True
    b_format: Format = "row"
    b_packed: bool = True
    unroll: int = 2
    kc: int = BLOCK
    b_made: bool = False

    def with_macro_tile(self, rows: int, columns: int) -> GemmTile:
        """A tile with macro tiles of about so many rows and columns; a block of `a` fits a task's stack."""
        most = max(1, _A_BLOCK_BYTES // (self.block_steps * self.itemsize) // self.mr)
        turns = min(most, max(1, round(rows / self.mr)))
        return replace(self, mc=turns * self.mr, nc=max(1, round(columns / self.nr)) * self.nr)

    @property
    def scratch_nc(self) -> int:
        """Columns of a macro tile that stays in the cache until an epilogue has read it."""
        return min(self.nc, max(1, _SCRATCH_BYTES // (self.mc * self.itemsize * self.nr)) * self.nr)

    @property
    def element(self) -> str:
        """The LLVM type of a sum, and of one group of elements of a packed operand."""
        return _SUMS[self.dtype][0]

    @property
    def itemsize(self) -> int:
        """Bytes of a sum."""
        return _SUMS[self.dtype][1]

    @property
    def source(self) -> str:
        """The LLVM type of an element of a plain operand."""
        return _SOURCES[self.dtype][0]

    @property
    def source_bytes(self) -> int:
        """Bytes of an element of a plain operand."""
        return _SOURCES[self.dtype][1]

    @property
    def group(self) -> int:
        """Elements along k that lie side by side in a packed operand and are multiplied by one instruction."""
        short = _GROUPS_OF_SHORT_VECTORS if self.vector_bytes < 64 else {}
        return short.get(self.dtype, _GROUPS[self.dtype])

    @property
    def member(self) -> str:
        """The LLVM type of an element in a group, or of an element of a plain operand without groups."""
        return f"i{8 * self.member_bytes}" if self.group > 1 else self.source

    @property
    def member_bytes(self) -> int:
        """Bytes of a `member`; packing widens elements that are shorter."""
        return self.itemsize // self.group

    @property
    def is_offset(self) -> bool:
        """Whether 128 is added to the elements of a packed `a`, so that signed bytes become unsigned.

        A packed `b` ends with the corrections at which the sums start.
        """
        return self.dtype == "int8" and self.group == 4

    @property
    def panel_elements(self) -> int:
        """Elements of a packed panel of `b` in the core's own memory."""
        return self.nr * (self.block_steps + self.is_offset)

    @property
    def made_ld(self) -> int:
        """The distance of rows, or of columns, in a panel of `b` as it is made."""
        return self.nr if self.b_format == "row" else self.kc

    @property
    def makes_packed(self) -> bool:
        """Whether a panel of `b` is made in the layout that micro-kernels read."""
        return self.b_made and self.b_format == "row" and self.group == 1

    @property
    def rows_before(self) -> int:
        """The number of rows that take as long as making or packing the panels of a macro tile."""
        return 2 * self.mr if self.b_made else 0 if self.b_packed else self.mr // 4

    @property
    def columns_before(self) -> int:
        """The number of columns that take as long as packing the blocks of `a` of a macro tile."""
        return 0 if self.a_packed else self.lanes // 4

    @property
    def block_steps(self) -> int:
        """Steps of the micro-kernels in a block of k."""
        return self.kc // self.group

    @property
    def lanes(self) -> int:
        """Elements of a vector register."""
        return self.vector_bytes // self.itemsize

    @property
    def vectors(self) -> int:
        """Vector registers across `nr` columns."""
        return self.nr // self.lanes

    @property
    def vector(self) -> str:
        """The LLVM type of a vector register."""
        return f"<{self.lanes} x {self.element}>"

    @property
    def add(self) -> str:
        """The LLVM instruction that adds sums."""
        return "add" if self.element == "i32" else "fadd"

    @property
    def has_parts(self) -> bool:
        """Whether a block of k can be computed apart: operands that are packed by panels need all of k."""
        return not (self.b_packed or (self.a_packed and self.a_format == "column"))

    @property
    def suffix(self) -> str:
        """The vector type in the names of intrinsics."""
        return f"v{self.lanes}f{8 * self.itemsize}"

    @property
    def attributes(self) -> str:
        """Function attributes that make LLVM use vectors as wide as the tile's."""
        if self.vector_bytes < 64:
            return "nounwind"
        bits = 8 * self.vector_bytes
        return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


def choose_tile(
    dtype: str,
    vector_bytes: int,
    *,
    a_format: Format = "row",
    a_packed: bool = True,
    b_format: Format = "row",
    b_packed: bool = True,
    b_made: bool = False,
    rows: int = 0,
) -> GemmTile:
    """The tile for a dtype on a machine with vectors of 16, 32 or 64 bytes.

    The dtype is float32, float64 or one of `narrow_products`. A block of a packed `b`, 256 x `nc`, fills half of the
    second-level cache. A plain `b` is packed again for each macro tile, and only a panel of it must stay in the cache,
    so such tiles are larger. A task needs less than 1 MiB of stack: up to 384 KiB for a block of a plain `a`, and as
    much for a macro tile that awaits its epilogue. If all products have the same number of `rows`, the register tile
    leaves as few of them over as possible: 64 rows are eight times 8, but five times 12 and a slower edge of 4, and two
    threads have 32 each.
    """
    itemsize = _SUMS[dtype][1]
    shapes = _MICRO_SHAPES_OF.get((dtype, vector_bytes), _MICRO_SHAPES[vector_bytes])
    mr, vectors = min(shapes, key=lambda shape: -rows % shape[0])
    nr = vectors * vector_bytes // itemsize
    a_bytes = _A_BLOCK_BYTES * 3 // 8 if b_packed else _A_BLOCK_BYTES
    mc = max(1, a_bytes // (BLOCK * itemsize) // mr) * mr
    row_bytes = _L2_BYTES // 2 // BLOCK if b_packed else _ROW_BYTES
    nc = max(1, row_bytes // itemsize // nr) * nr
    unroll = 2 if vector_bytes == 64 else 4
    if vector_bytes < 64 and dtype in _GROUPS_OF_SHORT_VECTORS:
        unroll = 1  # several steps' products would first be added to each other, in registers that are not there
    tile = GemmTile(mr, nr, mc, nc, vector_bytes, dtype, a_format, a_packed, b_format, b_packed, unroll, b_made=b_made)
    return replace(tile, kc=BLOCK * tile.group) if dtype in _ANY_ORDER else tile


def narrow_products(target: Target) -> frozenset[str]:
    """The narrow dtypes that a machine has multiply instructions for; others are widened first."""
    if target.vector_bytes < 64:
        return frozenset(_GROUPS_OF_SHORT_VECTORS if target.architecture == "x86_64" else ())
    features = target.features.split(",")
    return frozenset([name for name, feature in _FEATURES.items() if feature in features])


class Tasks(NamedTuple):
    """Rows and columns of a macro tile, the number of parts of k, and the steps of each part."""

    rows: int
    columns: int
    parts: int = 1
    part_steps: int = 0


def plan_tiles(
    tile: GemmTile, m: int, n: int, k: int, batches: int, threads: int, *, scratch: bool = False, split_k: bool = False
) -> Tasks:
    """Divides a product among threads, as the function of `emit_plan` does; for reading and tests.

    Tiles start as large as the cache allows. Rows or columns are halved, whichever costs less, until `threads` shares
    waste at most a sixteenth of the time, or a tile would be too little work for a task; the best size wins. With
    `split_k`, tiles stay large and k is split instead, if that costs less.
    """
    rows = _even(m, tile.mc, tile.mr)
    columns = _even(n, tile.scratch_nc if scratch else tile.nc, tile.nr)
    if threads <= 1:
        return Tasks(rows, columns)
    large = Tasks(rows, columns)

    def cost(rows: int, columns: int) -> int:
        return _share(tile, (m, n), batches, threads, (rows, columns))

    best, least = (rows, columns), cost(rows, columns)
    ideal = batches * (m + tile.rows_before) * (n + tile.columns_before)
    while 15 * threads * least > 16 * ideal and min(rows, m) * min(columns, n) * k >= SMALLEST_TASK:
        fewer_rows, fewer_columns = _even(m, rows // 2, tile.mr), _even(n, columns // 2, tile.nr)
        by_rows, by_columns = cost(fewer_rows, columns), cost(rows, fewer_columns)
        prefers_columns = by_columns < by_rows or (by_columns == by_rows and columns >= 2 * rows)
        if columns > tile.nr and (rows <= tile.mr or prefers_columns):
            columns, share = fewer_columns, by_columns
        elif rows > tile.mr:
            rows, share = fewer_rows, by_rows
        else:
            break
        if share <= least:
            best, least = (rows, columns), share
    parted, parted_work = _split_k(tile, (m, n, k), batches, threads, large)
    return parted if split_k and parted_work < least * k else Tasks(*best)


def _split_k(tile: GemmTile, size: tuple[int, int, int], batches: int, threads: int, large: Tasks) -> tuple[Tasks, int]:
    """Splits k between tasks of large tiles (split-K); returns the tasks and their cost.

    The cost includes the stores of the partial sums and the additions that join them.
    """
    m, n, k = size
    tiles = batches * -(-m // large.rows) * -(-n // large.columns)
    high, wide = min(large.rows, m) + tile.rows_before, min(large.columns, n) + tile.columns_before
    block_work = high * wide * tile.kc
    blocks = -(-k // tile.kc)
    part_share, part_least = -(-tiles * blocks // (threads * PARTS_PER_THREAD)), -(-SMALLEST_TASK // block_work)
    part_blocks = max(part_share, part_least)
    parts = -(-blocks // part_blocks)
    turns = -(-tiles * parts // threads)
    work = turns * part_blocks * block_work + ADD_UP_STEPS * blocks * batches * m * n
    return Tasks(large.rows, large.columns, parts, part_blocks * tile.kc), work


def _share(tile: GemmTile, size: tuple[int, int], batches: int, threads: int, part: tuple[int, int]) -> int:
    """The largest share of a thread: rows by columns of its macro tiles, and the packing before each of them.

    Threads take tiles in turns. If the last turn has only one tile, that may be a narrow one.
    """
    (m, n), (rows, columns) = size, part
    n_tiles = -(-n // columns)
    tasks = batches * -(-m // rows) * n_tiles
    turns = -(-tasks // threads)
    high, wide = min(rows, m) + tile.rows_before, min(columns, n)
    absent = n_tiles * wide - n if (tasks - 1) % threads == 0 else 0
    return (turns * (wide + tile.columns_before) - absent) * high


def _even(size: int, limit: int, unit: int) -> int:
    """The size of each part when `size` is cut evenly into parts of at most about `limit`.

    It is a multiple of `unit`.
    """
    parts = max(1, -(-size // max(limit, unit)))
    return max(1, -(-size // (parts * unit))) * unit
