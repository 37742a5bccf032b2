"""Quantised tables that are divided among ranks give the bits of those that are not."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.recsys import DataType, PoolingType
from rushlight.recsys.distributed import ShardedQuantEmbeddingBagCollection
from rushlight.recsys.quant import QuantEmbeddingBagCollection
from sharded_tables import SIZES, collection, features, plan_of, rows_of

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
