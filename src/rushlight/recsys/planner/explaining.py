"""Why a table is where it is: what it costs there, and what every other way would cost."""

from __future__ import annotations

import numpy as np

from rushlight.recsys.planner.enumerators import ParameterConstraints, sharding_options
from rushlight.recsys.planner.estimators import estimate
from rushlight.recsys.planner.options import ShardingOption, ShardingType
from rushlight.recsys.planner.plan import Plan
from rushlight.recsys.planner.search.placement import ranks_for
from rushlight.recsys.planner.search.problem import Problem, State, Way
from rushlight.recsys.planner.stats import shown_ranks
from rushlight.recsys.planner.topology import GIB


def explain(plan: Plan, name: str) -> str:
    """Return why a table is where it is, in lines: its costs, and those of all other ways with the rest as it is.

    Constraints that a plan was made with are not part of it: ways that they forbid are listed as well.
    """
    chosen = plan[name]
    table, world = chosen.table, plan.topology.world_size
    kinds = ParameterConstraints(sharding_types=tuple(ShardingType))
    others = estimate(
        sharding_options(table, plan.topology, kinds),
        plan.settings.perf(plan.topology),
        plan.settings.storage(plan.topology),
    )
    problem = Problem([*plan.options, *others], plan.room)
    rest = State(problem)
    for position, option in enumerate(plan.options):
        if option is not chosen:
            rest.put(position, Way(option, problem.kinds), np.array(option.ranks, np.int64))
    now = plan.bottleneck_ms
    lines = [
        f"{table.fqn} ({table.rows} x {table.columns}, {table.data_type.value}) is {chosen.sharding_type.value} with "
        f"kernel {chosen.compute_kernel.value} on {_on(chosen, world)}: {chosen.longest_perf:.4g} ms on each rank that "
        f"has a shard, {_gib(chosen)} GiB in all.",
        f"Without it the longest rank takes {float(rest.loads.max()):.4g} ms, with it {now:.4g} ms.",
        "In its place, with all other tables where they are:",
    ]
    rows = [_alternative(rest, Way(option, problem.kinds), now) for option in others if not _same(option, chosen)]
    return "\n".join([*lines, *[row for _, row in sorted(rows)]]) + "\n"


def _same(option: ShardingOption, chosen: ShardingOption) -> bool:
    return (option.sharding_type, option.compute_kernel, option.sizes) == (
        chosen.sharding_type,
        chosen.compute_kernel,
        chosen.sizes,
    )


def _alternative(rest: State, way: Way, now: float) -> tuple[float, str]:
    option, world = way.option, rest.problem.world_size
    label = f"  {option.sharding_type.value:17} {option.compute_kernel.value:18}"
    ranks = ranks_for(rest, way, now)
    if ranks is None:
        return float("inf"), f"{label} does not fit: {_gib(option)} GiB in all"
    trial = rest.copied()
    trial.put(trial.chosen.index(None), way, ranks)
    after = trial.bottleneck
    change = "as long" if abs(after - now) <= 1e-9 * now else f"{100 * (after / now - 1):+.1f} %"
    placed = option.on([int(rank) for rank in ranks])
    return after, f"{label} {after:9.4g} ms, {change}, on {_on(placed, world)}, {_gib(option)} GiB"


def _on(option: ShardingOption, world_size: int) -> str:
    ranks = shown_ranks(option, world_size)
    return "all ranks" if ranks == "all" else f"rank {ranks}" if ranks.isdigit() else f"ranks {ranks}"


def _gib(option: ShardingOption) -> str:
    storage = option.total_storage
    return f"{(storage.hbm + storage.ddr + storage.ssd) / GIB:.4g}"
