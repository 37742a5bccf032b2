"""The search: from the cost model's tile to better neighbours, one step after the other, within a budget."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from rushlight.ir.choice import Product
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph
from rushlight.runtime import llvm, pool
from rushlight.support import events, settings
from rushlight.support.frozen import frozen
from rushlight.sym import free_symbols, optimization_hint
from rushlight.tune.measure import Problem, Race, up_to
from rushlight.tune.records import Record, Records, is_tile, shared_records, tile_from_text, tile_text

GAIN = 0.98  # a candidate replaces the best if its time is at most this part of the other's
DEFAULT_BUDGET_S = 10.0  # for one product
_ROWS_BY_VECTORS = ((12, 2), (6, 4), (8, 3), (14, 2), (10, 2), (16, 1), (24, 1), (6, 2), (4, 3), (3, 4), (8, 2), (4, 2))


@frozen
class Trial:
    """One tile's trial: its seconds, and the seconds of the best tile so far in the same rounds.

    `seconds` is None where its result differs, which is a defect: such a tile is not taken.
    """

    tile: GemmTile
    seconds: float | None
    best_seconds: float

    @property
    def taken(self) -> bool:
        """Whether it is the best from now on."""
        return self.seconds is not None and self.seconds < GAIN * self.best_seconds


class Tuner:
    """Chooses tiles by measurement: from the records, or by a search whose outcome is recorded.

    `budget_s` is the time for the search of one product; `threads` how many it uses. `tell` hears of each candidate.
    """

    def __init__(
        self,
        records: Records,
        machine: str,
        threads: int,
        budget_s: float = DEFAULT_BUDGET_S,
        tell: Callable[[Problem, Trial], None] | None = None,
    ) -> None:
        self.records = records
        self.machine = f"{machine} x{threads}"
        self.threads = threads
        self.budget_s = budget_s
        self.tell = tell

    def key(self, graph: Graph) -> str:
        """Return the key of the choices for a graph: the machine, and the ranges of its sizes' hints."""
        sizes = [size for call in graph.parameters for size in (*call.type.shape, *call.type.strides)]
        symbols = dict.fromkeys([symbol for size in sizes for symbol in free_symbols(size)])
        return " ".join([self.machine, *[str(up_to(optimization_hint(symbol))) for symbol in symbols]])

    def choose(self, product: Product) -> GemmTile:
        """The tile for a product."""
        problem = Problem.of(product)
        record = self.records.get(self.machine, str(problem))
        tile = None if record is None else tile_from_text(record.tile, product.tile)
        if tile is not None:
            return tile
        events.record("tuning", "search", f"{problem} on {self.machine}")
        best, measured = self.search(problem)
        self.records.put(Record(self.machine, str(problem), tile_text(best), measured))
        return best

    def search(self, problem: Problem) -> tuple[GemmTile, str]:
        """Return the best tile found in time, and its measurement.

        In the end it must beat the model's once more.
        """
        end = time.perf_counter() + self.budget_s
        race = Race(problem)
        best, tried = problem.tile, {problem.tile}
        while time.perf_counter() < end:
            tile = next((tile for tile in neighbours(best) if tile not in tried and is_tile(tile)), None)
            if tile is None:
                break
            tried.add(tile)
            trial = Trial(tile, *race.run(tile, best))
            if self.tell is not None:
                self.tell(problem, trial)
            if trial.seconds is None:
                events.record("tuning", "different", f"{problem}: {tile_text(tile)} gives other bits")
            best = tile if trial.taken else best
        last = Trial(best, *race.run(best, problem.tile))
        if not last.taken:
            best, last = problem.tile, Trial(best, last.best_seconds, last.best_seconds)
        now, before = (1e3 * (seconds or 0.0) for seconds in (last.seconds, last.best_seconds))
        return best, f"{now:.3f} ms, {before:.3f} ms by the model, {len(tried) - 1} tried"


def neighbours(tile: GemmTile) -> Iterator[GemmTile]:
    """The tiles one step away: other sums in registers, other macro tiles, another unrolling."""
    for rows, vectors in _ROWS_BY_VECTORS:
        yield resized(tile, rows, vectors * tile.lanes, tile.mc, tile.nc)
    for more_rows, more_columns in itertools.product((1, 2, 0.5), repeat=2):
        yield resized(tile, tile.mr, tile.nr, int(tile.mc * more_rows), int(tile.nc * more_columns))
    for unroll in (1, 2, 4, 8):
        yield replace(tile, unroll=unroll)


def resized(tile: GemmTile, mr: int, nr: int, mc: int, nc: int) -> GemmTile:
    """Return a tile of other sizes; the sizes of the macro tile become the nearest multiples."""
    return replace(tile, mr=mr, nr=nr, mc=max(1, round(mc / mr)) * mr, nc=max(1, round(nc / nr)) * nr)


def tuner_here(tell: Callable[[Problem, Trial], None] | None = None) -> Tuner:
    """Return this machine's tuner, with the threads and seconds of the settings."""
    target = llvm.target_named(settings.get().target)
    machine = f"{target.cpu} {8 * target.vector_bytes} bits"
    return Tuner(shared_records(), machine, pool.get_num_threads(), settings.get().tuning_s, tell)
