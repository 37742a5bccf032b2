"""The best plan of a small problem: all placements, table after table, without those that cannot be better."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations

import numpy as np

from rushlight.recsys.planner.options import PartitionByType
from rushlight.recsys.planner.search.problem import Floats, Ints, Problem, State, Way

PLACES_OF_A_TABLE = 200

Place = tuple[Way, Ints, tuple[float, ...], tuple[tuple[float, ...], ...]]


def places(problem: Problem, way: Way) -> list[tuple[int, ...]]:
    """Return all ways to give the shards ranks. Shards that are alike are not told apart."""
    world, size, groups = problem.world_size, problem.group_size, problem.ranks_of_groups
    match way.place_by:
        case PartitionByType.UNIFORM:
            return [tuple(range(world))]
        case PartitionByType.DEVICE:
            return list(combinations_with_replacement(range(world), way.shards))
        case PartitionByType.HOST if way.counted:
            return [ranks for group in groups for ranks in combinations_with_replacement(group, way.shards)]
        case PartitionByType.HOST:
            return list(groups)
        case _:
            blocks = way.shards // size
            chosen = (
                permutations(groups, blocks)
                if blocks <= len(groups)
                else [[groups[block % len(groups)] for block in range(blocks)]]
            )
            return [tuple([rank for group in each for rank in group]) for each in chosen]


class _Search:
    """Depth first, cheap places first. A branch ends when its bound reaches the best plan found."""

    def __init__(self, problem: Problem, best: State | None, nodes: int) -> None:
        self.problem = problem
        self.nodes = nodes
        self.best = float("inf") if best is None else best.bottleneck * (1 - 1e-12)
        self.found: list[Place] | None = None
        self.order: list[int] = []
        self.places: list[list[Place]] = []
        self.rest: list[float] = []

    def prepare(self) -> bool:
        """List all places; False if there are too many."""
        problem = self.problem
        for ways in problem.tables:
            listed: list[Place] = []
            for way in ways:
                if way.shards > 4 and way.counted:
                    return False
                listed += [_priced(problem, way, ranks) for ranks in places(problem, way)]
                if len(listed) > PLACES_OF_A_TABLE:
                    return False
            listed.sort(key=lambda place: place[0].total)
            self.places.append(listed)
        self.order = sorted(range(len(self.places)), key=lambda table: -self.places[table][0][0].total)
        least = [self.places[table][0][0].total for table in self.order]
        self.rest = [sum(least[depth:]) for depth in range(len(least) + 1)]
        return True

    def run(self) -> bool:
        """Search; False if the nodes did not suffice."""
        caps = tuple([tuple(row) for row in self.problem.caps.tolist()])
        return self._descend(0, (0.0,) * self.problem.world_size, caps, [])

    def _descend(
        self, depth: int, loads: tuple[float, ...], room: tuple[tuple[float, ...], ...], chosen: list[Place]
    ) -> bool:
        if depth == len(self.order):
            self.best, self.found = max(loads), list(chosen)
            return True
        world = self.problem.world_size
        spread = (sum(loads) + self.rest[depth + 1]) / world
        for place in self.places[self.order[depth]]:
            way, _, perfs, memory = place
            if spread + way.total / world >= self.best:
                break  # those that follow take longer still
            self.nodes -= 1
            if self.nodes < 0:
                return False
            now = tuple([load + perf for load, perf in zip(loads, perfs, strict=True)])
            if max(now) >= self.best:
                continue
            left = tuple(
                [tuple([a - b for a, b in zip(*each, strict=True)]) for each in zip(room, memory, strict=True)]
            )
            if any(min(row) < 0 for row in left):
                continue
            if not self._descend(depth + 1, now, left, [*chosen, place]):
                return False
        return True


def _priced(problem: Problem, way: Way, ranks: tuple[int, ...]) -> Place:
    perfs = np.zeros(problem.world_size)
    np.add.at(perfs, list(ranks), way.perfs)
    memory: Floats = np.zeros_like(problem.caps)
    for row, of_shards in zip(memory, way.memory, strict=True):
        np.add.at(row, list(ranks), of_shards)
    return way, np.array(ranks), tuple(perfs.tolist()), tuple([tuple(row) for row in memory.tolist()])


def exact(problem: Problem, best: State | None, nodes: int) -> tuple[State | None, bool]:
    """Return the best plan, or the given one if none is better, and whether that is proven."""
    search = _Search(problem, best, nodes)
    if not search.prepare():
        return best, False
    proven = search.run()
    if search.found is None:
        return best, proven
    state = State(problem)
    for table, (way, ranks, _, _) in zip(search.order, search.found, strict=True):
        state.put(table, way, ranks)
    return state, proven
