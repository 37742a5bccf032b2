"""Problems that several tests of the planner ask about, and the best plan by trying all."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from rushlight.recsys.configs import EmbeddingBagConfig
from rushlight.recsys.planner import (
    EmbeddingEnumerator,
    FixedPercentageStorageReservation,
    ParameterConstraints,
    ShardingOption,
    Topology,
)
from rushlight.recsys.planner.partitioners import rank_storages
from rushlight.recsys.planner.proposers import by_table

RECORDED = {
    case["name"]: case
    for case in json.loads(
        gzip.decompress((Path(__file__).parent.parent / "recsys" / "planner" / "data" / "plans.json.gz").read_bytes())
    )
}


def tables_of(case: dict) -> list[EmbeddingBagConfig]:
    return [
        EmbeddingBagConfig(
            num_embeddings=table["rows"],
            embedding_dim=table["columns"],
            name=table["name"],
            feature_names=[f"f_{table['name']}"],
        )
        for table in case["tables"]
    ]


def constraints_of(case: dict) -> dict[str, ParameterConstraints]:
    return {table["name"]: ParameterConstraints(pooling_factors=[table["pooling"]]) for table in case["tables"]}


def options_of(case: dict) -> list[ShardingOption]:
    topology = Topology(**case["topology"])
    return EmbeddingEnumerator(topology, case["batch_size"], constraints_of(case)).enumerate(tables_of(case))


def room_of(case: dict) -> Topology:
    return FixedPercentageStorageReservation(case["reserve"]).reserve(Topology(**case["topology"]), [])


def small_problem(seed: int, tables: int, tight: bool) -> tuple[list[ShardingOption], Topology]:
    """Tables on two ranks with four options each; with `tight` memory some combinations do not fit."""
    draw = random.Random(seed)
    configs = [
        EmbeddingBagConfig(
            num_embeddings=int(10 ** draw.uniform(3, 6)), embedding_dim=draw.choice([32, 64, 256]), name=f"t{number}"
        )
        for number in range(tables)
    ]
    kinds = ["data_parallel", "table_wise", "column_wise", "row_wise"]
    constraints = {
        config.name: ParameterConstraints(
            sharding_types=kinds,
            compute_kernels=["dense", "fused"],
            pooling_factors=[draw.uniform(1, 60)],
            min_partition=128,
        )
        for config in configs
    }
    whole = sum(config.num_embeddings * config.embedding_dim * 4 for config in configs)
    cap = int(whole * draw.uniform(0.62, 0.8)) + 2**24 if tight else 32 * 2**30
    topology = Topology(2, "cuda", hbm_cap=cap)
    options = EmbeddingEnumerator(topology, 256, constraints).enumerate(configs)
    assert all(len(each) == 4 for each in by_table(options).values())
    return options, topology


def placements(option: ShardingOption, world_size: int) -> Iterator[ShardingOption]:
    """All ways to place an option whose shards go anywhere, or on all ranks."""
    if option.num_shards == world_size and option.sharding_type.value in ("data_parallel", "row_wise"):
        yield option.on(range(world_size))
    else:
        for ranks in product(range(world_size), repeat=option.num_shards):
            yield option.on(ranks)


def fits(plan: Sequence[ShardingOption], topology: Topology) -> bool:
    used = rank_storages(plan, topology.world_size)
    return all(each.fits_in(cap) for each, cap in zip(used, topology.caps, strict=True))


def best_by_trying_all(options: Sequence[ShardingOption], topology: Topology) -> float | None:
    """The least bottleneck of all placements; numbers of states are kept small by equal (loads, memory) pairs."""
    world = topology.world_size
    states: set[tuple[float, ...]] = {(0.0,) * (2 * world)}
    for choices in by_table(options).values():
        steps = set()
        for placed in [each for option in choices for each in placements(option, world)]:
            loads, memory = [0.0] * world, [0] * world
            for rank, perf, storage in zip(placed.ranks, placed.perfs, placed.storages, strict=True):
                loads[rank] += perf.total
                memory[rank] += storage.hbm
            steps.add((*loads, *memory))
        reached = {tuple(map(float.__add__, state, map(float, step))) for state in states for step in steps}
        caps = [cap.hbm for cap in topology.caps]
        states = {state for state in reached if all(map(float.__le__, state[world:], map(float, caps)))}
    return min((max(state[:world]) for state in states), default=None)
