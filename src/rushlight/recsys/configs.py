"""Descriptions of embedding tables, by TorchRec's names: what planner, collections and serving all speak of.

A description never changes and holds no tensor. `check_tables` says whether a list of them can be one collection.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import TypeVar, dataclass_transform

from rushlight.ir.dtype import DType, bfloat16, float16, float32, int8, int32, int64, uint8
from rushlight.support.errors import require

__all__ = [
    "BaseEmbeddingConfig",
    "DataType",
    "EmbeddingBagConfig",
    "EmbeddingConfig",
    "PoolingType",
    "check_tables",
    "data_type_of",
    "repeated",
]

Record = TypeVar("Record")
Table = TypeVar("Table", bound="BaseEmbeddingConfig")


@dataclass_transform(frozen_default=True)
def _record(cls: type[Record]) -> type[Record]:
    """A dataclass whose generated `__init__` is the package's: errors show its caller's line."""
    made = dataclass(frozen=True)(cls)
    made.__init__.__code__ = made.__init__.__code__.replace(co_filename="<rushlight record>")
    return made


@unique
class PoolingType(Enum):
    """How the rows of one bag become one row: their sum, their mean, or not at all."""

    SUM = "SUM"
    MEAN = "MEAN"
    NONE = "NONE"


@unique
class DataType(Enum):
    """What a table's numbers are kept as. Those of less than 16 bits have a scale and an offset for each row."""

    FP32 = "FP32"
    FP16 = "FP16"
    BF16 = "BF16"
    INT64 = "INT64"
    INT32 = "INT32"
    INT8 = "INT8"
    UINT8 = "UINT8"
    INT4 = "INT4"
    INT2 = "INT2"

    @property
    def bits(self) -> int:
        """Bits of one number."""
        return _BITS[self]

    @property
    def dtype(self) -> DType:
        """The dtype of a tensor that holds such numbers; several of less than 8 bits share a byte."""
        return _DTYPES[self]

    def row_bytes(self, embedding_dim: int) -> int:
        """Bytes of one row of `embedding_dim` numbers, without the scale and offset of quantised rows."""
        return (embedding_dim * self.bits + 7) // 8


_BITS = {
    DataType.FP32: 32,
    DataType.FP16: 16,
    DataType.BF16: 16,
    DataType.INT64: 64,
    DataType.INT32: 32,
    DataType.INT8: 8,
    DataType.UINT8: 8,
    DataType.INT4: 4,
    DataType.INT2: 2,
}
_DTYPES = {
    DataType.FP32: float32,
    DataType.FP16: float16,
    DataType.BF16: bfloat16,
    DataType.INT64: int64,
    DataType.INT32: int32,
    DataType.INT8: int8,
    DataType.UINT8: uint8,
    DataType.INT4: uint8,
    DataType.INT2: uint8,
}
_OF_DTYPE = {
    float32: DataType.FP32,
    float16: DataType.FP16,
    bfloat16: DataType.BF16,
    int8: DataType.INT8,
    uint8: DataType.UINT8,
}


def data_type_of(dtype: DType) -> DataType:
    """Return the name that tables have for `dtype`."""
    require(dtype in _OF_DTYPE, "E001", f"a table does not hold numbers of {dtype}", dtype=dtype)
    return _OF_DTYPE[dtype]


@_record
class BaseEmbeddingConfig:
    """A table of `num_embeddings` rows of `embedding_dim` numbers, and the features that read it.

    Rows begin with uniform numbers between `weight_init_min` and `weight_init_max`, if these are None within
    1 / sqrt(num_embeddings) of 0, or as `init_fn` fills them. `input_dim` is the number of ids before they are hashed
    into rows.
    """

    num_embeddings: int
    embedding_dim: int
    name: str = ""
    data_type: DataType = DataType.FP32
    feature_names: Sequence[str] = ()
    weight_init_max: float | None = None
    weight_init_min: float | None = None
    num_embeddings_post_pruning: int | None = None
    init_fn: Callable[..., object] | None = None
    need_pos: bool = False
    input_dim: int | None = None

    def __post_init__(self) -> None:
        name = f"table {self.name!r}"
        for field in ("num_embeddings", "embedding_dim"):
            size: object = getattr(self, field)
            require(
                isinstance(size, int) and not isinstance(size, bool) and size >= 1,
                "E001",
                f"{name}: {field} is no positive integer",
                size=size,
            )
        require(
            not isinstance(self.feature_names, str) and all(isinstance(each, str) for each in self.feature_names),
            "E001",
            f"{name}: feature_names is no list of names",
            feature_names=self.feature_names,
        )
        object.__setattr__(self, "feature_names", tuple(self.feature_names))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and numbers in each."""
        return self.num_embeddings, self.embedding_dim

    def get_weight_init_max(self) -> float:
        """Return the largest number that a row begins with."""
        return math.sqrt(1 / self.num_embeddings) if self.weight_init_max is None else self.weight_init_max

    def get_weight_init_min(self) -> float:
        """Return the least number that a row begins with."""
        return -math.sqrt(1 / self.num_embeddings) if self.weight_init_min is None else self.weight_init_min

    def num_features(self) -> int:
        """Return how many features have ids of this table."""
        return len(self.feature_names)


@_record
class EmbeddingBagConfig(BaseEmbeddingConfig):
    """A table whose rows are pooled, bag by bag.

    EmbeddingBagConfig(name="user", num_embeddings=1000, embedding_dim=64, feature_names=["user_id"])
    """

    pooling: PoolingType = PoolingType.SUM


@_record
class EmbeddingConfig(BaseEmbeddingConfig):
    """A table whose rows are given as they are, a row for each id."""


def check_tables(tables: Iterable[Table]) -> tuple[Table, ...]:
    """Return the tables of a collection, with names (`t0`, `t1`, …) and features of those that gave none.

    A name that two tables have is an error, and so is a table twice in its own list of features. Several tables may
    share a feature: each then gives rows for it.
    """
    named = tuple(_named(table, f"t{position}") for position, table in enumerate(tables))
    twice = sorted(repeated([table.name for table in named]))
    require(not twice, "E002", "tables of a collection have one name", names=twice)
    for table in named:
        again = sorted(repeated(table.feature_names))
        require(not again, "E002", f"table {table.name!r} has a feature twice", features=again)
    return named


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once, each once, in the order in which they come first."""
    return [name for name, count in Counter(names).items() if count > 1]


def _named(table: Table, name: str) -> Table:
    named = table if table.name else replace(table, name=name)
    return named if named.feature_names else replace(named, feature_names=(named.name,))
