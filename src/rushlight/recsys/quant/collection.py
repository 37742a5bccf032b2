"""Collections of tables for inference, of few bits: pooled lookups, and rows of sequences."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Module, ModuleDict
from rushlight.recsys.configs import BaseEmbeddingConfig, DataType, EmbeddingBagConfig, EmbeddingConfig, check_tables
from rushlight.recsys.modules import EmbeddingBagCollection, EmbeddingCollection
from rushlight.recsys.modules.tables import Slots, known_ids
from rushlight.recsys.quant.rows import QuantizedRows, TableRows, rows_of
from rushlight.recsys.quant.table import QuantTable
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import fail


class QuantTables(Module):
    """What quantised collections share: tables by name, and which of them each feature reads."""

    path = ""

    def __init__(self, tables: Sequence[BaseEmbeddingConfig], rows: Sequence[TableRows | QuantizedRows]) -> None:
        super().__init__()
        self._tables = check_tables(tables)
        self._slots = Slots(self._tables)
        self._limits = rl.tensor(self._slots.rows)
        held = ModuleDict()
        for table, part in zip(self._tables, rows, strict=True):
            held[table.name] = QuantTable(table, part.parts() if isinstance(part, QuantizedRows) else part)
        self.add_module(self.path, held)

    def configs(self) -> list[BaseEmbeddingConfig]:
        """Return the descriptions of the tables."""
        return list(self._tables)

    def table(self, name: str) -> QuantTable:
        """Return a table."""
        table = getattr(self, self.path)[name]
        assert isinstance(table, QuantTable)
        return table

    def tables(self) -> dict[str, TableRows]:
        """Return what tables are in memory, by name."""
        return {table.name: self.table(table.name).parts() for table in self._tables}

    def __repr__(self) -> str:
        lines = [f"  {table.name}: {list(table.shape)} {self.table(table.name).weight.dtype}" for table in self._tables]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


class QuantEmbeddingBagCollection(QuantTables):
    """An EmbeddingBagCollection for inference, whose tables have int8, int4 or float rows. Results are float32.

    small = QuantEmbeddingBagCollection.from_float(collection, DataType.INT8)
    """

    path = "embedding_bags"

    def __init__(
        self,
        tables: Sequence[EmbeddingBagConfig],
        rows: Sequence[TableRows | QuantizedRows],
        is_weighted: bool = False,
    ) -> None:
        super().__init__(tables, rows)
        self._is_weighted = is_weighted
        self._poolings = [table.pooling for table in tables]

    @staticmethod
    def from_float(
        collection: EmbeddingBagCollection, data_type: DataType = DataType.INT8
    ) -> QuantEmbeddingBagCollection:
        """Return the tables of a collection with rows of a smaller type."""
        rows = [rows_of(weight, data_type) for weight in collection.weights_of_tables()]
        return QuantEmbeddingBagCollection(collection.embedding_bag_configs(), rows, collection.is_weighted())

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Return the descriptions of the tables."""
        return [table for table in self._tables if isinstance(table, EmbeddingBagConfig)]

    def is_weighted(self) -> bool:
        """Return whether rows have weights."""
        return self._is_weighted

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Return the pooled rows by the names of features."""
        chosen = self._slots.chosen(features)
        ids, offsets, batch = known_ids(chosen, self._limits), chosen.offsets(), chosen.stride()
        weights = chosen.weights() if self._is_weighted else None
        pooled: list[Tensor] = []
        for slot, place in enumerate(self._slots.tables):
            ends = offsets[slot * batch : (slot + 1) * batch + 1]
            table = self.table(self._tables[place].name)
            pooled.append(table.pooled(ids, ends, weights, self._poolings[place]))
        return KeyedTensor(self._slots.names, self._slots.dims, rl.cat(pooled, 1))


class QuantEmbeddingCollection(QuantTables):
    """An EmbeddingCollection for inference: the row of each id, as float32.

    small = QuantEmbeddingCollection.from_float(collection, DataType.INT8)
    """

    path = "embeddings"

    def __init__(
        self,
        tables: Sequence[EmbeddingConfig],
        rows: Sequence[TableRows | QuantizedRows],
        need_indices: bool = False,
    ) -> None:
        super().__init__(tables, rows)
        self._need_indices = need_indices

    @staticmethod
    def from_float(collection: EmbeddingCollection, data_type: DataType = DataType.INT8) -> QuantEmbeddingCollection:
        """Return the tables of a collection with rows of a smaller type."""
        tables = collection.embedding_configs()
        rows = [rows_of(weight, data_type) for weight in collection.weights_of_tables()]
        return QuantEmbeddingCollection(tables, rows, collection.need_indices())

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """Return the descriptions of the tables."""
        return [table for table in self._tables if isinstance(table, EmbeddingConfig)]

    def need_indices(self) -> bool:
        """Return whether ids go along."""
        return self._need_indices

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Return the rows of each feature's ids."""
        chosen = self._slots.chosen(features)
        known_ids(chosen, self._limits)
        tables = [self.table(self._tables[place].name) for place in self._slots.tables]
        rows = [table.rows(own.values()) for table, own in zip(tables, chosen.to_dict().values(), strict=True)]
        return self._slots.by_name(chosen, rows, self._need_indices)


def quantized_collection(tables: Sequence[BaseEmbeddingConfig], rows: Sequence[TableRows]) -> QuantTables:
    """Return the collection of tables, which are all pooled or none. E001 for tables of both kinds."""
    bags = [table for table in tables if isinstance(table, EmbeddingBagConfig)]
    sequences = [table for table in tables if isinstance(table, EmbeddingConfig)]
    if bags and sequences:
        fail("E001", "tables of a collection are all pooled, or none is")
    return QuantEmbeddingBagCollection(bags, rows) if bags else QuantEmbeddingCollection(sequences, rows)
