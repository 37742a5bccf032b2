"""Statistics are the same bytes each time, add up, and say why a table is where it is."""

from xml.etree import ElementTree

import pytest

from planning import RECORDED, constraints_of, tables_of
from rushlight.recsys.planner import (
    EmbeddingShardingPlanner,
    EmbeddingStats,
    Plan,
    SearchSettings,
    Topology,
    explain,
)
from rushlight.recsys.planner.stats import rank_stats


@pytest.fixture(scope="module")
def plan() -> Plan:
    case = RECORDED["small-27"]
    search = SearchSettings(effort=500, nodes=0, milp_nodes=0)
    planner = EmbeddingShardingPlanner(
        Topology(**case["topology"]), case["batch_size"], constraints=constraints_of(case), search=search
    )
    return planner.plan(tables_of(case))


def test_figures_of_ranks_add_up(plan: Plan):
    ranks = rank_stats(plan)
    assert max(rank.perf.total for rank in ranks) == pytest.approx(plan.bottleneck_ms)
    assert sum(rank.used.hbm for rank in ranks) == sum(option.total_storage.hbm for option in plan.options)
    assert sum(count for rank in ranks for _, count in rank.shards) == sum(each.num_shards for each in plan.options)


@pytest.mark.row("9.2")
def test_statistics_are_the_same_bytes(plan: Plan):
    figures, again = EmbeddingStats(plan), EmbeddingStats(Plan.parse(plan.text()))
    assert figures.text() == again.text() and figures.svg() == again.svg()
    text = figures.text()
    assert all(option.fqn in text for option in plan.options)
    assert text.count("\n| ") >= plan.topology.world_size + len(plan.options)


def test_the_picture_has_a_bar_for_each_part_of_each_rank(plan: Plan):
    root = ElementTree.fromstring(EmbeddingStats(plan).svg())
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if len(each)]
    world = plan.topology.world_size
    assert len(bars) == world * 5 + world * 2 + 5
    heights = [float(each.get("height")) for each in bars[: world * 5]]
    totals = [sum(heights[rank * 5 : rank * 5 + 5]) for rank in range(world)]
    assert max(totals) == pytest.approx(220, abs=0.1)


def test_names_are_escaped_in_the_picture(plan: Plan):
    assert "<script" not in EmbeddingStats(plan).svg()


def test_the_reason_of_a_place_names_all_other_ways(plan: Plan):
    option = max(plan.options, key=lambda option: option.total_perf)
    lines = explain(plan, option.fqn).splitlines()
    assert option.sharding_type.value in lines[0] and option.compute_kernel.value in lines[0]
    kinds = {line.split()[0] for line in lines[3:]}
    assert kinds >= {"data_parallel", "table_wise", "row_wise", "table_row_wise", "grid_shard"} - {
        option.sharding_type.value
    }
    times = [float(line.split()[2]) for line in lines[3:] if " ms, " in line]
    assert times == sorted(times)
    with pytest.raises(ValueError, match="no table 'nothing'"):
        explain(plan, "nothing")
