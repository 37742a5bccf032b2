"""Where a table goes: of each way the best ranks, of all ways that which exceeds a target least.

A first plan for a target bottleneck places tables one after the other, those that take longest first. Work beyond the
target counts for all ranks, since all of them wait; a byte costs what the bound says that it is worth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.recsys.planner.options import PartitionByType
from rushlight.recsys.planner.search.problem import Bools, Floats, Ints, Problem, State, Way


def ranks_for(state: State, way: Way, target: float) -> Ints | None:
    """Return the ranks on which a way exceeds a target least, or None if it fits nowhere."""
    match way.place_by:
        case PartitionByType.UNIFORM:
            return np.arange(way.shards) if (way.memory <= state.room).all() else None
        case PartitionByType.DEVICE:
            return _least_loaded(state, way)
        case PartitionByType.HOST if way.counted:
            return _least_loaded_of_group(state, way, target)
        case _:
            return _whole_groups(state, way, target)


def _least_loaded(state: State, way: Way) -> Ints | None:
    """Each shard on the least loaded rank with room for it."""
    if way.shards == 1:
        fits = np.logical_and.reduce(state.room >= way.memory, axis=0)
        rank = int(np.where(fits, state.loads, np.inf).argmin())
        return np.array([rank]) if fits[rank] else None
    loads, room = state.loads.copy(), state.room.copy()
    ranks = np.empty(way.shards, np.int64)
    perf, memory = float(way.perfs[0]), way.memory[:, 0]
    for shard in range(way.shards):
        fits = np.logical_and.reduce(room >= memory[:, None], axis=0)
        rank = int(np.where(fits, loads, np.inf).argmin())
        if not fits[rank]:
            return None
        loads[rank] += perf
        room[:, rank] -= memory
        ranks[shard] = rank
    return ranks


def _least_loaded_of_group(state: State, way: Way, target: float) -> Ints | None:
    """All shards in the group of ranks that exceeds the target least, each on the least loaded rank."""
    groups, size = state.problem.groups, state.problem.group_size
    loads = state.loads.reshape(groups, size).copy()
    room = state.room.reshape(len(state.room), groups, size).copy()
    before = _beyond(loads, target)
    rows = np.arange(groups)
    ranks = np.empty((groups, way.shards), np.int64)
    possible = np.ones(groups, bool)
    perf, memory = float(way.perfs[0]), way.memory[:, 0]
    for shard in range(way.shards):
        fits = np.logical_and.reduce(room >= memory[:, None, None], axis=0)
        chosen = np.where(fits, loads, np.inf).argmin(axis=1)
        possible &= fits[rows, chosen]
        loads[rows, chosen] += perf
        room[:, rows, chosen] -= memory[:, None]
        ranks[:, shard] = chosen
    group = _best_group(loads, before, target, possible)
    return None if group is None else ranks[group] + group * size


def _whole_groups(state: State, way: Way, target: float) -> Ints | None:
    """Each block of columns on all ranks of a group; blocks take different groups while there are others."""
    groups, size = state.problem.groups, state.problem.group_size
    loads = state.loads.reshape(groups, size).copy()
    room = state.room.reshape(len(state.room), groups, size).copy()
    blocks = way.shards // size
    unused = np.ones(groups, bool)
    ranks: list[Ints] = []
    for block in range(blocks):
        part = slice(block * size, (block + 1) * size)
        perfs, memory = way.perfs[part], way.memory[:, part]
        possible = (room >= memory[:, None, :]).all(axis=(0, 2)) & unused
        group = _best_group(loads + perfs, _beyond(loads, target), target, possible)
        if group is None:
            return None
        loads[group] += perfs
        room[:, group] -= memory
        ranks.append(np.arange(size) + group * size)
        unused[group] = False
        if not unused.any():
            unused[:] = True
    return np.concatenate(ranks)


def _best_group(loads: Floats, before: Floats, target: float, possible: Bools) -> int | None:
    if not possible.any():
        return None
    excess = np.where(possible, _beyond(loads, target) - before, np.inf)
    return int(np.lexsort((loads.max(axis=1), excess))[0])


def _beyond(loads: Floats, target: float) -> Floats:
    return np.maximum(loads - target, 0.0).sum(axis=1)


def excess(state: State, way: Way, ranks: Ints, target: float) -> float:
    """Return by how much more ranks exceed a target if a way is placed on ranks."""
    if way.shards == 1:
        load = float(state.loads[ranks[0]])
        return max(load + float(way.perfs[0]) - target, 0.0) - max(load - target, 0.0)
    loads = state.loads.copy()
    np.add.at(loads, ranks, way.perfs)
    return float((np.maximum(loads - target, 0.0) - np.maximum(state.loads - target, 0.0)).sum())


def best_place(state: State, ways: Sequence[Way], prices: Floats, target: float) -> tuple[Way, Ints] | None:
    """Return the way of least priced time and excess over a target, with its ranks; None if nothing fits."""
    best: tuple[float, Way, Ints] | None = None
    for way in ways:
        floor = way.total + float(prices @ way.total_memory)
        if best is not None and floor >= best[0]:
            continue
        ranks = ranks_for(state, way, target)
        if ranks is None:
            continue
        cost = floor + state.problem.world_size * excess(state, way, ranks, target)
        if best is None or cost < best[0]:
            best = cost, way, ranks
    return None if best is None else best[1:]


def first_plan(problem: Problem, prices: Floats, target: float, by_memory: bool = False) -> State | None:
    """Return a plan for a target bottleneck; None if a table finds no room. Large tables go first."""
    state = State(problem)
    for table in placing_order(problem, prices, by_memory):
        place = best_place(state, problem.tables[table], prices, target)
        if place is None:
            return None
        state.put(table, *place)
    return state


def placing_order(problem: Problem, prices: Floats, by_memory: bool) -> list[int]:
    """Return the tables, those of most time first, or of most memory relative to what there is."""
    caps = np.maximum(problem.caps.sum(axis=1), 1.0)

    def size(table: int) -> float:
        ways = problem.tables[table]
        if by_memory:
            return min([float((way.total_memory / caps).sum()) for way in ways])
        return min([way.total + float(prices @ way.total_memory) for way in ways])

    return sorted(range(len(problem.tables)), key=lambda table: (-size(table), table))
