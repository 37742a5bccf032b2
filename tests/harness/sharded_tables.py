"""Collections of tables on several ranks beside the same collections on one: `job` runs on a rank, `alone` on none."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys import (
    DataType,
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    FusedEmbeddingBagCollection,
    FusedEmbeddingCollection,
    KeyedJaggedTensor,
    PoolingType,
)
from rushlight.recsys import distributed as sharding
from rushlight.recsys.configs import BaseEmbeddingConfig
from rushlight.recsys.distributed.state import parts_of

KEYS = {"d": 5, "a": 11, "b": 11, "c": 7, "e": 3}
SIZES = (3, 0, 5, 2)
KINDS = (
    "table_wise",
    "row_wise",
    "column_wise",
    "table_row_wise",
    "table_column_wise",
    "grid_shard",
    "data_parallel",
    "mixed",
    "unaligned",
)


def tables(pooling: PoolingType = PoolingType.MEAN) -> list[EmbeddingBagConfig]:
    """Tables of several shapes: one of two features, one of fewer rows than there are ranks."""
    return [
        EmbeddingBagConfig(11, 8, "t0", feature_names=["a", "b"]),
        EmbeddingBagConfig(7, 8, "t1", feature_names=["c"], pooling=pooling),
        EmbeddingBagConfig(5, 4, "t2", feature_names=["d"]),
        EmbeddingBagConfig(3, 8, "t3", feature_names=["e"]),
    ]


def rows_of(seed: int, size: int) -> dict[str, list[np.ndarray]]:
    """Ids of a batch of all ranks: empty rows, repeated ids, and in every third batch a feature without ids."""
    rng = np.random.default_rng(seed)
    rows = {key: [rng.integers(0, limit, rng.integers(0, 4)) for _ in range(size)] for key, limit in KEYS.items()}
    if seed % 3 == 2:
        rows["c"] = [row[:0] for row in rows["c"]]
    return rows


def features(rows: dict[str, list[np.ndarray]], first: int, end: int, weighted: bool) -> KeyedJaggedTensor:
    """Some examples of a batch. Weights are the same whoever has the example."""
    own = [row for key in KEYS for row in rows[key][first:end]]
    ids = np.concatenate([np.zeros(0, np.int64), *own])
    places = [(key, place) for key in KEYS for place in range(first, end)]
    scales = [np.cos(np.arange(len(row)) + place + ord(key)) for row, (key, place) in zip(own, places, strict=True)]
    weights = rl.tensor(np.concatenate([np.zeros(0), *scales]).astype(np.float32)) if weighted else None
    lengths = np.array([len(row) for row in own], np.int64)
    made = KeyedJaggedTensor(list(KEYS), rl.tensor(ids), weights, rl.tensor(lengths))
    if weighted:
        made.weights().requires_grad_()
    return made


def collection(
    rule: type | None, numbers: dict, pooling: PoolingType, weighted: bool, device: str | None = None
) -> EmbeddingBagCollection:
    rl.manual_seed(0)
    if rule is None:
        return EmbeddingBagCollection(tables(pooling), weighted, device)
    return FusedEmbeddingBagCollection(tables(pooling), rule, numbers, weighted, device)


def box(rows, columns, rank):
    offsets, sizes = (rows[0], columns[0]), (rows[1] - rows[0], columns[1] - columns[0])
    return sharding.ShardMetadata(offsets, sizes, rank)


def unaligned(table: BaseEmbeddingConfig, world: int) -> sharding.ParameterSharding:
    """Boxes whose rows are cut at other places in each half of the columns; some ranks have several."""
    rows, columns = table.shape
    half = columns // 2
    shards = [box((0, 2), (0, half), 0), box((2, rows), (0, half), (world - 1) // 2)]
    shards += [box((0, 1), (half, columns), world - 1), box((1, rows), (half, columns), 0)]
    return sharding.ParameterSharding("grid_shard", "fused", (0,), sharding.EnumerableShardingSpec(tuple(shards)))


def plan_of(kind: str, module: EmbeddingBagCollection | EmbeddingCollection, world: int) -> sharding.ShardingPlan:
    """A plan in which each table is divided in one way, or in `mixed` each in another one."""
    bags = isinstance(module, EmbeddingBagCollection)
    configs = module.embedding_bag_configs() if bags else module.embedding_configs()
    if kind == "unaligned":
        return sharding.ShardingPlan({"": {table.name: unaligned(table, world) for table in configs}})
    hosts = max(world // 2, 1)
    local = world // hosts
    columns = world if world < 4 else 2
    ways = {
        "table_wise": lambda place: sharding.table_wise(place % world),
        "row_wise": lambda place: sharding.row_wise(),
        "column_wise": lambda place: sharding.column_wise([(place + rank) % world for rank in range(world)]),
        "table_row_wise": lambda place: sharding.table_row_wise(place % hosts),
        "table_column_wise": lambda place: sharding.column_wise(list(range(columns))),
        "grid_shard": lambda place: sharding.grid_shard(list(range(hosts))),
        "data_parallel": lambda place: sharding.data_parallel(),
    }
    order = ["data_parallel", "row_wise", "column_wise", "table_wise"]
    chosen = {table.name: ways[order[place] if kind == "mixed" else kind](place) for place, table in enumerate(configs)}
    made = sharding.construct_module_sharding_plan(module, chosen, local_size=local, world_size=world)
    return sharding.ShardingPlan({"": made})


def loss_of(pooled: rl.Tensor, step: int) -> rl.Tensor:
    return (pooled * (1 + step % 3) + 0.1).sin().sum()


def job(kind: str, rule, numbers, pooling=PoolingType.MEAN, weighted=False, steps=20):
    """What a rank sees: results and gradients of weights of each step, tables and states as boxes, gradients."""
    world, rank = dist.get_world_size(), dist.get_rank()
    module = collection(rule, numbers, pooling, weighted)
    model = sharding.DistributedModelParallel(module, plan=plan_of(kind, module, world))
    ends = np.cumsum([0, *SIZES[:world]])
    results, passed = [], []
    for step in range(steps):
        own = features(rows_of(step, ends[-1]), ends[rank], ends[rank + 1], weighted)
        pooled = model(own).values()
        results.append(pooled.detach().numpy().copy())
        model.zero_grad()
        loss_of(pooled, step).backward()
        if weighted:
            passed.append(own.weights().grad.numpy().copy())
    return results, *parts_held(model, rule), passed


def parts_held(model: sharding.DistributedModelParallel, rule: type | None) -> tuple[dict, dict, dict]:
    """Tables and states as boxes, and without a rule the gradients of tables."""
    boxes = {name: arrays(value) for name, value in model.state_dict().items()}
    states = {
        name: arrays(value) for of in model.fused_optimizer.state_dict()["state"].values() for name, value in of.items()
    }
    gradients: dict[str, list] = {name: [] for name in boxes}
    if rule is None:
        for name, weight in model.named_parameters():
            table, _, first = name.partition("@")
            own = [place for place, _ in boxes[table] if not first or place[0][0] == int(first)]
            low = 0
            for place in own:
                width = place[1][1] - place[1][0]
                gradients[table].append((place, weight.grad.numpy()[:, low : low + width].copy()))
                low += width
    return boxes, states, gradients


def arrays(value: object) -> list[tuple[tuple, np.ndarray]]:
    return [(place, part.numpy().copy()) for place, part in parts_of(value)]


def alone(world: int, rule, numbers, pooling=PoolingType.MEAN, weighted=False, steps=20):
    """The same of one collection that has all tables and the batches of all ranks."""
    module = collection(rule, numbers, pooling, weighted)
    ends = np.cumsum([0, *SIZES[:world]])
    results, passed = [], []
    for step in range(steps):
        own = features(rows_of(step, ends[-1]), 0, ends[-1], weighted)
        pooled = module(own).values()
        results.append(pooled.detach().numpy().copy())
        module.zero_grad()
        (loss_of(pooled, step) / world).backward()
        passed += [own.weights().grad.numpy().copy()] if weighted else []
    states = {}
    if rule is not None:
        for name, value in module.fused_optimizer_state().items():
            states[name.split(".", 2)[2]] = value.numpy().copy()
    return results, {name: value.numpy().copy() for name, value in module.state_dict().items()}, states, module, passed


def whole_of(boxes_of_ranks: list[list], shape: tuple[int, ...], dtype) -> np.ndarray:
    """A tensor from the boxes of all ranks, each of whose elements some rank has; copies are equal."""
    whole, there = np.zeros(shape, dtype), np.zeros(shape, bool)
    for boxes in boxes_of_ranks:
        for place, values in boxes:
            part = tuple([slice(first, end) for first, end in place])
            assert not there[part].any() or np.array_equal(whole[part][there[part]], values[there[part]])
            whole[part], there[part] = values, True
    assert there.all()
    return whole


def sequences(rule: type | None, numbers: dict, dtype: DataType = DataType.FP32) -> EmbeddingCollection:
    """Tables that give rows: one of two features, one of fewer rows than there are ranks."""
    rl.manual_seed(0)
    configs = [
        EmbeddingConfig(11, 8, "t0", feature_names=["a", "b"]),
        EmbeddingConfig(7, 8, "t1", dtype, ["c"]),
        EmbeddingConfig(5, 8, "t2", feature_names=["d"]),
        EmbeddingConfig(3, 8, "t3", dtype, ["e"]),
    ]
    return EmbeddingCollection(configs) if rule is None else FusedEmbeddingCollection(configs, rule, numbers)


def rows_and_loss(found, step: int) -> tuple[dict[str, np.ndarray], rl.Tensor]:
    """The rows of each feature, and a loss of all of them."""
    values = {name: found[name].values().float() for name in sorted(KEYS)}
    return {name: one.detach().numpy().copy() for name, one in values.items()}, sum(
        [loss_of(one * (1 + place), step) for place, one in enumerate(values.values())]
    )


def sequence_job(kind: str, rule, numbers, dtype=DataType.FP32, steps=20):
    """What a rank sees of sequences: rows of each step, tables and states as boxes, gradients."""
    world, rank = dist.get_world_size(), dist.get_rank()
    module = sequences(rule, numbers, dtype)
    model = sharding.DistributedModelParallel(module, plan=plan_of(kind, module, world))
    ends = np.cumsum([0, *SIZES[:world]])
    results = []
    for step in range(steps):
        found = model(features(rows_of(step, ends[-1]), ends[rank], ends[rank + 1], weighted=False))
        rows, loss = rows_and_loss(found, step)
        results.append(rows)
        model.zero_grad()
        loss.backward()
    return results, *parts_held(model, rule)


def sequences_alone(world: int, rule, numbers, dtype=DataType.FP32, steps=20):
    """The same of one collection that has all tables and the batches of all ranks."""
    module = sequences(rule, numbers, dtype)
    ends = np.cumsum([0, *SIZES[:world]])
    results = []
    for step in range(steps):
        rows, loss = rows_and_loss(module(features(rows_of(step, ends[-1]), 0, ends[-1], weighted=False)), step)
        results.append(rows)
        module.zero_grad()
        (loss / world).backward()
    states = {}
    if rule is not None:
        states = {name.split(".", 2)[2]: value for name, value in module.fused_optimizer_state().items()}
    return results, module.state_dict(), states, module
