"""The search: from the cost model's tile to better neighbours, one step after the other, within a budget."""

from __future__ import annotations

import contextvars
import functools
import itertools
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

from rushlight.build import pipeline
from rushlight.build.native import Chooser
from rushlight.ir.choice import BLOCKS, AxisSpace, Blocks, Product
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph
from rushlight.ir.kernel_text import plan_text
from rushlight.ir.text import identity_of
from rushlight.runtime import llvm, pool
from rushlight.support import events, settings
from rushlight.support.frozen import frozen
from rushlight.sym import Size, free_symbols, optimization_hint
from rushlight.term import structural_digest
from rushlight.tune.isolated import IsolatedRace, Worker, shared_worker
from rushlight.tune.journal import Journal, JournaledRace
from rushlight.tune.measure import Always, Array, Choice, Contest, Problem, Race, product_race, up_to
from rushlight.tune.records import Record, Records, is_tile, shared_records, tile_from_text, tile_text
from rushlight.tune.strategies import STRATEGIES, Found, Strategy, Tell, is_taken

AT_ONCE = 4  # products whose tiles are searched at a time
DEFAULT_BUDGET_S = 10.0  # for one product
ROWS_BY_VECTORS = ((12, 2), (6, 4), (8, 3), (14, 2), (10, 2), (16, 1), (24, 1), (6, 2), (4, 3), (3, 4), (8, 2), (4, 2))


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
        return is_taken(self.seconds, self.best_seconds)


