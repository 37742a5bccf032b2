"""Maps of ids without bounds that are divided among ranks: each rank has some buckets of every map."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed import ProcessGroup
from rushlight.ops import collective
from rushlight.recsys.distributed.exchange import exchange
from rushlight.recsys.distributed.sharded_tensor import Shard, ShardedTensor
from rushlight.recsys.distributed.state import ShardedState
from rushlight.recsys.modules import ManagedCollisionCollection, ManagedCollisionModule
from rushlight.recsys.modules.tables import in_order
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor
from rushlight.support.frozen import frozen


@frozen(eq=False)
class _Part:
    """What a rank has of a map: buckets from one to another, or none, and what is of no row."""

    whole: ManagedCollisionModule  # on the device meta
    common: dict[str, Tensor]
    owners: Tensor  # the rank of each bucket
    own: ManagedCollisionModule | None

    @staticmethod
    def of(module: ManagedCollisionModule, group: ProcessGroup) -> _Part:
        """Return the part of a rank; it has the ids that the module has there."""
        buckets, bounds = module.buckets(), module.bounds()
        ends = [-(-rank * buckets // group.size) for rank in range(group.size + 1)]
        counts = [end - first for first, end in itertools.pairwise(ends)]
        owners = rl.tensor([rank for rank, count in enumerate(counts) for _ in range(count)])
        whole = module.rebuild_with_output_id_range((bounds[0], bounds[-1]), bounds, "meta")
        given = dict(module.named_buffers())
        of_rows = set(module.row_buffers())
        common = {name: one.clone() for name, one in given.items() if name not in of_rows}
        first, end = ends[group.rank], ends[group.rank + 1]
        if first == end:
            return _Part(whole, common, owners, None)
        own = module.rebuild_with_output_id_range((bounds[first], bounds[end]), bounds)
        for name in of_rows:
            own.get_buffer(name).copy_(given[name][bounds[first] : bounds[end]])
        for name, one in common.items():
            own.register_buffer(name, one)
        return _Part(whole, common, owners, own)


class ShardedManagedCollisionCollection(ShardedState):
    """A ManagedCollisionCollection whose maps are divided by buckets among the ranks of a group.

    Ids go to the ranks that have their buckets, rows come back. A batch is that of all ranks, so that rows, counts
    and evictions are those of the collection that is not divided. State dicts have its keys.

    ShardedManagedCollisionCollection(collection, group)(features)
    """

    def __init__(self, module: ManagedCollisionCollection, env: ProcessGroup) -> None:
        super().__init__()
        self._group, self._features = env, module.features
        self._counts = [table.num_features() for table in module.embedding_configs()]
        self._prepared = module.need_preprocess
        self._parts: dict[str, _Part] = {}
        for name, own in module.modules_of_tables().items():
            self._parts[name] = _Part.of(own, env)
        self._configs = module.embedding_configs()

    def embedding_configs(self) -> list[Any]:
        """Return the descriptions of the tables."""
        return list(self._configs)

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Return the rows of the features' ids of this rank."""
        chosen = in_order(features, self._features)
        ids: list[Tensor] = []
        owners: list[Tensor] = []
        for (name, part), own in zip(self._parts.items(), chosen.split(self._counts), strict=True):
            given = {name: JaggedTensor.of_parts(own.parts())}
            prepared = part.whole.preprocess(given) if self._prepared else given
            ids.append(prepared[name].values().long())
            owners.append(part.owners[part.whole.bucket_of(ids[-1])])
        return chosen.with_values(self._mapped(ids, owners))

    def _mapped(self, ids: Sequence[Tensor], owners: Sequence[Tensor]) -> Tensor:
        """The rows of ids, which are by table."""
        group, tables = self._group, len(ids)
        by_table = [own.bincount(minlength=group.size).tolist() for own in owners]
        counts = list(zip(*by_table, strict=True))
        told = rl.tensor(counts, dtype=rl.int64).reshape(-1)
        known = exchange(told, [tables] * group.size, [tables] * group.size, group).wait().reshape(-1, tables).tolist()
        order = rl.cat(list(owners)).argsort(stable=True)
        sent, taken = [sum(own) for own in counts], [sum(own) for own in known]
        received = exchange(rl.cat(list(ids))[order], sent, taken, group).wait()
        rows = exchange(self._rows_of(received, known), taken, sent, group).wait()
        return rl.empty_like(rows).index_copy_(0, order, rows)

    def _rows_of(self, ids: Tensor, counts: Sequence[Sequence[int]]) -> Tensor:
        """The rows of ids of all ranks, which are by rank and then by table."""
        pieces = list(ids.split([count for own in counts for count in own]))
        tables = len(self._parts)
        for table, (name, part) in enumerate(self._parts.items()):
            own = pieces[table::tables]
            if part.own is None:
                if self.training:
                    part.whole.pass_batch(part.common)
            else:
                part.own.train(self.training)
                joined = rl.cat(own)
                given = {name: JaggedTensor.of_parts((joined, None, rl.tensor([joined.shape[0]]), None))}
                rows = part.own.remap(part.own.profile(given))[name].values()
                pieces[table::tables] = rows.split([one.shape[0] for one in own])
        return rl.cat(pieces)

    def evict(self) -> dict[str, Tensor | None]:
        """Return the rows of each table that have another id than when this was asked last, on whatever rank."""
        changed = [None if part.own is None else part.own.evict() for part in self._parts.values()]
        own = [rl.zeros(0, dtype=rl.int64) if rows is None else rows for rows in changed]
        group, tables = self._group, len(own)
        told = rl.tensor([rows.shape[0] for rows in own], dtype=rl.int64)
        known = collective.all_gather_into_tensor(told, group.size, group.name).reshape(-1, tables).tolist()
        of_ranks = tuple([sum(of_rank) for of_rank in known])
        if not sum(of_ranks):
            return dict.fromkeys(self._parts)
        everywhere = collective.all_gather_into_tensor(rl.cat(own), group.size, group.name, of_ranks)
        pieces = everywhere.split([count for of_rank in known for count in of_rank])
        # Buckets are in the order of ranks, and so are their rows.
        return {name: rl.cat(list(pieces[table::tables])) for table, name in enumerate(self._parts)}

    def sharded_state(self) -> dict[str, Tensor | ShardedTensor]:
        """Return the buffers of all maps, by the keys of the collection that is not divided."""
        found: dict[str, Tensor | ShardedTensor] = {}
        for name, part in self._parts.items():
            for key, whole in part.whole.named_buffers():
                full = f"_managed_collision_modules.{name}.{key}"
                found[full] = part.common[key] if key in part.common else self._of_rows(part, key, whole)
        return found

    def _of_rows(self, part: _Part, key: str, whole: Tensor) -> ShardedTensor:
        shards: list[Shard] = []
        if part.own is not None:
            box = ((part.own.bounds()[0], part.own.bounds()[-1]), *[(0, size) for size in whole.shape[1:]])
            shards.append(Shard.of(part.own.get_buffer(key), box, self._group.rank))
        return ShardedTensor(whole.shape, whole.dtype, shards)
