"""A search for the plan of least bottleneck: bounded targets, local search, and an exact finish of small problems.

The bottleneck is the time of the rank that takes longest. The search begins with a lower bound, places tables for
several targets above it, improves the best plan, and ends with branch and bound where that can be finished, or with
a mixed integer programme where SciPy is installed. Given plans are starting points too, so that the result is never
worse than any of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.recsys.planner.options import ShardingOption
from rushlight.recsys.planner.partitioners import GreedyPerfPartitioner
from rushlight.recsys.planner.proposers import (
    DynamicProgrammingProposer,
    GreedyProposer,
    Proposer,
    UniformProposer,
    best_placed,
)
from rushlight.recsys.planner.search.bound import bound_and_prices
from rushlight.recsys.planner.search.exact import exact
from rushlight.recsys.planner.search.local import Effort, improve, recreate
from rushlight.recsys.planner.search.milp import polish
from rushlight.recsys.planner.search.placement import first_plan
from rushlight.recsys.planner.search.problem import Floats, Problem, State, Way
from rushlight.recsys.planner.topology import Topology
from rushlight.support.frozen import frozen

PROGRAMMED = 300  # tables times ranks up to which dynamic programming takes less than a second
STARTS = 6  # plans that are improved
TARGETS = (1.0, 1.005, 1.02, 1.05, 1.1, 1.2, 1.4, 2.0)


@frozen
class Found:
    """A plan of the search, the bound that no plan is below, and whether it is proven to be the best.

    `milp_used` says that a mixed integer programme had a part in it.
    """

    plan: tuple[ShardingOption, ...]
    lower_bound: float
    proven: bool
    milp_used: bool


def search(
    options: Sequence[ShardingOption],
    topology: Topology,
    *,
    effort: int = 50_000,
    nodes: int = 100_000,
    milp_nodes: int = 50,
    seed: int = 0,
    starts: Sequence[Sequence[ShardingOption]] = (),
) -> Found | None:
    """Return the best plan found; None if no plan was found that fits into memory.

    `effort` counts placements that are tried, `nodes` those of branch and bound, `milp_nodes` those of each mixed
    integer programme; 0 leaves a stage out. Plans in `starts` are improved as well.
    """
    problem = Problem(options, topology)
    bound, prices = bound_and_prices(problem)
    budget = Effort(effort)
    states = [_from_plan(problem, plan) for plan in starts]
    states += _first_plans(problem, prices, bound, effort)
    states += _proposed(problem, options, topology, effort)
    best: State | None = None
    different = {state.bottleneck: state for state in states}
    for _, state in sorted(different.items())[:STARTS]:
        improve(state, Effort(max(budget.left // 8, 0)))
        if best is None or state.bottleneck < best.bottleneck:
            best = state
    if best is not None:
        problem, bound, prices = _tightened(problem, best, bound, prices)
    proven, milp_used = False, False
    if nodes and (best is None or best.bottleneck > bound * (1 + 1e-12)):
        best, proven = exact(problem, best, nodes)
    if best is None:
        return None
    proven = proven or best.bottleneck <= bound * (1 + 1e-12)
    if not proven:
        best = recreate(best, prices, budget, seed, bound)
        if milp_nodes:
            best, milp_used = polish(best, bound, milp_nodes)
    return Found(tuple(best.plan()), min(bound, best.bottleneck), proven, milp_used)


def _tightened(problem: Problem, best: State, bound: float, prices: Floats) -> tuple[Problem, float, Floats]:
    """Leave out ways whose longest shard alone is beyond the best plan: without them the bound is higher.

    A better plan has none of them, so the higher bound holds for it; the best plan itself is the other case.
    """
    narrowed = problem.within(best.bottleneck)
    best.problem = narrowed
    higher, prices = bound_and_prices(narrowed)
    return narrowed, max(bound, min(higher, best.bottleneck)), prices


def _first_plans(problem: Problem, prices: Floats, bound: float, effort: int) -> list[State]:
    """Plans for rising targets, in two orders and at several prices, within a quarter of the effort.

    A price that suffices for all ranks together may be too low where memory does not divide well: dearer memory makes
    room on each rank. The first order and price are tried in any case, and further ones until one finds room.
    """
    states: list[State] = []
    cost = sum([len(ways) for ways in problem.tables])
    left = effort // 4
    dear = _dear(problem)
    for level in (prices, prices + 0.1 * dear, prices * 1.5 + dear, prices * 4 + 10 * dear, prices + 1e3 * dear):
        for by_memory in (False, True):
            if states and left < cost:
                return states
            for target in TARGETS:
                left -= cost
                state = first_plan(problem, level, bound * target, by_memory)
                if state is None:
                    break  # no room: higher targets do not help
                states.append(state)
                if state.bottleneck <= bound * target:
                    break
    return states


def _dear(problem: Problem) -> Floats:
    """Prices at which all memory costs as much as all tables take at least."""
    least = sum([min([way.total for way in ways]) for ways in problem.tables])
    return least / np.maximum(problem.caps.sum(axis=1), 1.0)


def _proposed(problem: Problem, options: Sequence[ShardingOption], topology: Topology, effort: int) -> list[State]:
    """The best plan of TorchRec's proposers, of as many proposals as the effort allows: a start among others."""
    limit = effort // (10 * len(problem.tables))
    proposers: list[Proposer] = [UniformProposer(), GreedyProposer(), GreedyProposer(use_depth=False)]
    if len(problem.tables) * problem.world_size <= PROGRAMMED:
        proposers.append(DynamicProgrammingProposer(hbm_bins_per_device=20))
    best = best_placed(proposers, options, topology, GreedyPerfPartitioner(), limit=limit)
    return [] if best is None else [_from_plan(problem, best)]


def _from_plan(problem: Problem, plan: Sequence[ShardingOption]) -> State:
    state = State(problem)
    names = [ways[0].option.fqn for ways in problem.tables]
    for option in plan:
        state.put(names.index(option.fqn), Way(option, problem.kinds), np.array(option.ranks, np.int64))
    return state
