"""What does not fit is refused on every rank, with the line of the user's program."""

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from rushlight.recsys import distributed as sharding
from rushlight.recsys.planner import EmbeddingShardingPlanner, Topology
from sharded_tables import box


def collection() -> EmbeddingBagCollection:
    return EmbeddingBagCollection([EmbeddingBagConfig(10, 4, name, feature_names=[name]) for name in ("a", "b")])


def model(plan=None) -> sharding.DistributedModelParallel:
    module = collection()
    own = sharding.construct_module_sharding_plan(
        module, sharding.apply_to_all(module, sharding.row_wise()), world_size=dist.get_world_size()
    )
    return sharding.DistributedModelParallel(module, plan=plan or sharding.ShardingPlan({"": own}))


def ids(*values: int, keys: str = "ab") -> KeyedJaggedTensor:
    return KeyedJaggedTensor(list(keys), rl.tensor(values), lengths=rl.tensor([1] * len(values)))


def refused(job, code: str, match: str, world: int = 2) -> rl.RushlightError:
    with pytest.raises(rl.RushlightError, match=match) as caught:
        dist.spawn(job, world)
    assert caught.value.code == code
    assert "test_refusals.py" in str(caught.value)
    return caught.value


@pytest.mark.parametrize("bad", [-1, 10])
def test_an_id_beyond_its_table_on_one_rank_ends_the_step(bad: int):
    def job() -> None:
        model()(ids(3, bad if dist.get_rank() == 1 else 4)).values()

    assert "rank 1" in "".join(refused(job, "E006", "feature's table").__notes__)


def test_a_feature_that_is_missing_is_named():
    refused(lambda: model()(ids(3, keys="a")).values(), "E005", "missing")


def test_a_plan_for_other_tables_or_ranks_is_refused():
    other = EmbeddingBagCollection([EmbeddingBagConfig(10, 4, "c", feature_names=["a"])])
    for tables, world, match in ((other, 2, "lacks table"), (collection(), 3, "for 3 ranks")):
        plan = EmbeddingShardingPlanner(Topology(world, "cpu")).plan(tables)
        refused(lambda plan=plan: model(plan), "E024", match)


@pytest.mark.parametrize(
    ("boxes", "match"),
    {
        "a hole": ([((0, 4), (0, 4), 0), ((5, 10), (0, 4), 1)], "make up all of it once"),
        "columns twice": ([((0, 10), (0, 3), 0), ((0, 10), (2, 4), 1)], "make up all of it once"),
        "columns beyond": ([((0, 10), (0, 6), 0)], "make up all of it once"),
        "rows beyond": ([((0, 12), (0, 4), 0)], "rows that it has not"),
        "no such rank": ([((0, 10), (0, 4), 7)], "there are 2 ranks"),
    }.values(),
    ids=["hole", "twice", "columns-beyond", "rows-beyond", "rank"],
)
def test_boxes_that_do_not_make_up_a_table_are_refused(boxes, match: str):
    shards = tuple([box(*one) for one in boxes])
    own = sharding.ParameterSharding("row_wise", "fused", (0, 1), sharding.EnumerableShardingSpec(shards))
    refused(lambda: model(sharding.ShardingPlan({"": {"a": own, "b": own}})), "E024", match)


def test_ranks_with_other_plans_are_told():
    """One rank's tables are divided by rows, the other's by tables: what they send does not match."""

    def job() -> None:
        module = collection()
        way = sharding.row_wise() if dist.get_rank() else sharding.table_wise(0)
        own = sharding.construct_module_sharding_plan(module, sharding.apply_to_all(module, way), world_size=2)
        sharding.ShardedEmbeddingBagCollection(module, own, dist.group.WORLD)(ids(3, 4)).values()

    with pytest.raises(rl.RushlightError) as caught:
        dist.spawn(job, 2)
    assert caught.value.code == "W002"


def test_a_rank_that_is_lost_in_a_step_is_named():
    def job() -> None:
        divided = model()
        if dist.get_rank() == 0:
            divided(ids(3, 4)).values()

    with pytest.raises(rl.RushlightError, match="rank 1") as caught:
        dist.spawn(job, 2)
    assert caught.value.code == "W004" and "test_refusals.py" in str(caught.value)
