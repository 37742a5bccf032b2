"""Tables that are divided among ranks give what those of one process give: results, steps, states, gradients."""

import importlib.util

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys import DataType, EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType
from rushlight.recsys import distributed as sharding
from rushlight.recsys import optim as rules
from sharded_tables import KEYS, KINDS, SIZES, alone, features, job, rows_of, whole_of

needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
IN_ORDER = ("table_wise", "data_parallel")
"""Ways in which all sums keep their order."""
RULES = {
    "sgd": (rules.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "adagrad": (rules.Adagrad, {"lr": 0.1}),
    "rowwise_adagrad": (rules.RowWiseAdagrad, {"lr": 0.1}),
    "adam": (rules.Adam, {"lr": 0.02, "weight_decay": 0.01}),
    "rowwise_adam": (rules.PartialRowWiseAdam, {"lr": 0.02}),
    "lamb": (rules.LAMB, {"lr": 0.02, "weight_decay": 0.01}),
}


def same(one: np.ndarray, other: np.ndarray, bitwise: bool, scale: float = 1e-6) -> None:
    if bitwise:
        np.testing.assert_array_equal(one, other)
    else:
        np.testing.assert_allclose(one, other, rtol=scale * 10, atol=scale)


def of_all_ranks(results: list[list[np.ndarray]]) -> list[np.ndarray]:
    return [np.concatenate([of_rank[step] for of_rank in results]) for step in range(len(results[0]))]


def check(world: int, *arguments, bitwise: bool, engine: str = "threads") -> None:
    found = dist.spawn(job, world, arguments, engine=engine)
    results, weights, states, *_ = alone(world, *arguments[1:])
    for step, mine in enumerate(of_all_ranks([one[0] for one in found])):
        assert mine.shape == (sum(SIZES[:world]), 36)
        same(mine, results[step], bitwise)
    for place, expected in ((1, weights), (2, states)):
        assert set(found[0][place]) == set(expected)
        for name, value in expected.items():
            same(whole_of([one[place][name] for one in found], value.shape, value.dtype), value, bitwise)


@pytest.mark.generated("kind")
@pytest.mark.row("9.3")
@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_steps_are_those_of_one_process(kind: str, world: int):
    """Batches of 3, 0, 5 and 2 examples, rows without ids, batches without ids of a feature, ranks without tables."""
    in_order = kind in IN_ORDER or (world == 1 and kind != "unaligned")
    check(world, kind, *RULES["rowwise_adagrad"], PoolingType.SUM, bitwise=in_order)


@pytest.mark.generated("rule")
@pytest.mark.row("9.3")
@pytest.mark.parametrize("kind", ["row_wise", "column_wise", "grid_shard", "unaligned"])
@pytest.mark.parametrize("rule", list(RULES))
def test_every_rule_has_the_steps_and_states_of_whole_rows(rule: str, kind: str):
    check(4, kind, *RULES[rule], PoolingType.MEAN, bitwise=False)


@pytest.mark.generated
@needs_mpi
@pytest.mark.parametrize("kind", KINDS)
def test_processes_step_as_threads_do(kind: str):
    check(2, kind, *RULES["adam"], PoolingType.SUM, bitwise=kind in IN_ORDER, engine="mpi")


@pytest.mark.row("9.3")
@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_ids_go_along_and_their_gradients_come_back(kind: str):
    """The step is that of the mean of the ranks' losses; the weights of a rank's ids have the gradient of its own."""
    world, arguments = 4, (*RULES["adagrad"], PoolingType.SUM, True, 3)
    found = dist.spawn(job, world, (kind, *arguments))
    results, *_, passed = alone(world, *arguments)
    for step, mine in enumerate(of_all_ranks([one[0] for one in found])):
        same(mine, results[step], bitwise=False)
        ends = np.cumsum([0, *SIZES])
        lengths = features(rows_of(step, ends[-1]), 0, ends[-1], weighted=False).lengths().numpy()
        owner = np.repeat(np.tile(np.repeat(np.arange(world), SIZES), len(KEYS)), lengths)
        for rank, one in enumerate(found):
            same(one[4][step], passed[step][owner == rank] * world, bitwise=False)


@pytest.mark.generated
@pytest.mark.row("9.3")
@pytest.mark.parametrize("kind", KINDS)
def test_tables_without_a_rule_have_the_gradients_of_one_process(kind: str):
    world, arguments = 4, (None, {}, PoolingType.MEAN, False, 1)
    found = dist.spawn(job, world, (kind, *arguments))
    module = alone(world, *arguments)[3]
    for name, parameter in module.named_parameters():
        gradient = parameter.grad.numpy()
        same(whole_of([one[3][name] for one in found], gradient.shape, gradient.dtype), gradient, bitwise=False)


def of_two_dtypes(dtypes: tuple[DataType, DataType]) -> np.ndarray:
    """What two tables on two ranks give, and where no process group is, what they give on one."""
    rl.manual_seed(0)
    pairs = zip("ab", dtypes, strict=True)
    module = EmbeddingBagCollection([EmbeddingBagConfig(10, 4, name, dtype, [name]) for name, dtype in pairs])
    if dist.is_initialized():
        ways = {"a": sharding.table_wise(0), "b": sharding.table_wise(0 if dtypes[0] is dtypes[1] else 1)}
        own = sharding.construct_module_sharding_plan(module, ways, world_size=2)
        module = sharding.DistributedModelParallel(module, plan=sharding.ShardingPlan({"": own}))
    ids = KeyedJaggedTensor(["a", "b"], rl.tensor([1, 2, 3, 4]), lengths=rl.tensor([2, 0, 1, 1]))
    return module(ids).values().detach().float().numpy().copy()


@pytest.mark.parametrize("dtypes", [(DataType.FP32, DataType.BF16), (DataType.BF16, DataType.BF16)], ids=["two", "one"])
def test_ranks_whose_tables_have_other_dtypes_send_the_same_numbers(dtypes: tuple[DataType, DataType]):
    """Also where a rank has no table."""
    for found in dist.spawn(of_two_dtypes, 2, (dtypes,)):
        np.testing.assert_array_equal(found, of_two_dtypes(dtypes))
