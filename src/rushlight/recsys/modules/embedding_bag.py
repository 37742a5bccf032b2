"""Pooled lookups: the rows of each bag's ids, summed or averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import EmbeddingBag, Module, ModuleDict
from rushlight.ops.ragged import pooled_segments
from rushlight.recsys.configs import EmbeddingBagConfig, PoolingType, check_tables
from rushlight.recsys.modules.tables import Slots, initial_weight, known_ids, renew_rows, renew_tables
from rushlight.recsys.sparse import KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import require


class EmbeddingBagCollection(Module):
    """Tables whose rows are pooled, bag by bag: one kernel looks up all of them.

    The result has a column block for each feature. With `is_weighted` each row is multiplied by the weight of its id.
    Features with batches of their own need inverse indices, which say what row each example has. Errors: E005 for a
    feature that is missing, E006 for an id beyond its table.

    table = EmbeddingBagConfig(name="t", num_embeddings=10, embedding_dim=4, feature_names=["f"])
    pooled = EmbeddingBagCollection([table])(KeyedJaggedTensor(["f"], ids, lengths=lengths))
    pooled["f"]
    """

    path = "embedding_bags"

    def __init__(self, tables: Sequence[EmbeddingBagConfig], is_weighted: bool = False, device: Any = None) -> None:
        super().__init__()
        self._tables = check_tables(tables)
        self._is_weighted = is_weighted
        self._slots = Slots(self._tables)
        self.embedding_bags = ModuleDict()
        for table in self._tables:
            pooled = table.pooling is not PoolingType.NONE
            require(pooled, "E001", f"table {table.name!r}: bags are pooled", pooling=table.pooling)
            require(
                not is_weighted or table.pooling is PoolingType.SUM,
                "E001",
                f"table {table.name!r}: rows with weights are summed",
                pooling=table.pooling,
            )
            self.embedding_bags[table.name] = EmbeddingBag(
                *table.shape,
                mode=table.pooling.value.lower(),
                include_last_offset=True,
                _weight=self._made_weight(table, device),
            )
        self._means = tuple([self._tables[place].pooling is PoolingType.MEAN for place in self._slots.tables])
        self._limits = rl.tensor(self._slots.rows)
        self._columns = self._slots.dims

    def _made_weight(self, table: EmbeddingBagConfig, device: Any) -> Tensor:
        return initial_weight(table, device)

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Return the descriptions of the tables."""
        return list(self._tables)

    def embedding_names(self) -> list[str]:
        """Return the keys of the result, in order."""
        return list(self._slots.names)

    def is_weighted(self) -> bool:
        """Return whether rows have weights."""
        return self._is_weighted

    @property
    def device(self) -> Any:
        """The device of the tables."""
        return self.weights_of_tables()[0].device

    def reset_parameters(self) -> None:
        """Give tables the rows that they begin with."""
        renew_tables(self._tables, self.weights_of_tables())

    def weights_of_tables(self) -> list[Tensor]:
        """Return the weights, table by table."""
        return [self.embedding_bags[table.name].weight for table in self._tables]

    def tables_to_read(self) -> list[Tensor]:
        """Return the tensors that lookups read, table by table."""
        return self.weights_of_tables()

    def states_of_tables(self) -> list[dict[str, Tensor]]:
        """Return, table by table, what a fused optimizer has of rows: nothing."""
        return [{} for _ in self._tables]

    def renew_rows(self, table: str, rows: Tensor, values: Tensor) -> None:
        """Set some rows of a table, and begin the state that a fused optimizer has of them anew."""
        place = [one.name for one in self._tables].index(table)
        renew_rows(self.weights_of_tables()[place], self.states_of_tables()[place], rows, values)

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Return the pooled rows, by the names of features."""
        chosen = self._slots.chosen(features)
        ids, weights = known_ids(chosen, self._limits), self._weights_of(chosen)
        pooled = self.pooled(ids, chosen.offsets(), weights)
        return KeyedTensor(self._slots.names, self._columns, pooled)

    def _weights_of(self, features: KeyedJaggedTensor) -> Tensor | None:
        return features.weights() if self._is_weighted else None

    def pooled(self, ids: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        """Return the pooled rows of ids that are known to be rows of their tables."""
        return pooled_segments(self.tables_to_read(), ids, offsets, weights, self._slots.tables, self._means)

    def __repr__(self) -> str:
        lines = [f"  {table.name}: {list(table.shape)} {table.pooling.value}" for table in self._tables]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])
