"""The search finds the best plan of small problems, and is never worse than TorchRec on its own options and costs."""

import itertools
import random
import time

import pytest

from planning import (
    RECORDED,
    best_by_trying_all,
    fits,
    options_of,
    room_of,
    small_problem,
)
from rushlight.recsys.configs import EmbeddingBagConfig
from rushlight.recsys.planner import (
    DynamicProgrammingProposer,
    EmbeddingEnumerator,
    EmbeddingShardingPlanner,
    GreedyPerfPartitioner,
    GreedyProposer,
    GridSearchProposer,
    MemoryBalancedPartitioner,
    ParameterConstraints,
    SearchSettings,
    SortBy,
    Topology,
    UniformProposer,
)
from rushlight.recsys.planner.partitioners import rank_storages, rate
from rushlight.recsys.planner.proposers import by_table
from rushlight.recsys.planner.search import search

SMALL = [(tables, seed, tight) for tables in (1, 2, 3, 4, 5, 6) for seed in (1, 2, 3) for tight in (False, True)]


@pytest.mark.row("9.2")
@pytest.mark.parametrize(("tables", "seed", "tight"), SMALL)
def test_the_search_is_at_the_optimum_of_small_problems(tables: int, seed: int, tight: bool):
    options, topology = small_problem(seed, tables, tight)
    optimum = best_by_trying_all(options, topology)
    found = search(options, topology, milp_nodes=0)
    if optimum is None:
        assert found is None
        return
    assert found is not None and found.proven and fits(found.plan, topology)
    assert rate(found.plan, 2) == pytest.approx(optimum, rel=1e-9)
    assert found.lower_bound <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_without_branch_and_bound_the_search_stays_near(seed: int):
    options, topology = small_problem(seed, 5, True)
    optimum = best_by_trying_all(options, topology)
    found = search(options, topology, nodes=0, milp_nodes=0)
    assert optimum is not None and found is not None and fits(found.plan, topology)
    assert optimum * (1 - 1e-9) <= rate(found.plan, 2) <= optimum * 1.05


@pytest.mark.row("9.2")
@pytest.mark.parametrize("name", list(RECORDED))
def test_the_bottleneck_is_never_worse_than_torchrecs(name: str):
    case = RECORDED[name]
    options = options_of(case)
    have = {(option.name, option.sharding_type.value, option.compute_kernel.value): option for option in options}
    assert len(have) == len(case["options"])
    for table, kind, kernel, count, longest, total, hbm, hbm_total, ddr, ddr_total in case["options"]:
        option = have[table, kind, kernel]
        assert (option.longest_perf, option.total_perf) == pytest.approx((longest, total), rel=1e-9)
        assert option.num_shards == count
        assert (option.total_storage.hbm, option.total_storage.ddr) == (hbm_total, ddr_total)
        assert max(each.hbm for each in option.storages) == hbm
        assert max(each.ddr for each in option.storages) == ddr
    room = room_of(case)
    found = search(options, room)
    assert found is not None and fits(found.plan, room)
    ours = rate(found.plan, room.world_size)
    assert found.lower_bound <= ours * (1 + 1e-12)
    better = {"dlrm-26x8": 1.1, "random-100x16": 1.1, "random-100x64": 1.1}.get(name, 1 - 1e-9)
    assert case["bottleneck"] >= better * ours


@pytest.mark.slow
def test_a_thousand_tables_on_128_ranks_take_seconds():
    draw = random.Random(5)
    tables = [
        EmbeddingBagConfig(
            num_embeddings=int(10 ** draw.uniform(4, 7.5)), embedding_dim=draw.choice([32, 64, 128, 256]), name=f"t{at}"
        )
        for at in range(1000)
    ]
    constraints = {table.name: ParameterConstraints(pooling_factors=[100 ** draw.random()]) for table in tables}
    planner = EmbeddingShardingPlanner(Topology(128, "cuda", local_world_size=8), 512, constraints=constraints)
    started = time.process_time()
    plan = planner.plan(tables)
    assert time.process_time() - started < 10
    plan.check(tables)
    assert plan.bottleneck_ms <= 1.03 * plan.lower_bound_ms