class Tuner(Chooser):
    """Chooses tiles and blocks by measurement: from the records, or by a search whose outcome is recorded.

    `budget_s` is the time for one search; `threads` how many it uses. `tell` hears of each candidate. From `deadline`
    on, in seconds of `time.perf_counter`, nothing is searched. Code is timed by `worker`, here if there is none.
    `journal` notes what was measured, or says it in place of measurements.
    """

    def __init__(
        self,
        records: Records,
        machine: str,
        threads: int,
        budget_s: float = DEFAULT_BUDGET_S,
        tell: Callable[[Problem, Trial], None] | None = None,
        worker: Worker | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.records = records
        self.worker = worker
        self.journal = journal
        self.machine = f"{machine} x{threads}"
        self.threads = threads
        self.budget_s = budget_s
        self.tell = tell
        self.deadline = math.inf
        self._lock = threading.Lock()
        self._searched: dict[str, threading.Lock] = {}  # by product, while somebody searches or has

    def key(self, graph: Graph) -> str:
        """Return the key of the choices for a graph: the machine, and the ranges of its sizes' hints."""
        sizes = [size for call in graph.parameters for size in (*call.type.shape, *call.type.strides)]
        return " ".join([self.machine, *_ranges(sizes)])

    def choose(self, product: Product) -> GemmTile:
        """The tile for a product; where several threads ask, one searches."""
        problem = Problem.of(product)
        tile = self._recorded(problem, product)
        if tile is not None:
            return tile
        if self._end() <= time.perf_counter():
            return product.tile
        with self._lock:
            searched = self._searched.setdefault(str(problem), threading.Lock())
        with searched:
            tile = self._recorded(problem, product)
            if tile is not None:
                return tile
            events.record("tuning", "search", f"{problem} on {self.machine}")
            best, measured = self.search(problem)
            self.records.put(Record(self.machine, str(problem), tile_text(best), measured))
            return best

    def _recorded(self, problem: Problem, product: Product) -> GemmTile | None:
        """The tile that is recorded for a product: the cost model's if the record says none; None without a record."""
        record = self.records.get(self.machine, str(problem))
        if record is None:
            return None
        tile = tile_from_text(record.tile, product.tile)
        if tile is None:
            self.records.warn(record, "it says no tile that fits this machine")
        return tile or product.tile

    def note(self, product: Product) -> tuple[str, str]:
        """The product's name, and the tile that is recorded for it; no text where none is."""
        name = str(Problem.of(product))
        record = self.records.get(self.machine, name)
        return name, "" if record is None else record.tile

    def holds(self, notes: Sequence[tuple[str, str]]) -> bool:
        """Whether the records say the same still, and nothing that they lack could be searched now."""
        searches = self._end() > time.perf_counter()
        for name, text in notes:
            record = self.records.get(self.machine, name)
            if (record is None and searches) or ("" if record is None else record.tile) != text:
                return False
        return True

    def blocks(self, graph: Graph) -> Blocks:
        """The blocks that are recorded for a graph; the cost model's where none are."""
        return self._blocks_of(self.records.get(self.machine, name_of(graph)))

    def prepare(self, graph: Graph, blocks: Blocks) -> None:
        """Searches the tiles of a graph's products, several at a time.

        While code of one is timed, that of others is compiled.
        """
        self.choose_all(self._unknown_products(graph, blocks))

    def choose_all(self, products: Sequence[Product]) -> list[GemmTile]:
        """The tiles for products; several are searched at a time."""
        if self.worker is None or len(products) < 2:
            return [self.choose(product) for product in products]
        with ThreadPoolExecutor(AT_ONCE, "rushlight-search") as searches:
            found = [searches.submit(contextvars.copy_context().run, self.choose, one) for one in products]
            return [one.result() for one in found]

    def _unknown_products(self, graph: Graph, blocks: Blocks) -> list[Product]:
        """The products that a graph's kernels have and the records lack, each once."""
        unknown: dict[str, Product] = {}

        def collect(product: Product) -> GemmTile:
            name = str(Problem.of(product))
            if self.records.get(self.machine, name) is None:
                unknown[name] = product
            return product.tile

        if self.worker is not None and self._end() > time.perf_counter():
            target = llvm.target_named(settings.get().target)
            pipeline.run_passes(graph, target, until=pipeline.PLAN_STAGE, choose=collect, blocks=blocks)
        return list(unknown.values())

    def _blocks_of(self, record: Record | None) -> Blocks:
        """The blocks of a record; the cost model's where there is none, or it says no blocks."""
        if record is None:
            return BLOCKS
        blocks = Blocks.parse(record.tile)
        if blocks is None:
            self.records.warn(record, "it says no blocks")
        return blocks or BLOCKS

    def search_blocks(
        self, graph: Graph, operands: Sequence[Array], start: Blocks = BLOCKS, axes: Sequence[AxisSpace] = ()
    ) -> Blocks:
        """The recorded blocks for a graph, or the fastest on operands that are found before the deadline.

        The search begins at `start`, and tries blocks of these axes too.
        """
        name = name_of(graph)
        record = self.records.get(self.machine, name)
        if record is not None:
            return self._blocks_of(record)
        if self._end() <= time.perf_counter():
            return start

        def race() -> Contest[Blocks]:
            return self._race(graph, operands, lambda blocks: _Blocked(self, blocks))

        def tell(blocks: Blocks, seconds: float | None, best_seconds: float) -> None:
            if seconds is None:
                events.record("tuning", "different", f"{graph.name}: {blocks} gives other bits")

        plans = DistinctPlans(graph, start)

        def near(blocks: Blocks) -> Iterator[Blocks]:
            return filter(plans.is_new, blocks_near(blocks, axes))

        with closing(self._noted(name, race, str)) as contest:
            found = self._searched_from(contest, start, near, tell)
        self.records.put(Record(self.machine, name, str(found.best), str(found)))
        return found.best

    def _searched_from(
        self, race: Contest[Choice], start: Choice, near: Callable[[Choice], Iterable[Choice]], tell: Tell
    ) -> Found[Choice]:
        """What the strategy of the settings finds."""
        chosen = settings.get()
        strategy: Strategy[Choice] = STRATEGIES[chosen.tuning_strategy](race, start, near, self._end(), tell)
        return strategy.run(chosen.tuning_finishing)

    def _end(self) -> float:
        if self.journal is not None and self.journal.replays:
            return math.inf  # the journal ends where the search did
        return min(time.perf_counter() + self.budget_s, self.deadline)

    def _race(self, graph: Graph, operands: Sequence[Array], chooser: Callable[[Any], Chooser]) -> Contest[Any]:
        """A race in the worker, or here."""
        if self.worker is None:
            return Race(graph, operands, chooser)
        return IsolatedRace(graph, operands, chooser, self.worker)

    def _noted(self, name: str, race: Callable[[], Contest[Choice]], text: Callable[[Choice], str]) -> Contest[Choice]:
        """A race that the journal knows of, if there is one."""
        return race() if self.journal is None else JournaledRace(name, self.journal, race, text)

    def race_of(self, problem: Problem) -> Contest[GemmTile]:
        """A race of a product's tiles."""
        return self._noted(str(problem), lambda: product_race(problem, self._race), tile_text)

    def search(self, problem: Problem) -> tuple[GemmTile, str]:
        """Return the best tile found in time, and its measurement.

        In the end it must beat the model's once more.
        """

        def tell(tile: GemmTile, seconds: float | None, best_seconds: float) -> None:
            if self.tell is not None:
                self.tell(problem, Trial(tile, seconds, best_seconds))
            if seconds is None:
                events.record("tuning", "different", f"{problem}: {tile_text(tile)} gives other bits")

        def near(tile: GemmTile) -> Iterator[GemmTile]:
            return filter(is_tile, neighbours(tile))

        with closing(self.race_of(problem)) as race:
            found = self._searched_from(race, problem.tile, near, tell)
        return found.best, str(found)


class DistinctPlans:
    """Tells blocks whose plans for a graph differ: of equal plans one is enough. `first` is the plan of the start."""

    def __init__(self, graph: Graph, start: Blocks = BLOCKS) -> None:
        self._graph = graph
        self._target = llvm.target_named(settings.get().target)
        self._asked = {start}
        self.first = self._plan(start)
        self._plans = {self.first}

    def is_new(self, blocks: Blocks) -> bool:
        """Whether no blocks that were asked for before have the plan of these. Each plan is made once."""
        if blocks in self._asked:
            return False
        self._asked.add(blocks)
        plan, before = self._plan(blocks), len(self._plans)
        self._plans.add(plan)
        return len(self._plans) > before

    def _plan(self, blocks: Blocks) -> str:
        return plan_text(pipeline.run_passes(self._graph, self._target, until=pipeline.PLAN_STAGE, blocks=blocks))


class _Blocked(Always):
    """Chooses blocks, and the tuner's tiles."""

    def __init__(self, tuner: Tuner, blocks: Blocks) -> None:
        super().__init__(None, blocks)
        self.choose = tuner.choose


SPACE: Mapping[str, tuple[int, ...]] = {
    "grain": (1024, 4096, 16384, 65536, 1 << 30),
    "row_bytes": (64 << 10, 256 << 10, 512 << 10, 2 << 20),
    "chains": (True, False),
    "splits": (True, False),
    "unroll": (1, 2, 4),
    "inverted": (False, True),
}
"""The values of each field of blocks that are tried."""


def blocks_near(blocks: Blocks, axes: Sequence[AxisSpace] = ()) -> Iterator[Blocks]:
    """The blocks that differ in one field, or in the block of one of these axes."""
    for axis in axes:
        for block in axis.widths():
            if block not in blocks.axes:
                yield blocks.with_axis(block)
    for name, values in SPACE.items():
        for value in values:
            if value != getattr(blocks, name):
                yield replace(blocks, **{name: value})


def all_blocks(fields: Iterable[str] = tuple(SPACE), axes: Sequence[AxisSpace] = ()) -> Iterator[Blocks]:
    """All combinations of the values of some fields, and of blocks of axes."""
    names = list(fields)
    for values in itertools.product(*[SPACE[name] for name in names]):
        plain = replace(BLOCKS, **dict(zip(names, values, strict=True)))
        for widths in itertools.product(*[(None, *axis.widths()) for axis in axes]):
            yield replace(plain, axes=tuple([block for block in widths if block is not None]))


def name_of(graph: Graph) -> str:
    """The name of a graph in the records: a digest of its text, and the ranges of its sizes."""
    sizes = [size for call in graph.parameters for size in call.type.shape]
    return " ".join(["graph", structural_digest([identity_of(graph)])[:16], *_ranges(sizes)])


def _ranges(sizes: Iterable[Size]) -> list[str]:
    """The ends of the ranges in which the hints of sizes' symbols lie."""
    symbols = dict.fromkeys([symbol for size in sizes for symbol in free_symbols(size)])
    return [str(up_to(optimization_hint(symbol))) for symbol in symbols]


def neighbours(tile: GemmTile) -> Iterator[GemmTile]:
    """The tiles one step away: other sums in registers, other macro tiles, another unrolling."""
    for rows, vectors in ROWS_BY_VECTORS:
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
    threads, chosen = pool.get_num_threads(), settings.get()
    worker = shared_worker(threads) if sys.platform != "win32" else None  # it waits for answers by `select` on a pipe
    journal = _journal(chosen.tuning_timings) if chosen.tuning_timings else None
    return Tuner(shared_records(), machine, threads, chosen.tuning_s, tell, worker, journal)


_journal = functools.lru_cache(maxsize=8)(Journal)
