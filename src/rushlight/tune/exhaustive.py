"""What a search chose beside the best of all tiles: how much trying all of them would have gained."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from rushlight.ir.gemm_tile import GemmTile
from rushlight.support.frozen import frozen
from rushlight.tune.measure import Contest, Problem, share_of
from rushlight.tune.records import is_tile
from rushlight.tune.search import ROWS_BY_VECTORS, Tuner, resized

SIZES: Sequence[tuple[int, int, int]] = (
    *[(size, size, size) for size in (64, 96, 160, 256, 384)],
    *[(rows, 512, 512) for rows in (1, 4, 16, 48)],
    *[(512, columns, 256) for columns in (8, 24, 72)],
    *[(128, 128, inner) for inner in (16, 64, 1024, 4096)],
    *[(33, 65, 129), (100, 300, 200), (7, 1000, 77), (768, 64, 64)],
)
"""Rows, columns, and the length of sums, of twenty products."""
AGAIN = 3  # of the fastest are timed once more: the least of many times is less than it should be


@frozen
class Compared:
    """A product's tile as it was chosen, the fastest of `tried`, and the time of the one by the other's."""

    problem: Problem
    chosen: GemmTile
    best: GemmTile
    ratio: float
    tried: int


def all_tiles(model: GemmTile) -> Iterator[GemmTile]:
    """Every tile that steps of a search lead to from the model's macro tile, or half or double of it."""
    factors = (1, 2, 0.5)
    for (rows, vectors), more, wider, unroll in itertools.product(ROWS_BY_VECTORS, factors, factors, (1, 2, 4, 8)):
        tile = resized(model, rows, vectors * model.lanes, int(model.mc * more), int(model.nc * wider))
        if is_tile(tile := replace(tile, unroll=unroll)):
            yield tile


def compare_with_all(tuner: Tuner, problem: Problem) -> Compared:
    """Searches, then races every tile against the one that was found."""
    chosen, _ = tuner.search(problem)
    with closing(tuner.race_of(problem)) as race:
        tiles = [tile for tile in dict.fromkeys(all_tiles(problem.tile)) if tile != chosen]
        shares: dict[GemmTile, float] = {}
        for tile, following in zip(tiles, [*tiles[1:], chosen], strict=True):
            race.prepare(following)
            shares[tile] = _share(race, tile, chosen)
        for tile in sorted(shares, key=lambda one: shares[one])[:AGAIN]:
            shares[tile] = max(shares[tile], _share(race, tile, chosen))
    best = min(shares, key=lambda one: shares[one])
    return Compared(problem, chosen, best if shares[best] < 1 else chosen, max(1.0, 1 / shares[best]), len(shares))


def _share(race: Contest[GemmTile], tile: GemmTile, chosen: GemmTile) -> float:
    answer = race.run(tile, chosen)
    return math.inf if answer is None else share_of(answer)
