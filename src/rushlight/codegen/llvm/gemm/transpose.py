"""Squares of a matrix transposed in registers, as LLVM IR text: columns of `b` become vectors across columns."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator

from rushlight.ir.gemm_tile import GemmTile

_COLUMN_STARTS = """\
  br label %lane
lane:
  %lane_number = phi i64 [ 0, %group ], [ %lane_next, %lane ]
  %lane_wish = add i64 %j, %lane_number
  %lane_column = call i64 @llvm.smin.i64(i64 %lane_wish, i64 %column_last)
  %lane_start = mul i64 %lane_column, %b_ld
  %lane_from = getelementptr {source}, ptr %b, i64 %lane_start
  %lane_at = getelementptr ptr, ptr %starts, i64 %lane_number
  store ptr %lane_from, ptr %lane_at, align 8
  %lane_next = add i64 %lane_number, 1
  %more_lanes = icmp slt i64 %lane_next, {lanes}
  br i1 %more_lanes, label %lane, label %lanes_end
lanes_end:"""


def column_addresses(tile: GemmTile) -> str:
    """Ends a block `group` by writing the start addresses of one vector's worth of columns to `%starts`.

    They are those of `%b` from column `%j` on; columns that do not exist are the last one again. In memory, since there
    are more of them than a processor has registers.
    """
    return _COLUMN_STARTS.format(source=tile.source, lanes=tile.lanes)


def load_column_address(name: str, lane: int) -> Iterator[str]:
    """`name`: where a column starts, as `column_addresses` wrote it."""
    yield f"  {name}_at = getelementptr ptr, ptr %starts, i64 {lane}"
    yield f"  {name} = load ptr, ptr {name}_at, align 8"


def transpose(tile: GemmTile, names: list[str]) -> Generator[str, None, list[list[str]]]:
    """Transpose as many vectors as they have lanes, with shuffles that are one short instruction each.

    First pieces of 16 bytes move as a whole: even pieces of two neighbours make one vector and odd ones another, in as
    many rounds as the number of a piece has bits. What is left is a transpose within pieces, for each list that is
    returned: `transpose_pieces` of one list after the other yields the results in order, from few registers.
    """
    lanes, piece = tile.lanes, 16 // tile.itemsize
    moved = []
    for low in range(piece):
        rows = names[low::piece]
        for turn in range((lanes // piece).bit_length() - 1):
            pairs = list(zip(rows[::2], rows[1::2], strict=True))
            both = yield from _shuffle(tile, f"%piece{turn}_{low}", pairs, _pieces(lanes, piece))
            rows = both[::2] + both[1::2]
        moved.append(rows)
    return [list(rows) for rows in zip(*moved, strict=True)]


def transpose_pieces(tile: GemmTile, names: list[str], number: int) -> Generator[str, None, list[str]]:
    """Transpose within pieces of 16 bytes: the last part of `transpose`, for its list of this number.

    To interleave the halves of vectors i and i + half, for all i in the lower half, rotates the bits of (vector, lane)
    by one: as many rounds as a lane number has bits exchange the two.
    """
    half = len(names) // 2
    for turn in range(len(names).bit_length() - 1):
        pairs = list(zip(names[:half], names[half:], strict=True))
        names = yield from _shuffle(tile, f"%zip{turn}_{number}", pairs, _interleaved_halves(tile.lanes, len(names)))
    return names


def _interleaved_halves(lanes: int, piece: int) -> tuple[list[int], ...]:
    """Returns two shuffle masks that interleave the lower and the upper halves of two vectors' pieces."""
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
    """Shuffles each pair of vectors by each mask. It returns the results' names, those of a pair side by side."""
    names: list[str] = []
    for pair, mask in itertools.product(pairs, masks):
        names.append(f"{name}_{len(names)}")
        numbers = ", ".join(f"i32 {lane}" for lane in mask)
        operands = f"{tile.vector} {pair[0]}, {tile.vector} {pair[1]}"
        yield f"  {names[-1]} = shufflevector {operands}, <{tile.lanes} x i32> <{numbers}>"
    return names
