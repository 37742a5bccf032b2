"""Tables of few bits that are divided among ranks, for inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed import ProcessGroup
from rushlight.recsys.configs import DataType, EmbeddingBagConfig, EmbeddingConfig
from rushlight.recsys.distributed.cover import Cover
from rushlight.recsys.distributed.embedding import ShardedRows
from rushlight.recsys.distributed.plans import (
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ParameterSharding,
    ShardMetadata,
)
from rushlight.recsys.modules.tables import Slots
from rushlight.recsys.quant import QuantEmbeddingBagCollection
from rushlight.recsys.sparse import KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import require


class _PackedRows:
    """Rows as bytes, of the slots of some tables."""

    def __init__(self, rows: Sequence[Tensor], places: Sequence[int]) -> None:
        self._rows, self._places = list(rows), list(places)

    def rows(self, ids: Tensor, bounds: Sequence[int]) -> list[Tensor]:
        """Return the rows of each slot's ids, which lie between two bounds."""
        return [
            self._rows[place].index_select(0, ids[bounds[slot] : bounds[slot + 1]])
            for slot, place in enumerate(self._places)
        ]


def _bytes_of(table: EmbeddingBagConfig, width: int) -> EmbeddingConfig:
    """A table as one of bytes."""
    return EmbeddingConfig(table.num_embeddings, width, table.name, DataType.UINT8, table.feature_names)


def _of_rows(sharding: ParameterSharding, table: EmbeddingBagConfig, width: int) -> ParameterSharding:
    """How the bytes of a table's rows are divided, which is by rows alone."""
    if sharding.sharding_spec is None:
        return sharding
    shards: list[ShardMetadata] = []
    for box in sharding.boxes():
        message = f"table {table.name!r}: rows of codes are not divided by columns"
        require(box.columns == (0, table.embedding_dim), "E024", message, columns=box.columns)
        shards.append(ShardMetadata((box.rows[0], 0), (box.rows[1] - box.rows[0], width), box.rank))
    return replace(sharding, sharding_spec=EnumerableShardingSpec(tuple(shards)))


def _made_up(rows: Tensor, width: int) -> Tensor:
    """Rows of bytes of the width that all tables have on their way."""
    return rl.cat([rows, rows.new_zeros(rows.shape[0], width - rows.shape[1])], 1)


def _held(packed: Sequence[Tensor], cover: Cover, rank: int) -> _PackedRows:
    """What a rank has of tables: copies, so that it need not keep whole ones."""
    held = cover.held[rank]
    rows = [packed[one.table][one.rows[0] : one.rows[1]].clone() for one in held]
    return _PackedRows(rows, [held.index(route.held) for route in cover.routes[rank]])


class ShardedQuantEmbeddingBagCollection(ShardedRows):
    """A QuantEmbeddingBagCollection whose tables are divided by rows among the ranks of a group.

    Rows are sent as they are in memory, and pooled where the batch is, in the order of its ids: results have the bits
    of the collection that is not divided. Errors: E024 for a plan that divides columns.

    ShardedQuantEmbeddingBagCollection(small, plan.get_plan_for_module("sparse"), group)(ids)["user"]
    """

    def __init__(
        self,
        module: QuantEmbeddingBagCollection,
        table_name_to_parameter_sharding: EmbeddingModuleShardingPlan,
        env: ProcessGroup,
    ) -> None:
        bags = module.embedding_bag_configs()
        tables = [module.table(table.name) for table in bags]
        packed = [table.layout.packed(table.parts()) for table in tables]
        widths = [int(rows.shape[1]) for rows in packed]
        width = max(widths)
        packed = [_made_up(rows, width) for rows in packed]
        of_bytes = [_bytes_of(table, width) for table in bags]
        given = table_name_to_parameter_sharding
        plan = {table.name: _of_rows(given[table.name], table, width) for table in bags}
        super().__init__(of_bytes, plan, env)
        self._bags, self._is_weighted = bags, module.is_weighted()
        self._widths = widths
        self._dims, self._layouts = Slots(bags).dims, [table.layout for table in tables]
        self._local = _held([packed[place] for place in self._divided.tables], self._cover, env.rank)
        whole = [packed[place].clone() for place in self._whole.tables]
        places = [self._whole.tables.index(self._slots.tables[slot]) for slot in self._whole.slots]
        self._replicated = _PackedRows(whole, places) if whole else None

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Return the descriptions of the tables."""
        return list(self._bags)

    def _result(self, features: KeyedJaggedTensor, rows: Sequence[Tensor]) -> KeyedTensor:
        offsets, bounds, batch = features.offsets(), features.offset_per_key(), features.stride()
        pooled: list[Tensor] = []
        for slot, place in enumerate(self._slots.tables):
            layout = self._layouts[place]
            ends = offsets[slot * batch : (slot + 1) * batch + 1] - bounds[slot]
            weights = features.weights()[bounds[slot] : bounds[slot + 1]] if self._is_weighted else None
            ids = rl.arange(rows[slot].shape[0])
            parts = layout.unpacked(rows[slot][:, : self._widths[place]])
            pooled.append(layout.pooled(parts, ids, ends, weights, self._bags[place].pooling))
        return KeyedTensor(self._slots.names, self._dims, rl.cat(pooled, 1))
