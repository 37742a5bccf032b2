"""Memory that is left over goes to caches of tables of the host, where it saves most misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rushlight.recsys.planner.options import EmbeddingComputeKernel, ShardingOption, total_storage
from rushlight.recsys.planner.proposers import Estimate, Proposer, by_table, score
from rushlight.recsys.planner.topology import Topology

ITERATIONS = 16
SHRINKAGE = 0.95
PASSES = 128
WHOLE = 0.9999  # a cache of so many rows is the table


class EmbeddingOffloadScaleupProposer(Proposer):
    """Larger caches for tables that lie in the host's memory, for several totals of memory.

    It begins with the cached kernel of each table that has one, else its fastest option. The memory that is left is
    divided by how many lookups a cache serves and how well (`CacheParams.expected_lookups`, `cacheability`); a cache
    of all rows makes a table of the device. Totals are drawn with a seed, ever nearer to the best one (the search of
    Luus and Jaakola).
    """

    def __init__(self, use_depth: bool = True, seed: int = 42) -> None:
        self.use_depth = use_depth
        self.seed = seed
        self._estimate: Estimate | None = None
        self._start: list[ShardingOption] = []
        self._current: list[ShardingOption] | None = None
        self._budgets: _Budgets | None = None

    def load(self, options: Sequence[ShardingOption], estimate: Estimate | None = None) -> None:
        """Begin with the cached kernels; a table that is smaller than its cache lies on the device."""
        self._estimate, self._budgets = estimate, None
        chosen: list[ShardingOption] = []
        for choices in by_table(options).values():
            ordered = sorted(choices, key=lambda option: score(option, self.use_depth))
            chosen.append(next((option for option in ordered if _cached(option)), ordered[0]))
        self._start = chosen if estimate is None else self._promoted(chosen, estimate)
        self._current = self._start

    @staticmethod
    def _promoted(options: list[ShardingOption], estimate: Estimate) -> list[ShardingOption]:
        on_device = estimate([_on_device(option) for option in options])
        return [
            whole if _cached(option) and whole.total_storage.hbm < option.total_storage.hbm else option
            for option, whole in zip(options, on_device, strict=True)
        ]

    def propose(self) -> list[ShardingOption] | None:
        """Return an option for each table, or None after the last proposal."""
        return self._current

    def feedback(self, partitionable: bool, perf_rating: float | None = None, topology: Topology | None = None) -> None:
        """Divide another total of memory among the caches."""
        estimate = self._estimate
        if estimate is None or self._current is None or (self._budgets is None and not partitionable):
            self._current = None
            return
        used = _hbm(self._current)
        rating = perf_rating if perf_rating is not None else float("inf")
        if self._budgets is None:
            if topology is None:
                self._current = None
                return
            left = sum([cap.hbm for cap in topology.caps]) - used
            most = (
                _hbm(estimate([_on_device(option) if _scalable(option) else option for option in self._start])) - used
            )
            self._budgets = _Budgets(max(min(left, most), 0), rating, self.seed)
        elif not partitionable:
            self._budgets.shrink(used - _hbm(self._start))
        budget = self._budgets.next(rating)
        self._current = None if budget is None else scaled(self._start, budget, estimate)


def _cached(option: ShardingOption) -> bool:
    return option.compute_kernel is EmbeddingComputeKernel.FUSED_UVM_CACHING


def _scalable(option: ShardingOption) -> bool:
    return _cached(option) and _priority(option) > 0


def _priority(option: ShardingOption) -> float:
    cache = option.table.cache
    if cache is None or not cache.load_factor:
        return 0.0
    return (cache.cacheability or 0.0) * (cache.expected_lookups or 0.0)


def _hbm(options: Sequence[ShardingOption]) -> int:
    return sum([total_storage(option.storages).hbm for option in options])


def _on_device(option: ShardingOption) -> ShardingOption:
    """The option without a cache, all rows on the device."""
    if not _cached(option):
        return option
    cache = option.table.cache
    table = replace(option.table, cache=None if cache is None else replace(cache, load_factor=None))
    return replace(option, table=table, compute_kernel=EmbeddingComputeKernel.FUSED, perfs=(), storages=())


def _with_load_factor(option: ShardingOption, factor: float) -> ShardingOption:
    if factor > WHOLE:
        return _on_device(option)
    cache = option.table.cache
    assert cache is not None
    table = replace(option.table, cache=replace(cache, load_factor=factor))
    return replace(option, table=table, perfs=(), storages=())


def scaled(start: Sequence[ShardingOption], budget: float, estimate: Estimate) -> list[ShardingOption] | None:
    """Return the options with a budget of bytes divided among their caches; None if no cache can grow.

    Bytes of a cache are affine in its share of rows; two estimates give the line. What a full cache cannot take is
    divided again. A table whose cache would be larger than itself lies on the device, and gives back the difference.
    """
    growing = [position for position, option in enumerate(start) if _scalable(option)]
    if not growing:
        return None
    options = [start[position] for position in growing]
    low, high = [
        np.array(
            [option.total_storage.hbm for option in estimate([_with_load_factor(each, factor) for each in options])]
        )
        for factor in (0.1, 0.9)
    ]
    whole = np.array([option.total_storage.hbm for option in estimate([_on_device(option) for option in options])])
    slope = (high - low) / 0.8
    fixed = low - 0.1 * slope
    factors = np.array([option.table.cache.load_factor for option in options if option.table.cache is not None])
    sizes, left = slope * factors.astype(np.float64), float(budget)
    priorities = np.array([_priority(option) for option in options])
    for _ in range(PASSES):
        room = sizes < slope
        weights = priorities * room
        if left <= 1 or weights.sum() <= 0:
            break
        grown = np.minimum(sizes + left * weights / weights.sum(), slope)
        left -= float((grown - sizes).sum())
        sizes = grown
        promoted = room & (fixed + sizes > whole)
        left += float((fixed + sizes - whole)[promoted].sum())
        sizes = np.where(promoted, slope, sizes)
    proposal = list(start)
    changed = [
        _with_load_factor(option, float(size / most)) for option, size, most in zip(options, sizes, slope, strict=True)
    ]
    for position, option in zip(growing, estimate(changed), strict=True):
        proposal[position] = option
    return proposal


class _Budgets:
    """Totals of memory to try, from 0 to a bound: around the best one so far, ever nearer."""

    def __init__(self, most: float, cost_of_none: float, seed: int) -> None:
        self.most = most
        self.spread = most
        self.tried = 0
        self.generator = np.random.Generator(np.random.PCG64(seed))
        self.best, self.cost = 0.0, cost_of_none
        self.last = 0.0

    def shrink(self, most: float) -> None:
        """Totals from here on do not fit."""
        self.most = max(min(self.most, most), 0.0)
        self.spread = min(self.spread, self.most)

    def next(self, cost: float) -> float | None:
        """Return the next total, given what the last one costs; None after the last."""
        self.tried += 1
        if self.tried > ITERATIONS or self.most <= 0:
            return None
        if cost < self.cost:
            self.best, self.cost = self.last, cost
        elif self.tried > 2:
            self.spread *= SHRINKAGE
        drawn = self.best + float(self.generator.uniform(-self.spread, self.spread))
        self.last = min(max(drawn, 0.0), self.most)
        return self.last
