"""Sharders and optimizers in the backward pass divide a model as collections with an optimizer of their own do."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    FusedEmbeddingBagCollection,
    KeyedJaggedTensor,
)
from rushlight.recsys import distributed as sharding
from rushlight.recsys.datasets import RandomRecDataset
from rushlight.recsys.models import DLRM, DLRMTrain
from rushlight.recsys.optim import (
    CombinedOptimizer,
    EmbOptimType,
    KeyedOptimizerWrapper,
    RowWiseAdagrad,
    apply_optimizer_in_backward,
    in_backward_optimizer_filter,
)
from rushlight.recsys.planner import EmbeddingShardingPlanner, Topology
from rushlight.support.errors import RushlightError

KEYS = ["a", "b", "c"]
LR = 0.1


def tables() -> list[EmbeddingBagConfig]:
    return [EmbeddingBagConfig(20, 4, f"t_{key}", feature_names=[key]) for key in KEYS]


def trained(way: str, rates: tuple[float, ...]) -> tuple[np.ndarray, list[float]]:
    """The rows of this rank and the losses after a step at each learning rate."""
    rl.manual_seed(0)
    fused = way == "fused"
    collection = (
        FusedEmbeddingBagCollection(tables(), RowWiseAdagrad, {"lr": LR}) if fused else EmbeddingBagCollection(tables())
    )
    train = DLRMTrain(DLRM(collection, 5, [8, 4], [8, 1]))
    sharders = None
    if way == "in backward":
        apply_optimizer_in_backward(RowWiseAdagrad, train.model.sparse_arch.parameters(), {"lr": LR})
    elif way == "parameters":
        named = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": LR}
        sharders = [sharding.EmbeddingBagCollectionSharder(named)]
    planner = EmbeddingShardingPlanner(Topology(dist.get_world_size(), "cpu"))
    plan = planner.collective_plan(train, sharding.get_default_sharders())
    env = sharding.ShardingEnv.from_process_group(None)
    model = sharding.DistributedModelParallel(train, env, rl.device("cpu"), plan, sharders)
    dense = dict(in_backward_optimizer_filter(model.named_parameters()))
    assert not any("sparse_arch" in name for name in dense) and dense
    assert all("sparse_arch" in name for name in model.fused_optimizer.params)
    own = KeyedOptimizerWrapper(dense, lambda parameters: rl.optim.SGD(parameters, lr=LR))
    optimizer = CombinedOptimizer([model.fused_optimizer, own])
    batches = iter(RandomRecDataset(KEYS, 6, 20, ids_per_feature=2, num_dense=5, manual_seed=dist.get_rank()))
    pipeline = sharding.TrainPipelineSparseDist(model, optimizer, rl.device("cpu"), execute_all_batches=True)
    losses = []
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        losses.append(float(pipeline.progress(batches)[0]))
    rows = [shard.tensor for one in model.state_dict().values() for shard in getattr(one, "local_shards", list)()]
    return np.concatenate([row.detach().numpy().ravel() for row in rows] or [np.zeros(0)]), losses


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("way", ["in backward", "parameters"])
def test_every_way_to_name_an_optimizer_takes_the_same_steps(way: str, world: int):
    rates = (LR, LR, 0.5, 0.0)
    for (rows, losses), (expected, known) in zip(
        dist.spawn(trained, world, (way, rates)), dist.spawn(trained, world, ("fused", rates)), strict=True
    ):
        np.testing.assert_array_equal(rows, expected)
        assert losses == known


def test_the_learning_rate_of_groups_is_that_of_the_next_step():
    ((slow, _),) = dist.spawn(trained, 1, ("fused", (LR, 0.0)))
    ((once, _),) = dist.spawn(trained, 1, ("fused", (LR,)))
    ((fast, _),) = dist.spawn(trained, 1, ("fused", (LR, LR)))
    np.testing.assert_array_equal(slow, once)
    assert np.abs(fast - once).max() > 1e-4


class Both(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pooled = EmbeddingBagCollection(tables())
        self.rows = EmbeddingCollection([EmbeddingConfig(9, 4, "r", feature_names=["r"])])


def kinds_divided() -> tuple[str, str]:
    model = sharding.DistributedModelParallel(Both(), sharders=[sharding.EmbeddingBagCollectionSharder()])
    return type(model.module.pooled).__name__, type(model.module.rows).__name__


def test_collections_without_a_sharder_stay_whole():
    assert dist.spawn(kinds_divided, 2) == [("ShardedEmbeddingBagCollection", "EmbeddingCollection")] * 2


def evaluated() -> tuple[bool, bool]:
    model = DLRMTrain(DLRM(EmbeddingBagCollection(tables()), 5, [8, 4], [8, 1]))
    before = model.model.over_arch.model[1].weight.detach().clone()
    batches = iter(RandomRecDataset(KEYS, 6, 20, num_dense=5, num_batches=2))
    pipeline = sharding.TrainPipelineBase(model.eval(), rl.optim.SGD(model.parameters(), lr=1.0))
    pipeline.progress(batches)
    same = bool((model.model.over_arch.model[1].weight == before).all())
    model.train()
    pipeline.progress(batches)
    with pytest.raises(StopIteration):
        pipeline.progress(batches)
    return same, bool((model.model.over_arch.model[1].weight == before).all())


def test_a_model_in_evaluation_is_only_called():
    assert evaluated() == (True, False)


def test_unknown_optimizers_of_sharders_are_refused():
    with pytest.raises(RushlightError) as refused:
        sharding.EmbeddingBagCollectionSharder({"optimizer": "exact_sgd"}).rule()
    assert refused.value.code == "A002"


def replicated_steps(way: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Two steps of a table that each rank has, beside a divided one: rows of both, and what has no rule."""
    rl.manual_seed(0)
    collection = EmbeddingBagCollection(tables()[:2])
    sharders = None
    if way == "in backward":
        apply_optimizer_in_backward(RowWiseAdagrad, collection.parameters(), {"lr": LR})
    else:
        named = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": LR}
        sharders = [sharding.EmbeddingBagCollectionSharder(named)]
    ways = {"t_a": sharding.data_parallel(), "t_b": sharding.table_wise(0)}
    plan = sharding.construct_module_sharding_plan(collection, ways, world_size=dist.get_world_size())
    model = sharding.DistributedModelParallel(
        collection, plan=sharding.ShardingPlan({"": plan}), sharders=sharders, init_data_parallel=False
    )
    model.init_data_parallel()
    own = dict(in_backward_optimizer_filter(model.named_parameters()))
    assert set(own).isdisjoint(model.fused_optimizer.params)
    optimizer = KeyedOptimizerWrapper(own, lambda parameters: RowWiseAdagrad(parameters, lr=LR))
    for step in range(2):
        ids = rl.tensor([1, 2, 1, 5, 6, 7]) + dist.get_rank() * step
        optimizer.zero_grad()
        model(KeyedJaggedTensor(["a", "b"], ids, lengths=rl.tensor([2, 1, 0, 3]))).values().square().sum().backward()
        optimizer.step()
    state = model.state_dict()
    other = [shard.tensor.numpy() for shard in state["embedding_bags.t_b.weight"].local_shards()]
    return state["embedding_bags.t_a.weight"].numpy(), np.concatenate([np.zeros((0, 4)), *other]), list(own)


