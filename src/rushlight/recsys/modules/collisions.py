"""Ids without bounds as rows of tables: each id that comes often, or lately, has a row of its own.

A module holds the ids that have rows, sorted. While it is trained it notes what ids come, and after every so many
batches gives the rows of ids that its policy ranks last to new ones. All other ids share the last row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import rushlight as rl
from rushlight import Tensor
from rushlight.compiler import disable
from rushlight.nn import Module, ModuleDict
from rushlight.recsys.configs import BaseEmbeddingConfig, repeated
from rushlight.recsys.modules.eviction import MCHEvictionPolicy
from rushlight.recsys.modules.tables import in_order
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor
from rushlight.support.errors import fail, require

Rows = dict[str, JaggedTensor]
NO_ID = 2**63 - 1
"""What stands for no id among those that have rows."""
_SEGMENTS = 1025


class ManagedCollisionModule(Module):
    """Base of modules that map ids to rows below `output_size()`; features are jagged ids by name.

    `evict()` names the rows whose id has changed since it was asked last: they are to begin anew.
    """

    def preprocess(self, features: Rows) -> Rows:
        """Return the ids that the map is of."""
        raise NotImplementedError

    def profile(self, features: Rows) -> Rows:
        """Note what ids come, if this module is trained, and return them."""
        raise NotImplementedError

    def remap(self, features: Rows) -> Rows:
        """Return the rows of ids."""
        raise NotImplementedError

    def forward(self, features: Rows) -> Rows:
        """Return the rows of ids that come."""
        return self.remap(self.profile(self.preprocess(features)))

    def evict(self) -> Tensor | None:
        """Return the rows that have another id than when this was asked last, or None."""
        raise NotImplementedError

    def output_size(self) -> int:
        """Return the number of rows."""
        raise NotImplementedError

    def input_size(self) -> int:
        """Return what ids are below."""
        raise NotImplementedError

    def buckets(self) -> int:
        """Return into how many parts the map may be divided."""
        raise NotImplementedError

    def open_slots(self) -> Tensor:
        """Return how many rows have no id yet."""
        raise NotImplementedError

    # What divides a map among ranks asks for the rest.

    def bounds(self) -> list[int]:
        """Return the first row of each bucket, and at last the end of all."""
        raise NotImplementedError

    def bucket_of(self, ids: Tensor) -> Tensor:
        """Return the bucket of each id."""
        raise NotImplementedError

    def row_buffers(self) -> list[str]:
        """Return the names of the buffers that have an entry for each row."""
        raise NotImplementedError

    def rebuild_with_output_id_range(
        self, output_id_range: tuple[int, int], output_segments: Sequence[int], device: Any = None
    ) -> ManagedCollisionModule:
        """Return an empty module of some of the buckets, whose rows are in a range. A001 if it cannot be divided."""
        fail("A001", "this map of ids cannot be divided", given=type(self).__name__)

    def pass_batch(self, state: Mapping[str, Tensor]) -> None:
        """Note in the buffers that are of no row that a batch came which had no ids of this part."""


class _Came(NamedTuple):
    """Different ids, how often each came, and in what batch it came last."""

    ids: Tensor
    counts: Tensor
    last: Tensor


class MCHManagedCollisionModule(ManagedCollisionModule):
    """Gives `zch_size` rows to the ids that a policy ranks first, and the last row to all others.

    Every `eviction_interval` batches ids are ranked. With `buckets` an id has a bucket, its remainder, and each bucket
    has equally many rows, of which the last one is shared: buckets are what many ranks divide, so that rows do not
    depend on the number of ranks. `input_hash_func(ids, input_hash_size)` changes ids first. What came since the last
    ranking is no part of a state dict.

    module = MCHManagedCollisionModule(1000, eviction_policy=LFU_EvictionPolicy(), eviction_interval=10)
    """

    def __init__(
        self,
        zch_size: int,
        device: Any = None,
        eviction_policy: MCHEvictionPolicy | None = None,
        eviction_interval: int = 1,
        input_hash_size: int = NO_ID,
        input_hash_func: Callable[[Tensor, int], Tensor] | None = None,
        name: str | None = None,
        output_global_offset: int = 0,
        output_segments: Sequence[int] | None = None,
        buckets: int = 1,
    ) -> None:
        super().__init__()
        for what, size in (("zch_size", zch_size), ("eviction_interval", eviction_interval), ("buckets", buckets)):
            require(isinstance(size, int) and size >= 1, "E001", f"{what} is no positive integer", given=size)
        require(eviction_policy is not None, "E001", "an eviction_policy is needed")
        assert eviction_policy is not None
        self._policy, self._interval, self._name = eviction_policy, eviction_interval, name
        self._hash, self._input_size = input_hash_func, input_hash_size
        first, end = output_global_offset, output_global_offset + zch_size
        given = [first + zch_size * place // buckets for place in range(buckets + 1)]
        self._segments = given if output_segments is None else list(output_segments)
        fits = len(self._segments) <= _SEGMENTS and self._segments[0] == first and self._segments[-1] == end
        fits = fits and all(low < high for low, high in itertools.pairwise(self._segments))
        require(fits, "E001", "the buckets are at most 1024 and do not divide the rows", rows=zch_size, buckets=buckets)
        self._first, self._size, self._total = 0, zch_size, len(self._segments) - 1
        self._came: list[_Came] = []
        self._changed: list[Tensor] = []
        self._make_buffers(device)

    def _make_buffers(self, device: Any) -> None:
        segments = self._segments + [-1] * (_SEGMENTS - len(self._segments))
        self.register_buffer("_output_segments_tensor", rl.tensor(segments, dtype=rl.int64, device=device))
        self.register_buffer("_current_iter_tensor", rl.zeros(1, dtype=rl.int64, device=device))
        whole = rl.full((self._size,), NO_ID, dtype=rl.int64, device=device)
        self.register_buffer("_mch_sorted_raw_ids", whole)
        rows = rl.arange(self._segments[0], self._segments[-1], dtype=rl.int64, device=device)
        self.register_buffer("_mch_remapped_ids_mapping", rows)
        for name in self._policy.states:
            self.register_buffer(f"_mch_{name}", rl.zeros(self._size, dtype=rl.int64, device=device))

    def output_size(self) -> int:
        """Return the number of rows."""
        return self._size

    def input_size(self) -> int:
        """Return what ids are below."""
        return self._input_size

    def buckets(self) -> int:
        """Return into how many parts the map may be divided."""
        return self._total

    def bounds(self) -> list[int]:
        """Return the first row of each bucket, and at last the end of all."""
        return list(self._segments)

    def bucket_of(self, ids: Tensor) -> Tensor:
        """Return the bucket of each id: its remainder."""
        return ids % self._total

    def row_buffers(self) -> list[str]:
        """Return the names of the buffers that have an entry for each row."""
        return ["_mch_sorted_raw_ids", "_mch_remapped_ids_mapping", *[f"_mch_{name}" for name in self._policy.states]]

    def pass_batch(self, state: Mapping[str, Tensor]) -> None:
        """Count a batch."""
        state["_current_iter_tensor"].add_(1)

    def rebuild_with_output_id_range(
        self, output_id_range: tuple[int, int], output_segments: Sequence[int], device: Any = None
    ) -> MCHManagedCollisionModule:
        """Return an empty module of some of the buckets, whose rows are in a range."""
        first, end = output_id_range
        own = [row for row in output_segments if first <= row <= end]
        made = MCHManagedCollisionModule(
            end - first,
            device,
            self._policy,
            self._interval,
            self._input_size,
            self._hash,
            self._name,
            first,
            own,
        )
        made._first, made._total = list(output_segments).index(first), len(output_segments) - 1
        return made

    def preprocess(self, features: Rows) -> Rows:
        """Return the ids, hashed where there is a function for it."""
        if self._hash is None:
            return features
        return {name: with_values(own, self._hash(own.values(), self._input_size)) for name, own in features.items()}

    def profile(self, features: Rows) -> Rows:
        """Note what ids come, if this module is trained, and rank them when it is time."""
        if self.training:
            self._note([own.values() for own in features.values()])
        return features

    # The number of the batch is a value of memory, and so is what is kept of it: graphs leave it to Python.
    @disable
    def _note(self, values: Sequence[Tensor]) -> None:
        with rl.no_grad():
            self._current_iter_tensor += 1
            now = int(self._current_iter_tensor)
            ids, counts = rl.unique(rl.cat([own.long() for own in values]), return_counts=True)
            self._came.append(_Came(ids, counts, rl.full_like(counts, now)))
            if now % self._interval == 0:
                self._rank(now)

    def _rank(self, now: int) -> None:
        came, self._came = _joined(self._came), []
        choose = self._policy.threshold_filtering_func
        if choose is not None:
            chosen, _ = choose(came.counts)
            came = _Came(*[part[chosen] for part in came])
        bucket = self.bucket_of(came.ids) - self._first
        for place, (low, high) in enumerate(self._local_bounds()):
            own = bucket == place
            self._rank_bucket(low, high - 1, _Came(*[part[own] for part in came]), now)

    def _local_bounds(self) -> list[tuple[int, int]]:
        start = self._segments[0]
        return [(low - start, high - start) for low, high in itertools.pairwise(self._segments)]

    def _rank_bucket(self, low: int, high: int, came: _Came, now: int) -> None:
        """Give the rows from one to another to the ids that rank first; the shared row lies behind them."""
        size = high - low
        if size == 0:
            return
        known, rows = self._mch_sorted_raw_ids[low:high], self._mch_remapped_ids_mapping[low:high]
        states = {name: getattr(self, f"_mch_{name}")[low:high] for name in self._policy.states}
        often = came.counts.argsort(descending=True, stable=True)
        came = _Came(*[part[often] for part in came])
        place = rl.searchsorted(known, came.ids).clamp(max=size - 1)
        there = known[place] == came.ids
        news = {"counts": came.counts, "last_access_iter": came.last}
        for name, state in states.items():
            old = state[place[there]] if name == "counts" else 0
            state[place[there]] = old + news[name][there]
        merged = {name: rl.cat([state, news[name][~there]]) for name, state in states.items()}
        ranked = self._policy.scores(merged, now).argsort(descending=True, stable=True)
        kept, dropped = ranked[:size], ranked[size:]
        arriving, leaving = kept[kept >= size] - size, dropped[dropped < size]
        self._changed.append(rows[leaving][known[leaving] != NO_ID])
        known[leaving] = came.ids[~there][arriving]
        for name, state in states.items():
            state[leaving] = news[name][~there][arriving]
        order = known.argsort(stable=True)
        for part in (known, rows, *states.values()):
            part.copy_(part[order])

    def remap(self, features: Rows) -> Rows:
        """Return the rows of ids; those that have none have the last row of their bucket."""
        return {name: with_values(own, self._rows_of(own.values().long())) for name, own in features.items()}

    def _rows_of(self, ids: Tensor) -> Tensor:
        bounds = self._local_bounds()
        found = self._rows_in(ids, *bounds[0])
        if self._total == 1:
            return found
        bucket = self.bucket_of(ids) - self._first
        for place, (low, high) in enumerate(bounds[1:], 1):
            found = rl.where(bucket == place, self._rows_in(ids, low, high), found)
        return found

    def _rows_in(self, ids: Tensor, low: int, high: int) -> Tensor:
        known, rows = self._mch_sorted_raw_ids[low:high], self._mch_remapped_ids_mapping[low:high]
        place = rl.searchsorted(known[:-1], ids)
        there = (known[place] == ids) & (ids != NO_ID)
        return rl.where(there, rows[place], self._segments[0] + high - 1)

    def evict(self) -> Tensor | None:
        """Return the rows that have another id than when this was asked last, ascending, or None."""
        if not self._changed:
            return None
        changed, self._changed = self._changed, []
        return rl.cat(changed).unique()

    def open_slots(self) -> Tensor:
        """Return how many rows have no id yet, without those that ids share."""
        return (self._mch_sorted_raw_ids == NO_ID).sum().reshape(1) - (len(self._segments) - 1)


def with_values(jagged: JaggedTensor, values: Tensor) -> JaggedTensor:
    """Return a jagged tensor with other values in its rows."""
    _, *rest = jagged.parts()
    return JaggedTensor.of_parts((values, *rest))


def _joined(came: Sequence[_Came]) -> _Came:
    """What came in several batches, as of one."""
    ids, inverse = rl.unique(rl.cat([each.ids for each in came]), return_inverse=True)
    counts = rl.zeros_like(ids).index_add_(0, inverse, rl.cat([each.counts for each in came]))
    last = rl.zeros_like(ids).scatter_reduce_(0, inverse, rl.cat([each.last for each in came]), "amax")
    return _Came(ids, counts, last)


class ManagedCollisionCollection(Module):
    """Maps the ids of each table's features to rows, each table's by a module of its own.

    Errors: E001 where a table has no module or one of other rows, and for a feature that two tables have.

    ManagedCollisionCollection({"user": module}, [config])(features)
    """

    def __init__(
        self,
        managed_collision_modules: Mapping[str, ManagedCollisionModule],
        embedding_configs: Sequence[BaseEmbeddingConfig],
        need_preprocess: bool = True,
    ) -> None:
        super().__init__()
        self.need_preprocess = need_preprocess
        self._configs = list(embedding_configs)
        odd = sorted({table.name for table in self._configs} ^ set(managed_collision_modules))
        require(not odd, "E001", "each table has one module of its ids", tables=odd)
        for table in self._configs:
            rows = managed_collision_modules[table.name].output_size()
            message = f"table {table.name!r} has other rows than the module of its ids"
            require(rows == table.num_embeddings, "E001", message, table=table.num_embeddings, module=rows)
        self.features = [name for table in self._configs for name in table.feature_names]
        shared = repeated(self.features)
        require(not shared, "E001", "a feature whose ids are mapped has one table", features=shared)
        self._managed_collision_modules = ModuleDict(dict(managed_collision_modules))

    def embedding_configs(self) -> list[BaseEmbeddingConfig]:
        """Return the descriptions of the tables."""
        return list(self._configs)

    def modules_of_tables(self) -> dict[str, ManagedCollisionModule]:
        """Return the modules by table."""
        held: Any = self._managed_collision_modules
        return {table.name: held[table.name] for table in self._configs}

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Return the rows of the features' ids."""
        chosen = in_order(features, self.features)
        parts = chosen.split([table.num_features() for table in self._configs])
        rows: list[Tensor] = []
        for (name, module), part in zip(self.modules_of_tables().items(), parts, strict=True):
            given = {name: JaggedTensor.of_parts(part.parts())}
            prepared = module.preprocess(given) if self.need_preprocess else given
            rows.append(module.remap(module.profile(prepared))[name].values())
        return chosen.with_values(rl.cat(rows) if rows else chosen.values())

    def evict(self) -> dict[str, Tensor | None]:
        """Return the rows of each table that have another id than when this was asked last."""
        return {name: module.evict() for name, module in self.modules_of_tables().items()}

    def open_slots(self) -> dict[str, Tensor]:
        """Return how many rows of each table have no id yet."""
        return {name: module.open_slots() for name, module in self.modules_of_tables().items()}
