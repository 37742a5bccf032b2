"""Quantised tables that are divided among ranks give the bits of those that are not."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.recsys import DataType, PoolingType
from rushlight.recsys import distributed as sharding
from rushlight.recsys.distributed import DistributedModelParallel, ShardedQuantEmbeddingBagCollection
from rushlight.recsys.inference import quantize_inference_model
from rushlight.recsys.quant import QuantEmbeddingBagCollection
from sharded_tables import KEYS, SIZES, collection, features, plan_of, rows_of, sequences

TYPES = [DataType.INT8, DataType.INT4, DataType.FP16]
KINDS = ["table_wise", "row_wise", "table_row_wise", "data_parallel"]


def job(kind: str, data_type: DataType) -> list[np.ndarray]:
    world, rank = dist.get_world_size(), dist.get_rank()
    plain = collection(None, {}, PoolingType.MEAN, False)
    plan = plan_of(kind, plain, world).plan[""]
    sharded = ShardedQuantEmbeddingBagCollection(
        QuantEmbeddingBagCollection.from_float(plain, data_type), plan, dist.group.WORLD
    )
    ends = np.cumsum([0, *SIZES[:world]])
    return [
        sharded(features(rows_of(step, ends[-1]), ends[rank], ends[rank + 1], weighted=False)).values().numpy().copy()
        for step in range(3)
    ]


@pytest.mark.generated("kind")
@pytest.mark.row("9.4")
@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data_type", TYPES, ids=lambda each: each.value)
def test_divided_tables_of_few_bits_have_the_bits_of_whole_ones(data_type: DataType, kind: str, world: int):
    found = dist.spawn(job, world, (kind, data_type))
    small = QuantEmbeddingBagCollection.from_float(collection(None, {}, PoolingType.MEAN, False), data_type)
    total = sum(SIZES[:world])
    for step in range(3):
        expected = small(features(rows_of(step, total), 0, total, weighted=False)).values().numpy()
        np.testing.assert_array_equal(np.concatenate([one[step] for one in found]), expected)


def test_columns_of_codes_are_not_divided():
    with pytest.raises(rl.RushlightError, match="not divided by columns") as caught:
        dist.spawn(job, 2, ("column_wise", DataType.INT8))
    assert caught.value.code == "E024"


class Served(rl.nn.Module):
    """A dense part, pooled rows and rows of sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = collection(None, {}, PoolingType.MEAN, False)
        self.rows = sequences(None, {})
        self.top = rl.nn.Linear(self.bags(features(rows_of(0, 1), 0, 1, False)).values().shape[1], 3)

    def forward(self, ids) -> tuple[rl.Tensor, list[rl.Tensor]]:
        found = self.rows(ids)
        return self.top(self.bags(ids).values()), [found[key].values() for key in KEYS]


def served_job(kind: str | None, data_type: DataType, folder: str | None) -> list[list[np.ndarray]]:
    """What ranks serve; with a folder of a state that was saved, not of the tables as they began."""
    world, rank = dist.get_world_size(), dist.get_rank()
    model = quantize_inference_model(Served(), data_type)
    plan = None
    if kind is not None:
        parts = {path: plan_of(kind, getattr(Served(), path), world).plan[""] for path in ("bags", "rows")}
        plan = sharding.ShardingPlan(parts)
    if folder is not None:
        for name, part in model.named_buffers():
            if "weight" in name:
                part.zero_()
    divided = DistributedModelParallel(model, plan=plan)
    if folder is not None:
        checkpoint.load({"model": divided}, folder)
    ends = np.cumsum([0, *SIZES[:world]])
    with rl.no_grad():
        pooled, rows = divided(features(rows_of(1, ends[-1]), ends[rank], ends[rank + 1], weighted=False))
    return [[pooled.numpy().copy()], [one.numpy().copy() for one in rows]]


@pytest.mark.row("9.4")
@pytest.mark.parametrize("data_type", TYPES, ids=lambda each: each.value)
@pytest.mark.parametrize("kind", ["table_wise", "row_wise", "data_parallel", None])
def test_models_of_few_bits_are_divided_and_loaded_with_the_bits_of_whole_ones(
    data_type: DataType, kind: str | None, tmp_path
):
    model = quantize_inference_model(Served(), data_type)
    total = sum(SIZES[:2])
    with rl.no_grad():
        pooled, rows = model(features(rows_of(1, total), 0, total, weighted=False))
    checkpoint.save({"model": model}, tmp_path / "saved")
    for folder in (None, str(tmp_path / "saved")):
        found = dist.spawn(served_job, 2, (kind, data_type, folder))
        np.testing.assert_array_equal(np.concatenate([one[0][0] for one in found]), pooled.numpy())
        for place, expected in enumerate(rows):
            np.testing.assert_array_equal(np.concatenate([one[1][place] for one in found]), expected.numpy())