def fused_steps() -> tuple[np.ndarray, np.ndarray]:
    rl.manual_seed(0)
    collection = FusedEmbeddingBagCollection(tables()[:2], RowWiseAdagrad, {"lr": LR})
    rl.manual_seed(0)
    start = EmbeddingBagCollection(tables()[:2])
    collection.load_state_dict(start.state_dict())
    for step in range(2):
        ranks = [rl.tensor([1, 2, 1, 5, 6, 7]) + rank * step for rank in range(2)]
        ids = rl.cat([ranks[0][:3], ranks[1][:3], ranks[0][3:], ranks[1][3:]])
        pooled = collection(KeyedJaggedTensor(["a", "b"], ids, lengths=rl.tensor([2, 1, 2, 1, 0, 3, 0, 3])))
        (pooled.values().square().sum() / 2).backward()
    own = collection.state_dict()
    return tuple(own[f"embedding_bags.t_{key}.weight"].numpy() for key in "ab")


@pytest.mark.parametrize("way", ["in backward", "parameters"])
def test_replicated_tables_have_gradients_beside_others_that_step(way: str):
    replicated, divided = fused_steps()
    found = dist.spawn(replicated_steps, 2, (way,))
    for rows, _, own in found:
        assert own == ["embedding_bags.t_a.weight"]
        np.testing.assert_allclose(rows, replicated, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[0][1], divided, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found[0][0], found[1][0])
