"""Lookups of rows in tables that are divided among ranks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed import ProcessGroup
from rushlight.recsys.configs import DataType, EmbeddingConfig
from rushlight.recsys.distributed.awaitable import Awaitable, LazyAwaitable
from rushlight.recsys.distributed.cover import Range, Route
from rushlight.recsys.distributed.embedding_bag import given_weights, own_rule, rule_of_replicated
from rushlight.recsys.distributed.exchange import Received, exchange
from rushlight.recsys.distributed.local import Groups
from rushlight.recsys.distributed.local_rows import LocalRows, ReplicatedRows
from rushlight.recsys.distributed.plans import EmbeddingModuleShardingPlan
from rushlight.recsys.distributed.precision import EXACT, QCommsConfig
from rushlight.recsys.distributed.routing import Routed, moved_back, transposed
from rushlight.recsys.distributed.sharded import ShardedTables
from rushlight.recsys.modules import EmbeddingCollection
from rushlight.recsys.modules.tables import known_ids
from rushlight.recsys.optim import RowRule
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor
from rushlight.recsys.sparse.segments import prefix_sums

Kind = tuple[int, DataType]
"""Columns and numbers of the rows of a local table: rows of one kind are exchanged together."""
Rows = dict[str, JaggedTensor]


class EmbeddingContext:
    """What one batch needs from its input exchange to its output exchange."""

    def __init__(self) -> None:
        self.features: KeyedJaggedTensor | None = None
        self.routed: Routed | None = None
        self.received: list[list[int]] = []  # how many ids each of this rank's routes has from each rank
        self.replicated: list[Tensor] = []


class RowsOfTables(Protocol):
    """Local tables, or tables that each rank has, that give rows."""

    def rows(self, ids: Tensor, bounds: Sequence[int]) -> list[Tensor]:
        """Return the rows of each slot's ids, which lie between two bounds."""
        ...


class ShardedRows(ShardedTables[EmbeddingConfig]):
    """Lookups whose rows come back to the places of their ids: what `_result` makes of them."""

    _local: RowsOfTables
    _replicated: RowsOfTables | None

    def __init__(
        self,
        tables: Sequence[EmbeddingConfig],
        plan: EmbeddingModuleShardingPlan,
        env: ProcessGroup,
        qcomms: QCommsConfig = EXACT,
    ) -> None:
        super().__init__(tables, plan, env)
        self._precision = qcomms
        self._kinds = _places_by_kind(self._cover.routes, self._of(self._divided))
        self._pieces = _pieces_of_blocks(self._cover.routes, self._router.blocks)

    def _result(self, features: KeyedJaggedTensor, rows: Sequence[Tensor]) -> Any:
        """What is made of the rows of each slot's ids."""
        raise NotImplementedError

    def create_context(self) -> EmbeddingContext:
        """Return what holds the state of one batch."""
        return EmbeddingContext()

    def input_dist(self, ctx: EmbeddingContext, features: KeyedJaggedTensor) -> Awaitable[Awaitable[Received]]:
        """Begin to send ids to the ranks that have their rows; to be waited for twice, as KJTAllToAll."""
        ctx.features = chosen = self._slots.chosen(features)
        known_ids(chosen, self._limits)
        own = self._divided.features(chosen)
        # Which example an id is of does not matter where its row is: each slot is sent as one long row.
        totals = rl.tensor(own.length_per_key())
        flat = KeyedJaggedTensor.of_parts((own.values(), None, totals, None), tuple(own.keys()), None)
        ctx.routed = self._router.routed(flat, weighted=False)
        return ctx.routed.sending.begin(self._group, self._route_counts(), 1)

    def compute(self, ctx: EmbeddingContext, dist_input: Received) -> list[Tensor]:
        """Look up the ids of all ranks in the tables of this one: for each kind the rows, by rank and then by route."""
        if self._replicated is not None:  # here, since a batch's ids may be sent before the step of the one before it
            assert ctx.features is not None
            own = self._whole.features(ctx.features)
            ctx.replicated = self._replicated.rows(own.values(), own.offset_per_key())
        routes = self._cover.routes[self._group.rank]
        ctx.received = counts = dist_input.counts(len(routes))
        bounds = prefix_sums([sum(of_ranks) for of_ranks in counts])
        rows = self._local.rows(dist_input.values, bounds) if routes else []
        return [self._of_kind(kind, places[self._group.rank], rows, counts) for kind, places in self._kinds.items()]

    def _of_kind(
        self, kind: Kind, own: Sequence[int], rows: Sequence[Tensor], counts: Sequence[Sequence[int]]
    ) -> Tensor:
        if not own:
            # The backward pass of the exchanges runs here too, for others' sake.
            return rl.zeros(0, kind[0], dtype=kind[1].dtype) + self._anchor.to(kind[1].dtype)
        return transposed(rl.cat([rows[place] for place in own]), [counts[place] for place in own])

    def output_dist(
        self, ctx: EmbeddingContext, output: Sequence[Tensor], counts: Sequence[Sequence[int]]
    ) -> LazyAwaitable[Any]:
        """Begin to send rows back; `counts` are the ids of this rank's routes that each rank has sent."""
        assert ctx.routed is not None
        flat = iter(ctx.routed.counts)
        wanted = [[next(flat) for _ in of_rank] for of_rank in self._cover.routes]
        under_way: list[Awaitable[Tensor]] = []
        for ((width, _), places), rows in zip(self._kinds.items(), output, strict=True):
            own = places[self._group.rank]
            sent = [sum([counts[place][rank] for place in own]) * width for rank in range(self._group.size)]
            taken = [
                sum([of_rank[place] for place in there]) * width for of_rank, there in zip(wanted, places, strict=True)
            ]
            under_way.append(exchange(rows.reshape(-1), sent, taken, self._group, self._precision))
        return LazyAwaitable(lambda: self._answer(ctx, wanted, [one.wait() for one in under_way]))

    def compute_and_output_dist(self, ctx: EmbeddingContext, input: Received) -> LazyAwaitable[Any]:
        """Look up, and begin to send back."""
        rows = self.compute(ctx, input)
        return self.output_dist(ctx, rows, ctx.received)

    def _answer(self, ctx: EmbeddingContext, wanted: Sequence[Sequence[int]], parts: Sequence[Tensor]) -> Any:
        assert ctx.features is not None
        rows: list[Tensor] = [self._anchor] * len(self._slots.tables)
        if self._divided.slots:
            whole = self._in_order(ctx, wanted, parts)
            lengths = ctx.features.length_per_key()
            counts = [lengths[slot] for slot in self._divided.slots]
            for slot, own in zip(self._divided.slots, whole.split(counts), strict=True):
                rows[slot] = own
        for slot, own in zip(self._whole.slots, ctx.replicated, strict=True):
            rows[slot] = own
        return self._result(ctx.features, rows)

    def _in_order(self, ctx: EmbeddingContext, wanted: Sequence[Sequence[int]], parts: Sequence[Tensor]) -> Tensor:
        """The rows of all ids in the order of the ids, from what each rank has sent of each kind."""
        pieces: dict[tuple[int, int], Tensor] = {}
        for ((width, _), places), part in zip(self._kinds.items(), parts, strict=True):
            own = [(rank, place) for rank, there in enumerate(places) for place in there]
            rows = part.reshape(-1, width).split([wanted[rank][place] for rank, place in own])
            pieces |= dict(zip(own, rows, strict=True))
        chunks = [rl.cat([pieces[at][:, low:high] for at, low, high in chunk]) for chunk in self._pieces]
        rows = chunks[0] if len(chunks) == 1 else rl.cat(chunks, 1)
        assert ctx.routed is not None
        return rows if ctx.routed.order is None else moved_back(rows, ctx.routed.order)


