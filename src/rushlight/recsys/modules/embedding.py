"""Lookups of sequences: a row for each id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Embedding, Module, ModuleDict
from rushlight.recsys.configs import EmbeddingConfig, check_tables
from rushlight.recsys.modules.tables import Slots, initial_weight, known_ids, renew_rows, renew_tables
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor
from rushlight.support.errors import require


class EmbeddingCollection(Module):
    """Tables that give the row of each id, as jagged rows by feature.

    All tables have rows of one size. With `need_indices` the ids are the weights of the result. Errors: E005 for a
    feature that is missing, E006 for an id beyond its table.

    table = EmbeddingConfig(name="t", num_embeddings=10, embedding_dim=4, feature_names=["f"])
    EmbeddingCollection([table])(features)["f"].values()
    """

    path = "embeddings"

    def __init__(self, tables: Sequence[EmbeddingConfig], device: Any = None, need_indices: bool = False) -> None:
        super().__init__()
        self._tables = check_tables(tables)
        self._need_indices = need_indices
        self._slots = Slots(self._tables)
        sizes = {table.embedding_dim for table in self._tables}
        require(len(sizes) <= 1, "E001", "the tables of an EmbeddingCollection have rows of one size", sizes=sizes)
        self.embeddings = ModuleDict()
        for table in self._tables:
            weight = initial_weight(table, device)
            self.embeddings[table.name] = Embedding(*table.shape, _weight=weight)
        self._limits = rl.tensor(self._slots.rows)

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """Return the descriptions of the tables."""
        return list(self._tables)

    def embedding_dim(self) -> int:
        """Return the size of a row."""
        return self._slots.dims[0]

    def embedding_names_by_table(self) -> list[list[str]]:
        """Return the names of results, table by table."""
        names: list[list[str]] = [[] for _ in self._tables]
        for place, name in zip(self._slots.tables, self._slots.names, strict=True):
            names[place].append(name)
        return names

    def need_indices(self) -> bool:
        """Return whether ids go along."""
        return self._need_indices

    @property
    def device(self) -> Any:
        """The device of the tables."""
        return self.weights_of_tables()[0].device

    def reset_parameters(self) -> None:
        """Give tables the rows that they begin with."""
        renew_tables(self._tables, self.weights_of_tables())

    def weights_of_tables(self) -> list[Tensor]:
        """Return the weights, table by table."""
        return [self.embeddings[table.name].weight for table in self._tables]

    def states_of_tables(self) -> list[dict[str, Tensor]]:
        """Return, table by table, what a fused optimizer has of rows: nothing."""
        return [{} for _ in self._tables]

    def renew_rows(self, table: str, rows: Tensor, values: Tensor) -> None:
        """Set some rows of a table, and begin the state that a fused optimizer has of them anew."""
        place = [one.name for one in self._tables].index(table)
        renew_rows(self.weights_of_tables()[place], self.states_of_tables()[place], rows, values)

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Return the rows of each feature's ids."""
        chosen = self._slots.chosen(features)
        ids = known_ids(chosen, self._limits)
        rows = self.rows(ids, chosen.offset_per_key())
        return self._slots.by_name(chosen, rows, self._need_indices)

    def rows(self, ids: Tensor, bounds: Sequence[int]) -> list[Tensor]:
        """Return the rows of each slot's ids, which lie between two bounds and are known to be rows."""
        return self._slots.looked_up(ids, bounds, self.weights_of_tables())
