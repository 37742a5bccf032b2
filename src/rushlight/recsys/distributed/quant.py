"""Tables of few bits that are divided among ranks, for inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed import ProcessGroup
from rushlight.nn import Parameter
from rushlight.recsys.configs import BaseEmbeddingConfig, DataType, EmbeddingBagConfig, EmbeddingConfig
from rushlight.recsys.distributed.cover import Cover, Range
from rushlight.recsys.distributed.embedding import ShardedRows
from rushlight.recsys.distributed.plans import (
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ParameterSharding,
    ShardMetadata,
)
from rushlight.recsys.distributed.sharded_tensor import Shard, ShardedTensor
from rushlight.recsys.modules.tables import Slots
from rushlight.recsys.quant import QuantEmbeddingBagCollection, QuantEmbeddingCollection, QuantTables
from rushlight.recsys.quant.rows import TableRows
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import require


class _PackedRows:
    """Rows as bytes, of the slots of some tables."""

    def __init__(self, rows: Sequence[Tensor], places: Sequence[int]) -> None:
        self.held, self._places = list(rows), list(places)

    def rows(self, ids: Tensor, bounds: Sequence[int]) -> list[Tensor]:
        """Return the rows of each slot's ids, which lie between two bounds."""
        return [
            self.held[place].index_select(0, ids[bounds[slot] : bounds[slot + 1]])
            for slot, place in enumerate(self._places)
        ]


def _bytes_of(table: BaseEmbeddingConfig, width: int) -> EmbeddingConfig:
    """A table as one of bytes."""
    return EmbeddingConfig(table.num_embeddings, width, table.name, DataType.UINT8, table.feature_names)


def _of_rows(sharding: ParameterSharding, table: BaseEmbeddingConfig, width: int) -> ParameterSharding:
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


class _ShardedQuantTables(ShardedRows):
    """Tables of few bits that are divided by rows. Rows are sent as they are in memory; `_read` makes floats of them.

    Its results have the bits of the collection that is not divided. State dicts have its keys.
    """

    def __init__(
        self,
        module: QuantTables,
        table_name_to_parameter_sharding: EmbeddingModuleShardingPlan,
        env: ProcessGroup,
    ) -> None:
        configs = module.configs()
        tables = [module.table(table.name) for table in configs]
        packed = [table.layout.packed(table.parts()) for table in tables]
        widths = [int(rows.shape[1]) for rows in packed]
        width = max(widths)
        packed = [_made_up(rows, width) for rows in packed]
        of_bytes = [_bytes_of(table, width) for table in configs]
        given = table_name_to_parameter_sharding
        plan = {table.name: _of_rows(given[table.name], table, width) for table in configs}
        super().__init__(of_bytes, plan, env)
        self._configs, self._path = configs, module.path
        self._widths, self._width = widths, width
        self._dims, self._layouts = Slots(configs).dims, [table.layout for table in tables]
        self._own = _held([packed[place] for place in self._divided.tables], self._cover, env.rank)
        whole = [packed[place].clone() for place in self._whole.tables]
        places = [self._whole.tables.index(self._slots.tables[slot]) for slot in self._whole.slots]
        self._everywhere = _PackedRows(whole, places)
        self._local, self._replicated = self._own, self._everywhere if whole else None

    def _read(self, slot: int, rows: Tensor) -> TableRows:
        """The rows of a slot's ids as they are in a table."""
        place = self._slots.tables[slot]
        return self._unpacked(place, rows)

    def _unpacked(self, table: int, rows: Tensor) -> TableRows:
        return self._layouts[table].unpacked(rows[:, : self._widths[table]])

    # State: rows of codes are boxes of rows.

    def _parts(self) -> list[tuple[int, Range, Tensor]]:
        """What this rank has: tables, their rows, and these as bytes."""
        held = self._cover.held[self._group.rank]
        own = [
            (self._divided.tables[one.table], one.rows, rows) for one, rows in zip(held, self._own.held, strict=True)
        ]
        whole = zip(self._whole.tables, self._everywhere.held, strict=True)
        return own + [(place, (0, self._configs[place].num_embeddings), rows) for place, rows in whole]

    def sharded_state(self) -> dict[str, Tensor | ShardedTensor]:
        """Return codes, scales and biases by `<module>.<table>.<part>`: copies."""
        found: dict[str, Tensor | ShardedTensor] = {}
        parts = [(place, rows, self._unpacked(place, packed)) for place, rows, packed in self._parts()]
        for place, table in enumerate(self._configs):
            empty = self._unpacked(place, rl.zeros(0, self._width, dtype=rl.uint8))
            for name, one in empty.items():
                shape = (table.num_embeddings, *one.shape[1:])
                shards: list[Shard] = []
                for owner, rows, unpacked in parts:
                    if owner == place:
                        box = (rows, *[(0, size) for size in one.shape[1:]])
                        shards.append(Shard.of(unpacked[name].contiguous(), box, self._group.rank))
                found[f"{self._path}.{table.name}.{name}"] = ShardedTensor(shape, one.dtype, shards)
        return found

    def take_over(self, state: Mapping[str, Tensor | ShardedTensor]) -> None:
        """Use loaded codes, scales and biases."""
        used: dict[int, int] = {}
        for place, _, packed in self._parts():
            number = used.setdefault(place, 0)
            used[place] += 1
            prefix = f"{self._path}.{self._configs[place].name}."
            parts = {
                name.removeprefix(prefix): value.local_shards()[number].tensor
                for name, value in state.items()
                if name.startswith(prefix) and isinstance(value, ShardedTensor)
            }
            packed.copy_(_made_up(self._layouts[place].packed(parts), self._width))

    def fused_optimizer_state(self) -> dict[str, object]:
        """Return nothing: these tables are not trained."""
        return {}

    def replicated_parameters(self) -> dict[str, Parameter]:
        """Return nothing: these tables have no gradients."""
        return {}


