"""Memory that is left over goes to caches, and never beyond it."""

import pytest

from rushlight.recsys.configs import EmbeddingBagConfig
from rushlight.recsys.planner import (
    CacheParams,
    EmbeddingComputeKernel,
    EmbeddingOffloadScaleupProposer,
    EmbeddingShardingPlanner,
    FixedAbsoluteStorageReservation,
    ParameterConstraints,
    Topology,
)


def planner(hbm: int) -> tuple[EmbeddingShardingPlanner, list[EmbeddingBagConfig]]:
    tables = [EmbeddingBagConfig(1_000_000, 64, f"t{number}") for number in range(3)]
    caches = [(0.9, 20_000.0), (0.1, 20_000.0), (0.5, 1_000.0)]
    constraints = {
        table.name: ParameterConstraints(
            sharding_types=["table_wise"],
            compute_kernels=["fused_uvm_caching"],
            pooling_factors=[10.0],
            cache_params=CacheParams(0.05, False, cacheability, lookups, (8.0, 4.0, 2.0, 1.0, 1.0)),
        )
        for table, (cacheability, lookups) in zip(tables, caches, strict=True)
    }
    made = EmbeddingShardingPlanner(
        Topology(2, "cuda", hbm_cap=hbm),
        256,
        constraints=constraints,
        storage_reservation=FixedAbsoluteStorageReservation(0),
        proposers=[EmbeddingOffloadScaleupProposer()],
        search=None,
    )
    return made, tables


@pytest.mark.parametrize("hbm", [120 * 2**20, 250 * 2**20, 2**30])
def test_caches_grow_into_what_is_left(hbm: int):
    made, tables = planner(hbm)
    plan = made.plan(tables)
    plan.check(tables)
    factors = [option.table.cache.load_factor for option in plan.options]
    start = made.enumerator.enumerate(tables)
    assert plan.bottleneck_ms < sum(option.total_perf for option in start)
    assert sum(option.total_storage.hbm for option in plan.options) > sum(each.total_storage.hbm for each in start)
    cached = [factor for factor in factors if factor is not None]
    assert all(factor >= 0.05 for factor in cached)
    if factors[0] is not None and factors[2] is not None:
        assert factors[0] > factors[2]  # more lookups, and a cache serves more of them


def test_all_rows_fit_where_memory_is_plenty():
    made, tables = planner(8 * 2**30)
    plan = made.plan(tables)
    kernels = {option.compute_kernel for option in plan.options}
    assert EmbeddingComputeKernel.FUSED in kernels


def test_without_memory_there_is_one_proposal():
    made, tables = planner(8 * 2**30)
    options = made.enumerator.enumerate(tables)
    proposer = EmbeddingOffloadScaleupProposer()
    proposer.load(options)
    assert [option.fqn for option in proposer.propose() or ()] == ["t0", "t1", "t2"]
    proposer.feedback(partitionable=False)
    assert proposer.propose() is None
