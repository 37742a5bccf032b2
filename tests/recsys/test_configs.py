"""Descriptions of tables."""

import math

import pytest

import rushlight as rl
from rushlight.recsys import DataType, EmbeddingBagConfig, EmbeddingConfig, PoolingType
from rushlight.recsys.configs import check_tables, data_type_of


def test_a_description_never_changes_and_can_be_a_key():
    table = EmbeddingBagConfig(10, 4, "t", feature_names=["f", "g"])
    assert table.feature_names == ("f", "g")
    assert table.shape == (10, 4)
    assert table.num_features() == 2
    assert table.pooling is PoolingType.SUM
    assert {table: 1}[EmbeddingBagConfig(10, 4, "t", feature_names=("f", "g"))] == 1
    with pytest.raises(AttributeError):
        table.name = "u"  # pyright: ignore[reportAttributeAccessIssue]


def test_rows_begin_within_the_inverse_root_of_their_number():
    table = EmbeddingConfig(num_embeddings=16, embedding_dim=4)
    assert table.get_weight_init_max() == 0.25
    assert table.get_weight_init_min() == -0.25
    table = EmbeddingConfig(num_embeddings=16, embedding_dim=4, weight_init_max=0.0, weight_init_min=-1.0)
    assert (table.get_weight_init_min(), table.get_weight_init_max()) == (-1.0, 0.0)


@pytest.mark.parametrize("data_type", list(DataType), ids=lambda each: each.value)
def test_rows_of_each_data_type_have_whole_bytes(data_type: DataType):
    assert data_type.row_bytes(5) == math.ceil(5 * data_type.bits / 8)
    if data_type.bits >= 8:
        assert data_type.dtype.itemsize * 8 == data_type.bits


def test_dtypes_have_names():
    assert data_type_of(rl.bfloat16) is DataType.BF16
    with pytest.raises(ValueError, match="complex64"):
        data_type_of(rl.complex64)


def test_tables_and_features_without_names_get_some():
    tables = check_tables([EmbeddingConfig(3, 4), EmbeddingConfig(3, 4, "user")])
    assert [(table.name, table.feature_names) for table in tables] == [("t0", ("t0",)), ("user", ("user",))]


@pytest.mark.parametrize("field", ["num_embeddings", "embedding_dim"])
@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_sizes_are_positive_integers(field: str, size: object):
    with pytest.raises(ValueError, match=field):
        EmbeddingConfig(**{"num_embeddings": 1, "embedding_dim": 1, field: size})  # pyright: ignore[reportArgumentType]


def test_a_feature_twice_is_refused():
    with pytest.raises(ValueError, match="feature twice"):
        check_tables([EmbeddingConfig(3, 4, "user", feature_names=["f", "f"])])
    with pytest.raises(ValueError, match="no list of names"):
        EmbeddingConfig(3, 4, "user", feature_names="abc")
