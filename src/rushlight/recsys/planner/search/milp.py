"""A mixed integer programme over the hottest and the coldest ranks, where SciPy is installed.

Its effort is a number of nodes, never a number of seconds, so that the same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

import numpy as np

from rushlight.recsys.planner.options import PartitionByType
from rushlight.recsys.planner.search.local import on_rank
from rushlight.recsys.planner.search.problem import Floats, Ints, State, Way

RANKS = 6
ROUNDS = 4
VARIABLES = 400  # a programme of more takes seconds for its first node
GAP = 0.005  # above the bound; within it a programme does not pay

Column = tuple[int, Way, Ints]


def polish(state: State, bound: float, nodes: int) -> tuple[State, bool]:
    """Return a better plan, if a programme finds one, and whether it did. The first round takes all ranks if few."""
    try:
        optimize = import_module("scipy.optimize")
    except ImportError:
        return state, False
    used = False
    for round_ in range(ROUNDS):
        if state.bottleneck <= bound * (1 + GAP):
            break
        ranks = _ranks(state, round_)
        columns = _columns(state, ranks)
        if not columns or len(columns) > VARIABLES:
            continue
        better = _solved(optimize, state, ranks, columns, nodes)
        if better is not None and better.bottleneck < state.bottleneck * (1 - 1e-9):
            state, used = better, True
        elif len(ranks) == state.problem.world_size:
            break
    return state, used


def _ranks(state: State, round_: int) -> list[int]:
    """The hottest rank and cold ones; other cold ones in each round."""
    world = state.problem.world_size
    order = [int(rank) for rank in np.argsort(-state.loads, kind="stable")]
    if world <= RANKS:
        return sorted(order)
    cold = order[:0:-1]
    first = round_ * (RANKS - 1) % len(cold)
    return sorted([order[0], *(cold + cold)[first : first + RANKS - 1]])


def _columns(state: State, ranks: list[int]) -> list[Column]:
    """Each way to place a table of these ranks on them again; equal shards may share ranks."""
    inside = set(ranks)
    whole = len(ranks) == state.problem.world_size
    tables = [
        table
        for table in sorted({table for rank in ranks for table in on_rank(state, rank)})
        if (placed := state.chosen[table]) is not None and inside.issuperset(placed[1].tolist())
    ]
    columns: list[Column] = []
    for table in tables:
        for way in state.problem.tables[table]:
            if way.place_by is PartitionByType.UNIFORM:
                columns += [(table, way, np.arange(way.shards))] if whole else []
            elif way.shards == 1:
                columns += [(table, way, np.array([rank])) for rank in ranks]
            elif way.place_by is PartitionByType.DEVICE:
                columns += [(table, way, each) for each in _rotations(ranks, way.shards)]
            elif way.place_by is PartitionByType.HOST:
                columns += _of_hosts(state, table, way, inside)
        placed = state.chosen[table]
        assert placed is not None
        columns.append((table, *placed))
    return columns


def _rotations(ranks: Sequence[int], shards: int) -> list[Ints]:
    """Ranks that follow each other, beginning at each."""
    return [np.array([ranks[(first + shard) % len(ranks)] for shard in range(shards)]) for first in range(len(ranks))]


def _of_hosts(state: State, table: int, way: Way, inside: set[int]) -> list[Column]:
    found: list[Column] = []
    for host in state.problem.ranks_of_groups:
        if inside.issuperset(host):
            choices = _rotations(host, way.shards) if way.counted else [np.array(host)]
            found += [(table, way, ranks) for ranks in choices]
    return found


def _solved(optimize: ModuleType, state: State, ranks: list[int], columns: list[Column], nodes: int) -> State | None:
    """Minimise the longest load of these ranks: one column for each table, within their memory."""
    tables = sorted({table for table, _, _ in columns})
    base = state.copied()
    for table in tables:
        base.take(table)
    kinds, count = len(base.room), len(columns)
    choose = np.zeros((len(tables), count + 1))
    load = np.zeros((len(ranks), count + 1))
    memory = np.zeros((kinds * len(ranks), count + 1))
    scale = state.bottleneck
    row_of = {rank: row for row, rank in enumerate(ranks)}
    caps = np.maximum(base.room[:, ranks], 1.0)
    for column, (table, way, placed) in enumerate(columns):
        choose[tables.index(table), column] = 1
        rows = [row_of[rank] for rank in placed.tolist()]
        np.add.at(load[:, column], rows, way.perfs / scale)
        for kind in range(kinds):
            np.add.at(memory[kind * len(ranks) : (kind + 1) * len(ranks), column], rows, way.memory[kind])
    memory[:, :count] /= caps.reshape(-1, 1)
    load[:, count] = -1
    answer = _answer(optimize, (choose, load, memory), base.loads[ranks] / scale, base.room[:, ranks] / caps, nodes)
    if answer is None:
        return None
    for column in np.flatnonzero(answer[:count] > 0.5):
        table, way, placed = columns[int(column)]
        base.put(table, way, placed)
    base.settle()
    complete = all(placed is not None for placed in base.chosen)
    return base if complete and (base.room >= 0).all() else None


def _answer(
    optimize: ModuleType, rows: tuple[Floats, Floats, Floats], loads: Floats, room: Floats, nodes: int
) -> Floats | None:
    choose, load, memory = rows
    count = choose.shape[1] - 1
    cost = np.zeros(count + 1)
    cost[count] = 1
    constraint, bounds = optimize.LinearConstraint, optimize.Bounds
    answer = optimize.milp(
        cost,
        constraints=[
            constraint(choose, 1, 1),
            constraint(load, -np.inf, -loads),
            constraint(memory, -np.inf, room.reshape(-1)),
        ],
        integrality=np.array([1] * count + [0]),
        bounds=bounds(np.zeros(count + 1), np.array([1.0] * count + [np.inf])),
        options={"node_limit": nodes, "mip_rel_gap": 1e-6, "presolve": False},
    )
    return answer.x