class ShardedQuantEmbeddingBagCollection(_ShardedQuantTables):
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
        super().__init__(module, table_name_to_parameter_sharding, env)
        self._bags, self._is_weighted = module.embedding_bag_configs(), module.is_weighted()

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Return the descriptions of the tables."""
        return list(self._bags)

    def _result(self, features: KeyedJaggedTensor, rows: Sequence[Tensor]) -> KeyedTensor:
        offsets, bounds, batch = features.offsets(), features.offset_per_key(), features.stride()
        pooled: list[Tensor] = []
        for slot, place in enumerate(self._slots.tables):
            ends = offsets[slot * batch : (slot + 1) * batch + 1] - bounds[slot]
            weights = features.weights()[bounds[slot] : bounds[slot + 1]] if self._is_weighted else None
            ids = rl.arange(rows[slot].shape[0])
            parts = self._read(slot, rows[slot])
            pooled.append(self._layouts[place].pooled(parts, ids, ends, weights, self._bags[place].pooling))
        return KeyedTensor(self._slots.names, self._dims, rl.cat(pooled, 1))


class ShardedQuantEmbeddingCollection(_ShardedQuantTables):
    """A QuantEmbeddingCollection whose tables are divided by rows among the ranks of a group.

    As ShardedQuantEmbeddingBagCollection, with the row of each id.

    ShardedQuantEmbeddingCollection(small, plan.get_plan_for_module("sparse"), group)(ids)["user"].values()
    """

    def __init__(
        self,
        module: QuantEmbeddingCollection,
        table_name_to_parameter_sharding: EmbeddingModuleShardingPlan,
        env: ProcessGroup,
    ) -> None:
        super().__init__(module, table_name_to_parameter_sharding, env)
        self._sequences, self._need_indices = module.embedding_configs(), module.need_indices()

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """Return the descriptions of the tables."""
        return list(self._sequences)

    def _result(self, features: KeyedJaggedTensor, rows: Sequence[Tensor]) -> dict[str, JaggedTensor]:
        floats = [
            self._layouts[place].dense(self._read(slot, rows[slot])) for slot, place in enumerate(self._slots.tables)
        ]
        return self._slots.by_name(features, floats, self._need_indices)
