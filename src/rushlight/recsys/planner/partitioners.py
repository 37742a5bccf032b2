"""Placing the shards of chosen options on ranks, by TorchRec's rules: largest first, onto the rank with least to do."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, unique

from rushlight.recsys.planner.options import PartitionByType, Shard, ShardingOption, ShardingType, Storage
from rushlight.recsys.planner.topology import Topology
from rushlight.support.errors import RushlightError, error, fail


class Partitioner(ABC):
    """Gives each shard of a proposal a rank, or fails (E022) if there is not enough memory."""

    @abstractmethod
    def partition(self, proposal: Sequence[ShardingOption], topology: Topology) -> list[ShardingOption]:
        """Return the options of a proposal, placed."""


@unique
class SortBy(Enum):
    """What decides which tables are placed first: those with most memory, or those that take longest."""

    STORAGE = "storage"
    PERF = "perf"


def rank_perfs(plan: Sequence[ShardingOption], world_size: int) -> list[float]:
    """Return the milliseconds of each rank."""
    loads = [0.0] * world_size
    for option in plan:
        for rank, perf in zip(option.ranks, option.perfs, strict=True):
            loads[rank] += perf.total
    return loads


def rank_storages(plan: Sequence[ShardingOption], world_size: int) -> list[Storage]:
    """Return the memory of each rank that tables take."""
    hbm, ddr, ssd = [0] * world_size, [0] * world_size, [0] * world_size
    for option in plan:
        for rank, storage in zip(option.ranks, option.storages, strict=True):
            hbm[rank] += storage.hbm
            ddr[rank] += storage.ddr
            ssd[rank] += storage.ssd
    return [Storage(*memory) for memory in zip(hbm, ddr, ssd, strict=True)]


def rate(plan: Sequence[ShardingOption], world_size: int) -> float:
    """Return the milliseconds of the rank that takes longest: what a plan is judged by."""
    return max(rank_perfs(plan, world_size))


class _Rank:
    """What a rank has to do so far, and what is left of its memory."""

    __slots__ = ("load", "local", "rank", "room")

    def __init__(self, rank: int, local: int, room: Storage, load: float = 0.0) -> None:
        self.rank = rank
        self.local = local
        self.room = room
        self.load = load

    def __lt__(self, other: _Rank) -> bool:
        # Of ranks with equal loads the first of each host comes first, so that no host's memory fills up.
        return (self.load, self.local, self.rank) < (other.load, other.local, other.rank)

    def copied(self) -> _Rank:
        return _Rank(self.rank, self.local, self.room, self.load)

    def take(self, shard: Shard) -> bool:
        """Add a shard if there is room for it."""
        storage, perf = shard.storage, shard.perf
        if storage is None or perf is None or not storage.fits_in(self.room):
            return False
        self.room = self.room - storage
        self.load += perf.total
        return True


class GreedyPerfPartitioner(Partitioner):
    """Place what lies on all ranks, then the largest tables first, each shard on the least loaded rank.

    Tables that stay on one host are tried on the hosts by what they have to do.
    """

    def __init__(self, sort_by: SortBy = SortBy.STORAGE) -> None:
        self.sort_by = sort_by

    def partition(
        self, proposal: Sequence[ShardingOption], topology: Topology, hbm_per_device: int | None = None
    ) -> list[ShardingOption]:
        """Return the options of a proposal, placed; with `hbm_per_device` on ranks of that much memory."""
        ranks = [
            _Rank(rank, rank % topology.local_world_size, Storage(hbm_per_device or cap.hbm, cap.ddr, cap.ssd))
            for rank, cap in enumerate(topology.caps)
        ]
        placed: dict[int, list[int]] = {}
        for position, option in enumerate(proposal):
            if option.partition_by is PartitionByType.UNIFORM:
                placed[position] = _on_all(option, ranks)
        rest = [position for position in range(len(proposal)) if position not in placed]
        rest.sort(key=lambda position: self._size(proposal[position]), reverse=True)
        groups = [[ranks[rank] for rank in group] for group in topology.groups]
        heap = list(ranks)
        heapq.heapify(heap)
        for position in rest:
            option = proposal[position]
            if option.partition_by is PartitionByType.DEVICE:
                placed[position] = _on_least_loaded(option, heap)
            else:
                host = option.partition_by is PartitionByType.HOST
                placed[position] = _on_one_host(option, groups) if host else _on_hosts(option, groups)
                heapq.heapify(heap)
        return [option.on(placed[position]) for position, option in enumerate(proposal)]

    def _size(self, option: ShardingOption) -> tuple[float, ...]:
        if self.sort_by is SortBy.PERF:
            return (option.total_perf,)
        storage = option.total_storage
        return storage.hbm, storage.ddr, storage.ssd


def _on_all(option: ShardingOption, ranks: Sequence[_Rank]) -> list[int]:
    if option.num_shards != len(ranks):
        raise _no_room(option, "it has another number of shards than there are ranks")
    for shard, rank in zip(option.shards, ranks, strict=True):
        if not rank.take(shard):
            raise _no_room(option, f"rank {rank.rank} has no room for its shard")
    return [rank.rank for rank in ranks]


def _on_least_loaded(option: ShardingOption, heap: list[_Rank]) -> list[int]:
    """Place each shard on the least loaded rank that has room. The heap keeps its order."""
    placed: list[int] = []
    for shard in option.shards:
        full: list[_Rank] = []
        while heap and not heap[0].take(shard):
            full.append(heapq.heappop(heap))
        if not heap:
            heap += full
            heapq.heapify(heap)
            raise _no_room(option, "no rank has room for a shard")
        placed.append(heap[0].rank)
        heapq.heapreplace(heap, heap[0])
        for rank in full:
            heapq.heappush(heap, rank)
    return placed


def _on_one_host(option: ShardingOption, groups: Sequence[Sequence[_Rank]]) -> list[int]:
    for group in _by_load(groups):
        trial = [rank.copied() for rank in group]
        try:
            if option.sharding_type is ShardingType.TABLE_ROW_WISE:
                placed = _on_all(option, trial)
            else:
                heap = [_Rank(rank.rank, position, rank.room, rank.load) for position, rank in enumerate(trial)]
                heapq.heapify(heap)
                placed = _on_least_loaded(option, heap)
                trial = sorted(heap, key=lambda rank: rank.rank)
        except RushlightError:
            continue
        _take_over(group, trial)
        return placed
    raise _no_room(option, "no host has room for it")


def _on_hosts(option: ShardingOption, groups: Sequence[Sequence[_Rank]]) -> list[int]:
    """Place a grid: a block of columns on each of several hosts, its rows on the ranks of the host."""
    size = len(groups[0])
    count = option.num_shards // size
    ordered = _by_load(groups)
    if count >= len(ordered):
        choices = [[ordered[position % len(ordered)] for position in range(count)]]
    else:
        choices = [ordered[first : first + count] for first in range(len(ordered) - count + 1)]
    for hosts in choices:
        trials = {id(group): [rank.copied() for rank in group] for group in hosts}
        try:
            placed = _on_all(option, [rank for group in hosts for rank in trials[id(group)]])
        except RushlightError:
            continue
        for group in hosts:
            _take_over(group, trials[id(group)])
        return placed
    raise _no_room(option, "no hosts have room for it")


def _by_load(groups: Sequence[Sequence[_Rank]]) -> list[Sequence[_Rank]]:
    return sorted(groups, key=lambda group: sum([rank.load for rank in group]))


def _take_over(ranks: Sequence[_Rank], trial: Sequence[_Rank]) -> None:
    for rank, tried in zip(ranks, trial, strict=True):
        rank.room, rank.load = tried.room, tried.load


def _no_room(option: ShardingOption, why: str) -> RushlightError:
    return error(
        "E022",
        f"table {option.fqn!r} cannot be placed as {option.sharding_type.value}: {why}",
        bytes_needed=option.total_storage,
        hint="allow other sharding types or kernels of host memory, reserve less, or take more ranks",
    )


class MemoryBalancedPartitioner(Partitioner):
    """The plan with most memory left, among those at most `tolerance` slower than the greedy one.

    A bisection of the memory that a rank may use, of at most `max_search_count` greedy placements, until it is known
    to 10 MB.
    """

    def __init__(self, max_search_count: int = 10, tolerance: float = 0.02) -> None:
        if max_search_count < 0 or not tolerance >= 0:
            fail("E020", "a bisection has no negative bounds", max_search_count=max_search_count, tolerance=tolerance)
        self.max_search_count = max_search_count
        self.tolerance = tolerance

    def partition(self, proposal: Sequence[ShardingOption], topology: Topology) -> list[ShardingOption]:
        """Return the options of a proposal, placed."""
        greedy = GreedyPerfPartitioner(SortBy.PERF)
        best = greedy.partition(proposal, topology)
        bound = rate(best, topology.world_size) * (1 + self.tolerance)
        used = [storage.hbm for storage in rank_storages(best, topology.world_size)]
        largest = max([storage.hbm for option in best for storage in option.storages])
        low, high = max(sum(used) // topology.world_size, largest), max(used)
        for _ in range(self.max_search_count):
            if low + 10 * 1024**2 >= high:
                break
            middle = (low + high) // 2
            try:
                plan = greedy.partition(proposal, topology, middle)
            except RushlightError:
                low = middle
                continue
            if rate(plan, topology.world_size) > bound:
                low = middle
            else:
                best, high = plan, middle
        return best
