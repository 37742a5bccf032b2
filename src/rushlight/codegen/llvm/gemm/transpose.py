"""Transposes squares of a matrix in registers: columns of `b` become vectors across columns.

Each function appends instructions to a `FunctionBuilder`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.ir.gemm_tile import GemmTile


def store_column_starts(code: FunctionBuilder, tile: GemmTile) -> None:
    """Writes the start addresses of a vector's worth of columns of `%b` to `%starts`.

    The first is column `%j`. A column that does not exist is the last one again. The addresses go through memory
    because a processor has fewer free registers than a vector has lanes.
    """
    with code.loop("lane", "lane_number", tile.lanes, after="lanes_end") as loop:
        requested = code.let("lane_requested", f"add i64 %j, {loop.index}")
        column = code.minimum("lane_column", requested, "%column_last")
        start = code.row("lane_from", tile.source, "%b", column, "%b_ld")
        code.store("ptr", start, code.address("lane_at", "ptr", "%starts", loop.index), 8)


def load_column_start(code: FunctionBuilder, name: str, lane: int) -> str:
    """Loads the start address of a column that `store_column_starts` wrote."""
    return code.load(name, "ptr", code.address(f"{name}_at", "ptr", "%starts", lane), 8)


def transpose(code: FunctionBuilder, tile: GemmTile, rows: Sequence[str]) -> list[list[str]]:
    """Transposes as many vectors as they have lanes, with shuffles that are one short instruction each.

    The first rounds move pieces of 16 bytes as a whole: the even pieces of two neighbours make one vector, the odd ones
    another. There are as many rounds as the number of a piece has bits. A transpose within pieces remains, for each
    list that is returned: `transpose_pieces` of one list after the other yields the results in order, so few registers
    are live at a time.
    """
    lanes, piece = tile.lanes, 16 // tile.itemsize
    moved: list[list[str]] = []
    for low in range(piece):
        vectors = list(rows[low::piece])
        for turn in range((lanes // piece).bit_length() - 1):
            pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
            shuffled = _shuffle(code, tile, f"piece{turn}_{low}", pairs, _pieces(lanes, piece))
            vectors = shuffled[::2] + shuffled[1::2]
        moved.append(vectors)
    return [list(vectors) for vectors in zip(*moved, strict=True)]


def transpose_pieces(code: FunctionBuilder, tile: GemmTile, vectors: list[str], number: int) -> list[str]:
    """Transposes within pieces of 16 bytes: the last part of `transpose`, for its list of this number.

    To interleave the halves of vectors i and i + half, for all i in the lower half, rotates the bits of (vector, lane)
    by one: as many rounds as a lane number has bits exchange the two.
    """
    half = len(vectors) // 2
    for turn in range(len(vectors).bit_length() - 1):
        pairs = list(zip(vectors[:half], vectors[half:], strict=True))
        masks = _interleaved_halves(tile.lanes, len(vectors))
        vectors = _shuffle(code, tile, f"zip{turn}_{number}", pairs, masks)
    return vectors


def _interleaved_halves(lanes: int, piece: int) -> tuple[list[int], ...]:
    """Two shuffle masks: they interleave the lower, and the upper, halves of two vectors' pieces."""
    return tuple(
        [
            start + lane + vector
            for start in range(0, lanes, piece)
            for lane in range(first, first + piece // 2)
            for vector in (0, lanes)
        ]
        for first in (0, piece // 2)
    )


def _pieces(lanes: int, piece: int) -> tuple[list[int], ...]:
    """Two shuffle masks: the even pieces of two vectors, and the odd ones."""
    return tuple(
        [start + lane for start in range(first, 2 * lanes, 2 * piece) for lane in range(piece)] for first in (0, piece)
    )


def _shuffle(
    code: FunctionBuilder,
    tile: GemmTile,
    name: str,
    pairs: Sequence[tuple[str, str]],
    masks: Sequence[Sequence[int]],
) -> list[str]:
    """Shuffles each pair of vectors by each mask; the results of a pair are neighbours."""
    results: list[str] = []
    for (low, high), mask in itertools.product(pairs, masks):
        numbers = ", ".join([f"i32 {lane}" for lane in mask])
        operands = f"{tile.vector} {low}, {tile.vector} {high}, <{tile.lanes} x i32> <{numbers}>"
        results.append(code.let(f"{name}_{len(results)}", f"shufflevector {operands}"))
    return results
