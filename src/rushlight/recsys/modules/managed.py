"""Collections of tables whose ids have no bounds: rows of evicted ids begin anew, with their optimizer's state."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.compiler import disable
from rushlight.nn import Module
from rushlight.random import fork_rng
from rushlight.recsys.configs import BaseEmbeddingConfig, EmbeddingBagConfig, EmbeddingConfig
from rushlight.recsys.modules.collisions import ManagedCollisionCollection
from rushlight.recsys.modules.embedding import EmbeddingCollection
from rushlight.recsys.modules.embedding_bag import EmbeddingBagCollection
from rushlight.recsys.modules.tables import initialize
from rushlight.recsys.sparse import KeyedJaggedTensor
from rushlight.support.errors import require


class _ManagedTables(Module):
    """A collection behind the maps of its ids. A plan names the tables by the path of this module."""

    inner = "_embedding_module"

    def __init__(
        self,
        module: Module,
        tables: Sequence[BaseEmbeddingConfig],
        maps: ManagedCollisionCollection,
        return_remapped_features: bool,
    ) -> None:
        super().__init__()
        same = list(tables) == maps.embedding_configs()
        require(same, "E001", "the maps of ids are of other tables", tables=[table.name for table in tables])
        self._managed_collision_collection: Module = maps
        self._embedding_module: Module = module
        self._return_remapped_features = return_remapped_features
        self._configs = list(tables)

    def forward(self, features: KeyedJaggedTensor) -> tuple[Any, KeyedJaggedTensor | None]:
        """Return what the collection gives for the rows of ids, and these rows if they are to be returned."""
        rows = self._managed_collision_collection(features)
        if self.training:
            self._renew()
        return self._embedding_module(rows), rows if self._return_remapped_features else None

    @disable
    def _renew(self) -> None:
        collection: Any = self._embedding_module
        maps: Any = self._managed_collision_collection
        with rl.no_grad():
            for table, (name, rows) in zip(self._configs, maps.evict().items(), strict=True):
                if rows is not None and rows.shape[0]:
                    collection.renew_rows(name, rows, fresh_rows(table, rows))


def fresh_rows(table: BaseEmbeddingConfig, rows: Tensor) -> Tensor:
    """Return rows as the table begins with them. They depend on its description and on the rows alone.

    So each rank that has a part of them makes the same ones.
    """
    made = rl.empty(rows.shape[0], table.embedding_dim, dtype=table.data_type.dtype)
    with fork_rng():
        rl.manual_seed(zlib.crc32(table.name.encode() + rows.numpy().tobytes()))
        initialize(made, table)
    return made


class ManagedCollisionEmbeddingCollection(_ManagedTables):
    """An EmbeddingCollection of ids without bounds: (rows by feature, remapped ids or None).

    ManagedCollisionEmbeddingCollection(collection, ManagedCollisionCollection({"user": module}, configs))
    """

    def __init__(
        self,
        embedding_collection: EmbeddingCollection,
        managed_collision_collection: ManagedCollisionCollection,
        return_remapped_features: bool = False,
    ) -> None:
        tables = embedding_collection.embedding_configs()
        super().__init__(embedding_collection, tables, managed_collision_collection, return_remapped_features)

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """Return the descriptions of the tables."""
        return [table for table in self._configs if isinstance(table, EmbeddingConfig)]


class ManagedCollisionEmbeddingBagCollection(_ManagedTables):
    """An EmbeddingBagCollection of ids without bounds: (pooled rows, remapped ids or None).

    Rows whose id is evicted begin anew, and so does their fused optimizer's state, before the batch that evicts them
    is looked up.

    ManagedCollisionEmbeddingBagCollection(collection, ManagedCollisionCollection({"user": module}, configs))
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        managed_collision_collection: ManagedCollisionCollection,
        return_remapped_features: bool = False,
    ) -> None:
        tables = embedding_bag_collection.embedding_bag_configs()
        super().__init__(embedding_bag_collection, tables, managed_collision_collection, return_remapped_features)

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Return the descriptions of the tables."""
        return [table for table in self._configs if isinstance(table, EmbeddingBagConfig)]