@pytest.mark.row("9.2")
@pytest.mark.parametrize("seed", range(8))
def test_dynamic_programming_is_within_its_discretisation(seed: int):
    options, topology = small_problem(seed, 5, False)
    tables = list(by_table(options).values())
    least = sum(min(option.total_storage.hbm for option in each) for each in tables)
    most = sum(max(option.total_storage.hbm for option in each) for each in tables)
    topology = topology.replaced(hbm_cap=(least + most) // 4)
    bins = 50
    proposer = DynamicProgrammingProposer(hbm_bins_per_device=bins)
    proposer.load(options)
    proposer.feedback(partitionable=True, topology=topology)
    proposed = []
    while proposal := proposer.propose():
        proposed.append(proposal)
        proposer.feedback(partitionable=True, topology=topology)
    memory = [sum(option.total_storage.hbm for option in proposal) for proposal in proposed]
    assert len(proposed) > 1 and memory == sorted(memory, reverse=True)
    total = sum(cap.hbm for cap in topology.caps)
    best = min(sum(option.total_perf for option in proposal) for proposal in proposed)
    assert max(memory) <= total
    # In each bin the cheapest state stays, whose memory is less than a bin away: one bin for each table.
    slack = total / (bins * topology.world_size) * len(tables)
    assert least_total(tables, total) * (1 - 1e-12) <= best <= least_total(tables, total - slack) * (1 + 1e-12)


def least_total(tables, memory: float) -> float:
    states = {(0.0, 0)}
    for options in tables:
        states = {
            (time + option.total_perf, used + option.total_storage.hbm)
            for time, used in states
            for option in options
            if used + option.total_storage.hbm <= memory
        }
    return min((time for time, _ in states), default=float("inf"))


@pytest.mark.row("9.2")
@pytest.mark.parametrize("name", ["small-4", "small-10", "small-27", "dlrm-26x8"])
def test_memory_balanced_plans_use_less_memory_and_little_more_time(name: str):
    case = RECORDED[name]
    options, room = options_of(case), room_of(case)
    room = room.replaced(hbm_cap=64 * 2**30)
    whole = [option for option in options if option.sharding_type.value == "table_wise"]
    (proposal, *_) = proposals(UniformProposer(), whole, 1)
    greedy = GreedyPerfPartitioner(SortBy.PERF).partition(proposal, room)
    balanced = MemoryBalancedPartitioner().partition(proposal, room)
    world = room.world_size
    assert rate(balanced, world) <= 1.02 * rate(greedy, world)
    assert max(each.hbm for each in rank_storages(balanced, world)) <= max(
        each.hbm for each in rank_storages(greedy, world)
    )
    assert fits(balanced, room)


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_proposers_never_break_a_cap_and_the_search_is_never_worse(seed: int):
    options, topology = small_problem(seed, 4, True)
    proposers = [
        GridSearchProposer(),
        GreedyProposer(),
        GreedyProposer(use_depth=False),
        UniformProposer(),
        DynamicProgrammingProposer(),
    ]
    best = float("inf")
    for proposer in proposers:
        proposer.load(options)
        count = 0
        while proposal := proposer.propose():
            count += 1
            assert [option.fqn for option in proposal] != [] and len({each.fqn for each in proposal}) == 4
            try:
                plan = GreedyPerfPartitioner().partition(proposal, topology)
            except RuntimeError:
                proposer.feedback(False, None, topology)
                continue
            assert fits(plan, topology)
            best = min(best, rate(plan, 2))
            proposer.feedback(True, rate(plan, 2), topology)
        assert count >= 1
    found = search(options, topology, milp_nodes=0)
    assert found is not None and rate(found.plan, 2) <= best * (1 + 1e-12)


def proposals(proposer, options, limit: int):
    """The first proposals of a proposer that does not depend on what becomes of them."""

    def drawn():
        proposer.load(options)
        while proposal := proposer.propose():
            yield proposal
            proposer.feedback(partitionable=True)

    return list(itertools.islice(drawn(), limit))


def test_grid_search_stops_before_it_is_too_much():
    options, _ = small_problem(1, 6, False)
    assert len(proposals(GridSearchProposer(max_proposals=4**6), options, 10**6)) == 4**6
    assert proposals(GridSearchProposer(max_proposals=4**6 - 1), options, 1) == []


def test_the_same_input_gives_the_same_plan_and_given_plans_are_starting_points():
    case = RECORDED["dlrm-26x8"]
    options, room = options_of(case), room_of(case)
    first, second = search(options, room), search(options, room)
    assert first == second and first is not None
    again = search(options, room, effort=1, nodes=0, milp_nodes=0, starts=[first.plan])
    assert again is not None and rate(again.plan, 8) <= rate(first.plan, 8) * (1 + 1e-12)


def test_a_start_with_equal_loads_does_not_become_worse():
    """Of many equal loads one may rise while their norm falls: the longest one never does."""
    tables = [EmbeddingBagConfig(100_000, 64, f"t{at}") for at in range(6)]
    constraints = {
        f"t{at}": ParameterConstraints(["table_wise", "row_wise"], pooling_factors=[9.0 + at]) for at in range(6)
    }
    topology = Topology(8, "cuda")
    options = EmbeddingEnumerator(topology, 64, constraints).enumerate(tables)
    even = [option for option in options if option.partition_by.value == "uniform"]
    start = [choices[0].on(range(8)) for choices in by_table(even).values()]
    found = search(options, topology, nodes=0, milp_nodes=0, starts=[start])
    assert found is not None and rate(found.plan, 8) <= rate(start, 8)


def test_a_planner_of_proposals_alone_is_torchrecs_way():
    case = RECORDED["small-26"]
    constraints = {table["name"]: ParameterConstraints(pooling_factors=[table["pooling"]]) for table in case["tables"]}
    tables = [
        EmbeddingBagConfig(num_embeddings=table["rows"], embedding_dim=table["columns"], name=table["name"])
        for table in case["tables"]
    ]
    classic = [GridSearchProposer(), GreedyProposer(), GreedyProposer(use_depth=False), UniformProposer()]
    arguments = {"constraints": constraints, "proposers": classic}
    topology = Topology(**case["topology"])
    proposed = EmbeddingShardingPlanner(topology, case["batch_size"], search=None, **arguments).plan(tables)
    assert proposed.bottleneck_ms == pytest.approx(case["bottleneck"], rel=1e-9)
    searched = EmbeddingShardingPlanner(
        topology, case["batch_size"], search=SearchSettings(effort=1, nodes=0, milp_nodes=0), **arguments
    ).plan(tables)
    assert searched.bottleneck_ms <= proposed.bottleneck_ms


@pytest.mark.parametrize("seed", [2, 11, 24, 31])
def test_where_memory_is_scarce_the_search_is_no_worse_than_proposals(seed: int):
    """Memory that suffices for all ranks together may not divide well."""
    draw = random.Random(seed)
    count, (world, local) = draw.choice([5, 12, 25]), draw.choice([(2, 2), (4, 2), (8, 4), (8, 8)])
    device = draw.choice(["cuda", "cpu"])
    tables = [
        EmbeddingBagConfig(int(10 ** draw.uniform(3, 7)), draw.choice([16, 32, 64, 128, 256]), f"t{at}")
        for at in range(count)
    ]
    whole = sum(table.num_embeddings * table.embedding_dim * 4 for table in tables)
    cap = int(whole / world / draw.uniform(0.7, 1.02)) + sum(40 * 64 * 16 + 256 * each.embedding_dim for each in tables)
    kinds = draw.choice([None, ["table_wise"], ["table_wise", "column_wise"], ["table_wise", "table_row_wise"]])
    constraints = {
        table.name: ParameterConstraints(sharding_types=kinds, pooling_factors=[draw.uniform(1, 40)])
        for table in tables
    }
    memory = {"hbm_cap" if device == "cuda" else "ddr_cap": cap}
    topology = Topology(world, device, local_world_size=local, **memory)
    options = EmbeddingEnumerator(topology, 64, constraints).enumerate(tables)
    best = float("inf")
    for proposal in proposals(GreedyProposer(), options, 40) + proposals(UniformProposer(), options, 40):
        try:
            best = min(best, rate(GreedyPerfPartitioner().partition(proposal, topology), world))
        except RuntimeError:
            continue
    found = search(options, topology, milp_nodes=0)
    if found is None:
        assert best == float("inf")
        return
    assert fits(found.plan, topology) and rate(found.plan, world) <= best * (1 + 1e-9)
