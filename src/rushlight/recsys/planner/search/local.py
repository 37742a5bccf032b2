"""Making a plan better: tables leave the rank that takes longest, change places, or are placed anew in groups.

A plan is judged by the sum of its loads to the power of 24, scaled by the longest. Unlike the longest load alone this
says of two plans with equal bottlenecks which one is nearer to a better one. All work is counted in placements tried,
never in seconds, so that the same input gives the same plan.
"""

from __future__ import annotations

import numpy as np

from rushlight.recsys.planner.search.placement import best_place, ranks_for
from rushlight.recsys.planner.search.problem import Floats, Ints, Problem, State, Way

POWER = 24
IMPROVEMENT = 1e-9  # of the sum of powers; less is rounding


class Effort:
    """How many placements may still be tried."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, count: int = 1) -> bool:
        """Count placements; False if there are none left."""
        self.left -= count
        return self.left >= 0


def improve(state: State, effort: Effort) -> None:
    """Move and swap tables of the longest rank until nothing helps or the effort is spent."""
    while effort.left > 0:
        scale = state.bottleneck
        if scale <= 0 or not (_move(state, scale, effort) or _swap(state, scale, effort)):
            break
    state.settle()


def norm(loads: Floats, scale: float) -> float:
    """Return the sum of powers of loads over a scale."""
    return float(((loads / scale) ** POWER).sum())


def on_rank(state: State, rank: int) -> list[int]:
    """Return the tables of which a rank has shards, those that take longest there first."""
    found: list[tuple[float, int]] = []
    for table, placed in enumerate(state.chosen):
        if placed is not None:
            way, ranks = placed
            if way.shards == 1:
                if ranks[0] == rank:
                    found.append((-float(way.perfs[0]), table))
            elif (here := ranks == rank).any():
                found.append((-float(way.perfs[here].sum()), table))
    return [table for _, table in sorted(found)]


def _move(state: State, scale: float, effort: Effort) -> bool:
    """Place one table of the longest rank anew, the one that helps most of the first that help."""
    hot = int(state.loads.argmax())
    before = norm(state.loads, scale)
    best: tuple[float, int, Way, Ints] | None = None
    for table in on_rank(state, hot):
        if not effort.spend():
            break
        old = state.take(table)
        rest = norm(state.loads, scale)
        for way in state.problem.tables[table]:
            ranks = ranks_for(state, way, scale)
            if ranks is None:
                continue
            effort.spend()
            after = _norm_with(state, way, ranks, scale, rest)
            if after < before * (1 - IMPROVEMENT) and (best is None or after < best[0]):
                best = after, table, way, ranks
        state.put(table, *old)
        if best is not None and best[0] < 0.75 * before:
            break
    if best is None:
        return False
    _, table, way, ranks = best
    state.take(table)
    state.put(table, way, ranks)
    return True


def _norm_with(state: State, way: Way, ranks: Ints, scale: float, rest: float) -> float:
    """The norm with a table placed; infinite beyond the scale, since of many equal loads one may rise."""
    if way.shards == 1:
        load = float(state.loads[ranks[0]])
        after = load + float(way.perfs[0])
        return rest + (after / scale) ** POWER - (load / scale) ** POWER if after <= scale else np.inf
    loads = state.loads.copy()
    np.add.at(loads, ranks, way.perfs)
    return norm(loads, scale) if float(loads.max()) <= scale else np.inf


def _swap(state: State, scale: float, effort: Effort) -> bool:
    """Exchange a table of the longest rank with a smaller one elsewhere, the pair that helps most."""
    hot = int(state.loads.argmax())
    singles = [
        (table, int(placed[1][0]), placed[0])
        for table, placed in enumerate(state.chosen)
        if placed is not None and placed[0].shards == 1
    ]
    here = [single for single in singles if single[1] == hot]
    there = [single for single in singles if single[1] != hot]
    if not here or not there or not effort.spend(1 + len(here) * len(there) // 16):
        return False
    ranks = np.array([rank for _, rank, _ in there])
    more = np.array([way.perfs[0] for _, _, way in here])[:, None] - np.array([way.perfs[0] for _, _, way in there])
    memory_here = np.array([way.memory[:, 0] for _, _, way in here]).T
    memory_there = np.array([way.memory[:, 0] for _, _, way in there]).T
    needed = memory_here[:, :, None] - memory_there[:, None, :]
    fits = (needed <= state.room[:, ranks][:, None, :]).all(axis=0)
    fits &= (-needed <= state.room[:, hot][:, None, None]).all(axis=0)
    old = (state.loads[hot] / scale) ** POWER + (state.loads[ranks] / scale) ** POWER
    new = (np.maximum(state.loads[hot] - more, 0) / scale) ** POWER + (
        np.maximum(state.loads[ranks] + more, 0) / scale
    ) ** POWER
    gain = np.where(fits & (more > 0) & (state.loads[ranks] + more <= scale), old - new, -np.inf)
    best = int(gain.argmax())
    if gain.flat[best] <= IMPROVEMENT * norm(state.loads, scale):
        return False
    first, second = divmod(best, len(there))
    _exchange(state, here[first], there[second])
    return True


def _exchange(state: State, first: tuple[int, int, Way], second: tuple[int, int, Way]) -> None:
    state.take(first[0])
    state.take(second[0])
    state.put(first[0], first[2], np.array([second[1]]))
    state.put(second[0], second[2], np.array([first[1]]))


def recreate(state: State, prices: Floats, effort: Effort, seed: int, bound: float) -> State:
    """Return a better plan, if there is one: some ranks are cleared and their tables are placed anew, again and again.

    The ranks are the longest one and others, drawn with a seed; the target lies between bound and bottleneck.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    best = state.copied()
    while effort.left > 0 and best.bottleneck > bound * (1 + 1e-6):
        trial = best.copied()
        if _renewed(trial, prices, effort, generator, bound) and _better(trial, best):
            best = trial
    return best


def _better(trial: State, best: State) -> bool:
    scale = best.bottleneck
    return trial.bottleneck <= scale and norm(trial.loads, scale) < norm(best.loads, scale) * (1 - IMPROVEMENT)


def _renewed(trial: State, prices: Floats, effort: Effort, generator: np.random.Generator, bound: float) -> bool:
    problem: Problem = trial.problem
    bottleneck = trial.bottleneck
    count = int(generator.integers(2, max(3, min(6, problem.world_size) + 1)))
    others = generator.permutation(problem.world_size)[: count - 1]
    cleared = sorted({int(trial.loads.argmax()), *[int(rank) for rank in others]})
    tables = sorted({table for rank in cleared for table in on_rank(trial, rank)})
    if len(tables) > 40:
        tables = sorted(int(table) for table in generator.permutation(tables)[:40])
    sizes = {table: trial.take(table)[0].total for table in tables}
    target = bound + (bottleneck - bound) * float(generator.uniform(0.0, 1.0))
    noise = generator.uniform(0.7, 1.3, len(tables))
    order = sorted(tables, key=lambda table: (-sizes[table] * noise[tables.index(table)], table))
    for table in order:
        effort.spend(len(problem.tables[table]))
        place = best_place(trial, problem.tables[table], prices, target)
        if place is None:
            return False
        trial.put(table, *place)
    if trial.bottleneck < bottleneck * 1.02:
        improve(trial, Effort(min(max(effort.left, 0), 60)))
        effort.spend(60)
    return True
