"""Rows in fewer bits on their way, and batches whose ids are sent ahead."""

from collections import namedtuple

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys import KeyedJaggedTensor, PoolingType
from rushlight.recsys import distributed as sharding
from rushlight.recsys import optim as rules
from rushlight.recsys.distributed import CommType, QCommsConfig, TrainPipelineSparseDist
from rushlight.recsys.distributed.precision import decoded, encoded, encoded_counts
from rushlight.recsys.distributed.state import parts_of
from sharded_tables import SIZES, collection, features, plan_of, rows_of, sequences


def tables_of(model: sharding.DistributedModelParallel) -> list[rl.Tensor]:
    """What a rank has of the tables, and of other parameters."""
    return [part for value in model.state_dict().values() for _, part in parts_of(value)]


BITS = {CommType.FP16: 11, CommType.BF16: 8}


@pytest.mark.parametrize("kind", list(CommType), ids=lambda each: each.value)
@pytest.mark.parametrize("counts", [[0], [1, 0, 63], [64, 65, 200]], ids=str)
def test_numbers_come_back_within_the_bits_that_are_sent(kind: CommType, counts: list[int]):
    rng = np.random.default_rng(0)
    flat = (rng.standard_normal(sum(counts)) * 10.0 ** rng.integers(-2, 3, sum(counts))).astype(np.float32)
    sent = encoded(kind, rl.tensor(flat), counts)
    assert sent.shape[0] == sum(encoded_counts(kind, counts))
    found = decoded(kind, sent, counts).numpy()
    bound = np.abs(flat) * 2.0 ** -BITS.get(kind, 99)
    if kind is CommType.INT8:
        first = 0
        for count in counts:
            for low in range(first, first + count, 64):
                part = slice(low, min(low + 64, first + count))
                bound[part] = (flat[part].max() - flat[part].min()) / 510 * 1.001
            first += count
    assert (np.abs(found - flat) <= bound).all()


def test_float16_sends_its_largest_number_for_larger_ones():
    found = decoded(CommType.FP16, encoded(CommType.FP16, rl.tensor([1e6, -1e6]), [2]), [2])
    assert found.tolist() == [65504.0, -65504.0]


def step(qcomms: QCommsConfig | None, pooled: bool, kind: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Results of a rank, and its part of the tables after a step."""
    world, rank = dist.get_world_size(), dist.get_rank()
    rule = (rules.SGD, {"lr": 0.1})
    module = collection(*rule, PoolingType.SUM, weighted=False) if pooled else sequences(*rule)
    more = {} if qcomms is None else {"qcomms": qcomms}
    model = sharding.DistributedModelParallel(module, plan=plan_of(kind, module, world), **more)
    ends = np.cumsum([0, *SIZES[:world]])
    found = model(features(rows_of(0, ends[-1]), ends[rank], ends[rank + 1], weighted=False))
    parts = [found.values()] if pooled else [found[name].values() for name in sorted(found.keys())]
    results = [part.detach().numpy().copy() for part in parts]
    sum([part.sin().sum() for part in parts]).backward()
    return results, [weight.detach().numpy().copy() for weight in tables_of(model)]


@pytest.mark.row("9.3")
@pytest.mark.parametrize("kind", ["table_wise", "row_wise", "column_wise"])
@pytest.mark.parametrize("pooled", [True, False], ids=["pooled", "sequences"])
@pytest.mark.parametrize("comm", [CommType.FP16, CommType.BF16, CommType.INT8], ids=lambda each: each.value)
def test_exchanges_in_fewer_bits_are_near_exact_ones(comm: CommType, pooled: bool, kind: str):
    exact = dist.spawn(step, 4, (None, pooled, kind))
    found = dist.spawn(step, 4, (QCommsConfig(comm, comm), pooled, kind))
    differs = False
    for mine, expected in zip(found, exact, strict=True):
        for one, other in zip([*mine[0], *mine[1]], [*expected[0], *expected[1]], strict=True):
            np.testing.assert_allclose(one, other, atol=2e-2)
            differs |= not np.array_equal(one, other)
    assert differs


Batch = namedtuple("Batch", ["labels", "sparse"])


class Model(rl.nn.Module):
    def __init__(self):
        super().__init__()
        rl.manual_seed(0)
        self.sparse = collection(rules.RowWiseAdagrad, {"lr": 0.1}, PoolingType.SUM, weighted=False)
        self.top = rl.nn.Linear(36, 1)

    def forward(self, batch: Batch) -> tuple[rl.Tensor, rl.Tensor]:
        output = self.top(self.sparse(batch.sparse).values())
        return (output.sigmoid().squeeze(1) - batch.labels).square().sum(), output


def trained(pipelined: bool, kind: str) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Outputs of steps, tables after them, and how many batches were sent ahead."""
    world, rank = dist.get_world_size(), dist.get_rank()
    model = Model()
    plan = sharding.ShardingPlan({"sparse": plan_of(kind, model.sparse, world).plan[""]})
    model = sharding.DistributedModelParallel(model, plan=plan)
    optimizer = rl.optim.SGD([one for _, one in model.named_parameters() if one.requires_grad], lr=0.1)
    ends = np.cumsum([0, *SIZES[:world]])
    size = int(ends[rank + 1] - ends[rank])
    batches = [
        Batch(rl.full((size,), step % 2), features(rows_of(step, ends[-1]), ends[rank], ends[rank + 1], False))
        for step in range(6)
    ]
    ahead, outputs = 0, []
    if pipelined:
        pipeline, given = TrainPipelineSparseDist(model, optimizer), iter(batches)
        sharded = model.module.sparse
        begin = sharded.begin
        begun: list[KeyedJaggedTensor] = []
        sharded.begin = lambda ids: (begun.append(ids), begin(ids))[1]
        for step in range(6):
            outputs.append(pipeline.progress(given).detach().numpy().copy())
            ahead += len(begun) == min(step + 2, 6) and step > 0
        with pytest.raises(StopIteration):
            pipeline.progress(given)
    else:
        for batch in batches:
            optimizer.zero_grad()
            loss, output = model(batch)
            loss.backward()
            optimizer.step()
            outputs.append(output.detach().numpy().copy())
    return outputs, [weight.detach().numpy().copy() for weight in tables_of(model)], ahead


@pytest.mark.row("9.3")
@pytest.mark.parametrize("kind", ["table_wise", "row_wise", "mixed"])
def test_batches_sent_ahead_have_the_bits_of_steps_one_after_another(kind: str):
    """Also where a table is on all ranks, and steps between the sending of ids and their lookup."""
    plain, ahead = dist.spawn(trained, 2, (False, kind)), dist.spawn(trained, 2, (True, kind))
    for mine, expected in zip(ahead, plain, strict=True):
        for one, other in zip([*mine[0], *mine[1]], [*expected[0], *expected[1]], strict=True):
            np.testing.assert_array_equal(one, other)
        assert mine[2] == 5
