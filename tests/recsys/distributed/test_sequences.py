"""Rows of tables that are divided among ranks are those of one process, and so are steps, states and gradients."""

import importlib.util

import numpy as np
import pytest

from rushlight import distributed as dist
from rushlight.recsys import DataType
from rushlight.recsys import optim as rules
from sharded_tables import KINDS, sequence_job, sequences_alone, whole_of

pytestmark = pytest.mark.usefixtures("quick_code")
needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
ADAGRAD = (rules.RowWiseAdagrad, {"lr": 0.1})
DIVIDES_COLUMNS = ("column_wise", "table_column_wise", "grid_shard", "mixed", "unaligned")


def check(world: int, kind: str, rule, numbers, dtype=DataType.FP32, engine: str = "threads") -> None:
    """Bit for bit, but for rules that sum over the columns of rows that are divided by columns."""
    found = dist.spawn(sequence_job, world, (kind, rule, numbers, dtype), engine=engine)
    results, weights, states, _ = sequences_alone(world, rule, numbers, dtype)
    exact = kind not in DIVIDES_COLUMNS or rule is rules.SGD
    for step, expected in enumerate(results):
        for name, rows in expected.items():
            mine = np.concatenate([one[0][step][name] for one in found])
            np.testing.assert_allclose(mine, rows, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)
    for place, whole in ((1, weights), (2, states)):
        assert set(found[0][place]) == set(whole)
        for name, value in whole.items():
            array = value.float().numpy()
            boxes = [[(box, np.asarray(part, array.dtype)) for box, part in one[place][name]] for one in found]
            mine = whole_of(boxes, array.shape, array.dtype)
            np.testing.assert_allclose(mine, array, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)


@pytest.mark.generated
@pytest.mark.row("9.3")
@pytest.mark.parametrize(("kind", "world"), [(kind, (1, 2, 4)[place % 3]) for place, kind in enumerate(KINDS)])
def test_twenty_steps_of_sequences_are_those_of_one_process(kind: str, world: int):
    """Batches of 3, 0, 5 and 2 examples, rows without ids, batches without ids of a feature, ranks without tables."""
    check(world, kind, *ADAGRAD)


@pytest.mark.generated
@pytest.mark.parametrize("kind", ["row_wise", "unaligned"])
@pytest.mark.parametrize(
    "rule",
    [(rules.SGD, {"lr": 0.1}), (rules.LAMB, {"lr": 0.02}), (rules.SGD, {"lr": 0.1}, DataType.BF16)],
    ids=["sgd", "lamb", "tables of two dtypes"],
)
def test_rules_have_the_steps_of_whole_rows(rule: tuple, kind: str):
    check(4, kind, *rule)


@needs_mpi
@pytest.mark.parametrize("kind", ["row_wise", "mixed"])
def test_processes_step_as_threads_do(kind: str):
    check(2, kind, *ADAGRAD, engine="mpi")


@pytest.mark.generated
@pytest.mark.row("9.3")
@pytest.mark.parametrize("kind", KINDS)
def test_sequences_without_a_rule_have_the_gradients_of_one_process(kind: str):
    world, arguments = 4, (None, {}, DataType.FP32, 1)
    found = dist.spawn(sequence_job, world, (kind, *arguments))
    module = sequences_alone(world, *arguments)[3]
    for name, parameter in module.named_parameters():
        gradient = parameter.grad.numpy()
        mine = whole_of([one[3][name] for one in found], gradient.shape, gradient.dtype)
        np.testing.assert_allclose(mine, gradient, rtol=1e-5, atol=1e-6)