class ShardedEmbeddingCollection(ShardedRows):
    """An EmbeddingCollection whose tables are divided among the ranks of a group, as a plan says.

    As ShardedEmbeddingBagCollection, with the row of each id. Rows are not summed, so that all results have the bits
    of the collection that is not divided, and so have steps where no row's columns are divided.

    sharded = ShardedEmbeddingCollection(collection, plan.get_plan_for_module("sparse"), group)
    sharded(ids)["user"].values()
    """

    def __init__(
        self,
        module: EmbeddingCollection,
        table_name_to_parameter_sharding: EmbeddingModuleShardingPlan,
        env: ProcessGroup,
        groups: Groups | None = None,
        qcomms: QCommsConfig = EXACT,
        rule: RowRule | None = None,
    ) -> None:
        super().__init__(module.embedding_configs(), table_name_to_parameter_sharding, env, qcomms)
        self._need_indices = module.need_indices()
        given = given_weights(module.weights_of_tables())
        rule = rule or own_rule(module)
        own, rank = self._of(self._divided), env.rank
        weights = [given[place] for place in self._divided.tables]
        local = LocalRows(own, weights, self._cover, rank, rule, env, groups or (lambda ranks: env))
        kept = [given[place] for place in self._whole.tables]
        replicated = (
            ReplicatedRows(self._of(self._whole), kept, rule_of_replicated(module, rule), env) if kept else None
        )
        self._local, self._replicated = local, replicated
        self._keep(module.path, local, replicated, rule)

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """Return the descriptions of the tables."""
        return list(self._tables)

    def _result(self, features: KeyedJaggedTensor, rows: Sequence[Tensor]) -> Rows:
        return self._slots.by_name(features, rows, self._need_indices)


def _places_by_kind(
    routes: Sequence[Sequence[Route]], tables: Sequence[EmbeddingConfig]
) -> dict[Kind, list[list[int]]]:
    """Return for each kind the places of its routes in those of each rank."""
    kinds = [[(route.held.width, tables[route.held.table].data_type) for route in own] for own in routes]
    return {
        kind: [[place for place, other in enumerate(own) if other == kind] for own in kinds]
        for kind in sorted({kind for own in kinds for kind in own}, key=str)
    }


Piece = tuple[tuple[int, int], int, int]
"""The rank and the place of a route, and which of its columns."""


def _pieces_of_blocks(routes: Sequence[Sequence[Route]], blocks: Sequence[int]) -> list[list[Piece]]:
    """Return for each range of columns the piece of each block. Ranges end wherever a box begins or ends."""
    cuts = sorted({cut for own in routes for route in own for columns in route.held.columns for cut in columns} | {0})
    numbers = iter(blocks)
    chunks: list[dict[int, Piece]] = [{} for _ in cuts[1:]]
    for rank, own in enumerate(routes):
        for place, route in enumerate(own):
            block = next(numbers)
            for place_of_chunk, chunk in enumerate(itertools.pairwise(cuts)):
                low = _column_in(route.held.columns, chunk)
                if low is not None:
                    chunks[place_of_chunk][block] = (rank, place), low, low + chunk[1] - chunk[0]
    return [[pieces[block] for block in sorted(pieces)] for pieces in chunks]


def _column_in(columns: Sequence[Range], chunk: Range) -> int | None:
    """The first column of a range in a local table. None if it has not that range."""
    before = 0
    for first, end in columns:
        if first <= chunk[0] and chunk[1] <= end:
            return before + chunk[0] - first
        before += end - first
    return None
