"""Steps of divided tables, measured beside what the planner estimates of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import perf_counter

import numpy as np

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys.configs import EmbeddingBagConfig
from rushlight.recsys.distributed.model_parallel import DistributedModelParallel
from rushlight.recsys.modules import FusedEmbeddingBagCollection
from rushlight.recsys.optim import RowWiseAdagrad
from rushlight.recsys.planner import EmbeddingShardingPlanner, ParameterConstraints, Plan, Topology
from rushlight.recsys.sparse import KeyedJaggedTensor

KINDS = ("table_wise", "row_wise", "column_wise")
ROUNDS = 5


def configurations(count: int, topology: Topology, seed: int = 0) -> list[Plan]:
    """Return plans of tables of mixed sizes, each divided in one way."""
    draw = random.Random(seed)
    plans: list[Plan] = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        columns = (32, 64, 128)[number // len(KINDS) % 3]
        tables = [
            EmbeddingBagConfig(int(10 ** draw.uniform(3, 5)), columns, f"t{place}", feature_names=[f"f{place}"])
            for place in range(2)
        ]
        pooling = float(int(2 ** draw.uniform(0, 5)))
        use = ParameterConstraints(sharding_types=[kind], min_partition=columns // 2, pooling_factors=[pooling])
        batch = int(2 ** draw.uniform(6, 12))
        planner = EmbeddingShardingPlanner(topology, batch, constraints={table.name: use for table in tables})
        plans.append(planner.plan(tables))
    return plans


def step_ms(plan: Plan) -> float:
    """Return the time of a step, forward and backward, on this rank: the least of several rounds."""
    tables = [
        EmbeddingBagConfig(one.table.rows, one.table.columns, one.name, feature_names=one.table.features)
        for one in plan.options
    ]
    collection = FusedEmbeddingBagCollection(tables, RowWiseAdagrad, {"lr": 0.1}, device="meta")
    model = DistributedModelParallel(collection, plan=plan)
    generator = np.random.Generator(np.random.PCG64(dist.get_rank()))
    lengths = [round(one.table.pooling_factors[0]) for one in plan.options for _ in range(plan.batch_size)]
    ids = [
        generator.integers(0, one.table.rows, round(one.table.pooling_factors[0]) * plan.batch_size)
        for one in plan.options
    ]
    keys = [table.feature_names[0] for table in tables]
    features = KeyedJaggedTensor(keys, rl.tensor(np.concatenate(ids)), lengths=rl.tensor(lengths))
    least = float("inf")
    for _ in range(ROUNDS):
        dist.barrier()
        start = perf_counter()
        pooled = model(features).values()
        pooled.backward(pooled.detach())
        dist.barrier()
        least = min(least, perf_counter() - start)
    return least * 1e3


def measured_steps(plans: Sequence[Plan], ranks: int) -> list[float]:
    """Return the time of a step of each plan on so many ranks of this machine, in ms."""
    found = dist.spawn(lambda: [step_ms(plan) for plan in plans], ranks)
    return [max(times) for times in zip(*found, strict=True)]
