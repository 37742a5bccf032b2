"""Tables of few bits."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.recsys import DataType, EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType
from rushlight.recsys.quant import QuantEmbeddingBagCollection, quantize_rows

STEPS = {DataType.INT8: 255, DataType.INT4: 15}


def features() -> KeyedJaggedTensor:
    return KeyedJaggedTensor(["a", "b"], rl.tensor([3, 0, 3, 5, 1]), lengths=rl.tensor([2, 0, 1, 2]))


@pytest.mark.row("9.4")
@pytest.mark.parametrize("data_type", list(STEPS), ids=lambda each: each.value)
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_codes_are_within_half_a_scale(data_type: DataType, offset: float):
    rng = np.random.default_rng(0)
    table = (rng.standard_normal((200, 12)) * rng.gamma(1, 1, (200, 1)) + offset).astype(np.float32)
    table[3] = 7.5  # a row without a spread is itself
    found = quantize_rows(rl.tensor(table), data_type)
    rows = found.dense().numpy().astype(np.float64)
    low, high = table.min(1, keepdims=True).astype(np.float64), table.max(1, keepdims=True).astype(np.float64)
    rounding = np.spacing(np.abs(table).max(1, keepdims=True))  # of float32, in scale, product and sum
    assert (np.abs(rows - table) <= (high - low) / (2 * STEPS[data_type]) + 2 * rounding).all()
    np.testing.assert_array_equal(rows[3], table[3])
    assert found.codes.shape == (200, 12 * found.bits // 8)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("data_type", [*STEPS, DataType.FP16], ids=lambda each: each.value)
def test_lookups_are_those_of_the_dense_rows(data_type: DataType, compiled: bool):
    tables = [
        EmbeddingBagConfig(6, 4, "t", feature_names=["a"]),
        EmbeddingBagConfig(6, 8, "u", feature_names=["b"], pooling=PoolingType.MEAN),
    ]
    collection = EmbeddingBagCollection(tables)
    small = QuantEmbeddingBagCollection.from_float(collection, data_type)
    for table in tables:
        weight = collection.embedding_bags[table.name].weight
        rows = weight.half().float() if data_type is DataType.FP16 else quantize_rows(weight, data_type).dense()
        with rl.no_grad():
            weight.copy_(rows)
    found = (rl.compile(small) if compiled else small)(features())
    expected = collection(features())
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(
        found.values().numpy(), expected.values().detach().numpy(), atol=2e-3 if data_type is DataType.FP16 else 1e-6
    )


def test_odd_rows_have_no_four_bits():
    with pytest.raises(ValueError, match="even size"):
        quantize_rows(rl.ones(2, 3), DataType.INT4)
    with pytest.raises(ValueError, match="8 or 4 bits"):
        quantize_rows(rl.ones(2, 3), DataType.FP32)
