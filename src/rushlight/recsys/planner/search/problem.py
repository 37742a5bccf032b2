"""The search's own view of a planning problem: for each table its ways, as numbers, and what a state of ranks is."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from rushlight.recsys.planner.options import PartitionByType, ShardingOption, ShardingType
from rushlight.recsys.planner.proposers import by_table
from rushlight.recsys.planner.topology import Topology

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Way:
    """One option of a table: milliseconds of each shard, and bytes of each shard by kind of memory.

    Of a way with `counted` shards all are alike, and only how many of them a rank has matters.
    """

    __slots__ = ("counted", "memory", "option", "perfs", "place_by", "shards", "total", "total_memory")

    def __init__(self, option: ShardingOption, kinds: Sequence[str]) -> None:
        self.option = option
        self.perfs: Floats = np.array([perf.total for perf in option.perfs])
        self.memory: Floats = np.array(
            [[float(getattr(storage, kind)) for storage in option.storages] for kind in kinds]
        ).reshape(len(kinds), len(option.storages))
        self.shards = len(option.sizes)
        self.place_by = option.partition_by
        self.counted = self.place_by is PartitionByType.DEVICE or option.sharding_type is (
            ShardingType.TABLE_COLUMN_WISE
        )
        self.total = float(self.perfs.sum())
        self.total_memory: Floats = self.memory.sum(axis=1)

    def dominates(self, other: Way) -> bool:
        """Whether the other way is nowhere faster and nowhere smaller, wherever both are placed."""
        wider = self.place_by is other.place_by or (
            self.place_by is PartitionByType.DEVICE and other.place_by is PartitionByType.HOST and other.counted
        )
        if not wider or self.shards != other.shards:
            return False
        return bool((self.perfs <= other.perfs).all() and (self.memory <= other.memory).all())


class Problem:
    """Tables with their ways, and the ranks with their memory.

    `tables[t]` has the ways of one table that no other one dominates. `caps[kind, rank]` are bytes of the kinds of
    memory that tables use at all.
    """

    def __init__(self, options: Sequence[ShardingOption], topology: Topology) -> None:
        storages = [storage for option in options for storage in set(option.storages)]
        self.kinds = [kind for kind in ("hbm", "ddr", "ssd") if any(getattr(each, kind) for each in storages)]
        self.world_size = topology.world_size
        self.group_size = topology.intra_group_size
        self.ranks_of_groups = topology.groups
        self.caps: Floats = np.array(
            [[float(getattr(cap, kind)) for cap in topology.caps] for kind in self.kinds]
        ).reshape(len(self.kinds), topology.world_size)
        self.tables = [_undominated([Way(each, self.kinds) for each in group]) for group in by_table(options).values()]

    def within(self, bottleneck: float) -> Problem:
        """Return the problem with the ways alone of which no shard takes longer than a bottleneck."""
        narrowed = copy(self)
        narrowed.tables = [
            [way for way in ways if float(way.perfs.max()) <= bottleneck * (1 + 1e-12)] for ways in self.tables
        ]
        return narrowed

    @property
    def groups(self) -> int:
        """How many groups of ranks have fast links."""
        return len(self.ranks_of_groups)


def _undominated(ways: list[Way]) -> list[Way]:
    """Drop ways that another one dominates; of equal ones the first stays."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda way: way.total):
        if not any(other.dominates(way) for other in kept):
            kept.append(way)
    return kept


class State:
    """What ranks have to do and what is left of their memory, with a way and ranks for each placed table."""

    __slots__ = ("chosen", "loads", "problem", "room")

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.loads: Floats = np.zeros(problem.world_size)
        self.room: Floats = problem.caps.copy()
        self.chosen: list[tuple[Way, Ints] | None] = [None] * len(problem.tables)

    @property
    def bottleneck(self) -> float:
        """Milliseconds of the rank that takes longest."""
        return float(self.loads.max())

    def copied(self) -> State:
        """Return a state of its own with the same tables in the same places."""
        state = State.__new__(State)
        state.problem = self.problem
        state.loads = self.loads.copy()
        state.room = self.room.copy()
        state.chosen = list(self.chosen)
        return state

    def put(self, table: int, way: Way, ranks: Ints) -> None:
        """Place a table."""
        self.chosen[table] = way, ranks
        self._add(way, ranks, 1.0)

    def take(self, table: int) -> tuple[Way, Ints]:
        """Remove a table and return how it was placed."""
        placed = self.chosen[table]
        assert placed is not None
        self.chosen[table] = None
        self._add(*placed, -1.0)
        return placed

    def _add(self, way: Way, ranks: Ints, sign: float) -> None:
        if way.shards == 1:
            self.loads[ranks[0]] += sign * way.perfs[0]
            self.room[:, ranks[0]] -= sign * way.memory[:, 0]
        elif way.place_by is PartitionByType.UNIFORM:
            self.loads += sign * way.perfs
            self.room -= sign * way.memory
        else:
            np.add.at(self.loads, ranks, sign * way.perfs)
            for room, memory in zip(self.room, way.memory, strict=True):
                np.subtract.at(room, ranks, sign * memory)

    def settle(self) -> None:
        """Count loads and room anew: removing and adding leaves rounding behind."""
        self.loads[:] = 0
        self.room[:] = self.problem.caps
        for placed in self.chosen:
            if placed is not None:
                self._add(*placed, 1.0)

    def plan(self) -> list[ShardingOption]:
        """Return the placed options, tables in their order."""
        return [way.option.on([int(rank) for rank in ranks]) for way, ranks in filter(None, self.chosen)]
