"""Collections with maps of ids or processors before them, divided: the results of those that are not."""

import numpy as np
import pytest

import rushlight as rl
from managed_tables import batch, managed
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.recsys import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from rushlight.recsys import distributed as sharding
from rushlight.recsys.modules import FeatureProcessedEmbeddingBagCollection, PositionWeightedModuleCollection
from rushlight.recsys.planner import EmbeddingShardingPlanner, Topology
from sharded_tables import arrays

KINDS = ["table_wise", "row_wise", "column_wise", "data_parallel"]


def divided(module: rl.nn.Module, kind: str) -> sharding.DistributedModelParallel:
    world = dist.get_world_size()
    ways = {
        "table_wise": sharding.table_wise(world - 1),
        "row_wise": sharding.row_wise(),
        "column_wise": sharding.column_wise([0, world - 1]),
        "data_parallel": sharding.data_parallel(),
    }
    own = sharding.construct_module_sharding_plan(module, sharding.apply_to_all(module, ways[kind]), world_size=world)
    return sharding.DistributedModelParallel(module, plan=sharding.ShardingPlan({"": own}))


def part(features: KeyedJaggedTensor, first: int, end: int) -> KeyedJaggedTensor:
    rows = [row for own in features.to_dict().values() for row in own.to_dense()[first:end]]
    lengths = rl.tensor([len(row) for row in rows], dtype=rl.int64)
    return KeyedJaggedTensor(features.keys(), rl.cat(rows) if rows else features.values()[:0], lengths=lengths)


def bounds() -> tuple[int, int]:
    """This rank's examples: of one rank all, of two 3 and 1, of four 3, 1 and none."""
    ends = {1: [0, 4], 2: [0, 3, 4], 4: [0, 3, 4, 4, 4]}[dist.get_world_size()]
    return ends[dist.get_rank()], ends[dist.get_rank() + 1]


def stepped(model, steps, ranks: int, cut) -> list[tuple[np.ndarray, list[list[int]]]]:
    found = []
    for number in steps:
        pooled, rows = model(cut(batch(number)))
        (pooled.values().square().sum() / ranks).backward()
        own = [jagged.values().tolist() for jagged in rows.to_dict().values()]
        found.append((pooled.values().detach().numpy().copy(), own))
    return found


def managed_job(kind: str, buckets: int, folder: str | None, hashed: bool = False) -> tuple[list, dict[str, list]]:
    model = divided(managed(2, True, buckets, hashed=hashed), kind)
    first, end = bounds()
    if folder is not None:
        checkpoint.load({"model": model, "tables": model.fused_optimizer}, folder)
    found = stepped(model, range(4, 8) if folder else range(6), 1, lambda ids: part(ids, first, end))
    return found, {name: arrays(value) for name, value in model.state_dict().items()}


def saving_job(buckets: int, folder: str, hashed: bool) -> None:
    model = divided(managed(2, True, buckets, hashed=hashed), "row_wise")
    first, end = bounds()
    stepped(model, range(4), 1, lambda ids: part(ids, first, end))
    checkpoint.save({"model": model, "tables": model.fused_optimizer}, folder)


@pytest.mark.generated("kind")
@pytest.mark.row("9.3")
@pytest.mark.parametrize(
    ("world", "buckets", "hashed"),
    [(1, 3, False), (2, 1, False), (2, 3, False), (4, 3, False), (1, 2, True), (2, 2, True), (4, 2, True)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_maps_and_rows_are_those_of_one_process(kind: str, world: int, buckets: int, hashed: bool):
    found = dist.spawn(managed_job, world, (kind, buckets, None, hashed))
    alone = managed(2, True, buckets, hashed=hashed)
    expected = stepped(alone, range(6), world, lambda ids: ids)
    for step, (pooled, rows) in enumerate(expected):
        got = np.concatenate([one[step][0] for one, _ in found])
        exact = kind in ("table_wise", "data_parallel")
        np.testing.assert_allclose(got, pooled, rtol=0, atol=0 if exact else 1e-6)
        assert [[row for one, _ in found for row in one[step][1][key]] for key in range(3)] == rows
    for name, value in alone.state_dict().items():
        if "_mch_" in name or "_identities" in name:
            whole = np.zeros(value.shape, np.int64)
            for _, state in found:
                for (own, *_), values in state[name]:
                    whole[slice(*own)] = values
            np.testing.assert_array_equal(whole, value.numpy())


def test_maps_that_two_ranks_save_one_loads(tmp_path):
    for buckets, hashed in ((1, False), (3, False), (2, True)):
        folder = str(tmp_path / str(buckets))
        dist.spawn(saving_job, 2, (buckets, folder, hashed))
        ((found, _),) = dist.spawn(managed_job, 1, ("table_wise", buckets, folder, hashed))
        alone = managed(2, True, buckets, hashed=hashed)
        stepped(alone, range(4), 2, lambda ids: ids)
        expected = stepped(alone, range(4, 8), 1, lambda ids: ids)
        assert [rows for _, rows in found] == [rows for _, rows in expected]
        for (got, _), (wanted, _) in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-5)


def weighed() -> tuple[FeatureProcessedEmbeddingBagCollection, KeyedJaggedTensor]:
    rl.manual_seed(0)
    tables = [
        EmbeddingBagConfig(9, 4, "t", feature_names=["a", "b"]),
        EmbeddingBagConfig(5, 4, "u", feature_names=["c"]),
    ]
    processors = PositionWeightedModuleCollection({"a": 4, "c": 5})
    with rl.no_grad():
        for weight in processors.parameters():
            weight.copy_(rl.arange(weight.shape[0]) * 0.5 - 1)
    ids = batch(1)
    model = FeatureProcessedEmbeddingBagCollection(EmbeddingBagCollection(tables, is_weighted=True), processors)
    return model, ids.with_values(ids.values() % 5)


def weighed_job(kind: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    module, ids = weighed()
    pooled = divided(module, kind)
    found = pooled(part(ids, *bounds())).values()
    found.square().sum().backward()
    gradients = {name: one.grad.numpy().copy() for name, one in module._feature_processors.named_parameters()}
    return found.detach().numpy().copy(), gradients


@pytest.mark.row("9.3")
@pytest.mark.parametrize("kind", KINDS)
def test_weights_by_position_and_their_gradients_are_those_of_one_process(kind: str):
    found = dist.spawn(weighed_job, 2, (kind,))
    module, ids = weighed()
    pooled = module(ids).values()
    (pooled.square().sum() / 2).backward()
    np.testing.assert_allclose(np.concatenate([one for one, _ in found]), pooled.detach().numpy(), atol=1e-6)
    for name, weight in module._feature_processors.named_parameters():
        for _, gradients in found:
            np.testing.assert_allclose(gradients[name], weight.grad.numpy(), atol=1e-5)


def test_plans_name_the_tables_by_the_path_of_the_whole():
    class Model(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.sparse = managed()

    plan = EmbeddingShardingPlanner(Topology(2, "cpu")).plan(Model())
    assert sorted(sharding.ShardingPlan.of(plan).plan) == ["sparse"]
    assert sorted(sharding.ShardingPlan.of(plan).plan["sparse"]) == ["t", "u"]
