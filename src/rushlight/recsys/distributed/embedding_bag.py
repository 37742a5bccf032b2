"""Pooled lookups in tables that are divided among ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed import ProcessGroup
from rushlight.eager.composite.segments import offsets_of
from rushlight.nn import Module
from rushlight.recsys.configs import EmbeddingBagConfig, PoolingType
from rushlight.recsys.distributed.awaitable import Awaitable, LazyAwaitable
from rushlight.recsys.distributed.cover import Cover
from rushlight.recsys.distributed.exchange import PooledEmbeddingsAllToAll, Received
from rushlight.recsys.distributed.local import Groups, local_tables
from rushlight.recsys.distributed.plans import EmbeddingModuleShardingPlan
from rushlight.recsys.distributed.precision import EXACT, QCommsConfig
from rushlight.recsys.distributed.replicated import ReplicatedTables
from rushlight.recsys.distributed.sharded import ShardedTables
from rushlight.recsys.modules import EmbeddingBagCollection, EmbeddingCollection
from rushlight.recsys.modules.groups import FusedTables, rule_of_weights
from rushlight.recsys.modules.tables import known_ids
from rushlight.recsys.optim import RowRule
from rushlight.recsys.sparse import KeyedJaggedTensor, KeyedTensor


class EmbeddingBagContext:
    """What one batch needs from its input exchange to its output exchange."""

    def __init__(self) -> None:
        self.features: KeyedJaggedTensor | None = None
        self.replicated: Tensor | None = None


class ShardedEmbeddingBagCollection(ShardedTables[EmbeddingBagConfig]):
    """An EmbeddingBagCollection whose tables are divided among the ranks of a group, as a plan says.

    It takes the ids of this rank's batch and gives their pooled rows, lazily. Gradients are those of the mean of the
    ranks' losses. A fused collection, and one with a `rule` or an optimizer that `apply_optimizer_in_backward` gave
    it, steps in the backward pass, which all ranks run; tables that each rank has step so in a fused collection alone,
    and have gradients in others, as in TorchRec. Weights are those that the collection has; where it is on the
    device `meta`, each rank makes its own part alone. State dicts have the keys of the collection that is not divided.
    Errors: E024 for a plan of other tables, and those of the collection.

    sharded = ShardedEmbeddingBagCollection(collection, plan.get_plan_for_module("sparse"), group)
    sharded(ids)["user"]
    """

    def __init__(
        self,
        module: EmbeddingBagCollection,
        table_name_to_parameter_sharding: EmbeddingModuleShardingPlan,
        env: ProcessGroup,
        groups: Groups | None = None,
        qcomms: QCommsConfig = EXACT,
        rule: RowRule | None = None,
    ) -> None:
        super().__init__(module.embedding_bag_configs(), table_name_to_parameter_sharding, env)
        self._is_weighted = module.is_weighted()
        widths = [sum(self._cover.widths(rank)) for rank in range(env.size)]
        self._output = PooledEmbeddingsAllToAll(env, widths, qcomms)
        dtypes = {table.data_type.dtype for table in self._of(self._divided)}
        self._dtype = dtypes.pop() if len(dtypes) == 1 else rl.float32  # all ranks send numbers of one kind
        self._hold(module, groups or (lambda ranks: env), rule or own_rule(module))

    def _hold(self, module: EmbeddingBagCollection, groups: Groups, rule: RowRule | None) -> None:
        """Make what this rank has of the tables."""
        given = given_weights(module.weights_of_tables())
        weights, rank = [given[place] for place in self._divided.tables], self._group.rank
        own = self._of(self._divided)
        local = local_tables(own, weights, self._cover, rank, rule, self._is_weighted, self._group.size, groups)
        replicated = None
        if self._whole.tables:
            kept = [given[place] for place in self._whole.tables]
            steps = rule_of_replicated(module, rule)
            replicated = ReplicatedTables(self._of(self._whole), kept, steps, self._is_weighted, self._group)
        self._local = (local, replicated)
        whole = None if replicated is None else replicated.local
        self._keep(module.path, local, whole, rule)

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Return the descriptions of the tables."""
        return list(self._tables)

    def create_context(self) -> EmbeddingBagContext:
        """Return what holds the state of one batch."""
        return EmbeddingBagContext()

    def input_dist(self, ctx: EmbeddingBagContext, features: KeyedJaggedTensor) -> Awaitable[Awaitable[Received]]:
        """Begin to send ids to the ranks that have their rows; to be waited for twice, as KJTAllToAll."""
        chosen = self._slots.chosen(features)
        known_ids(chosen, self._limits)
        ctx.features = chosen
        routed = self._router.routed(self._divided.features(chosen), self._is_weighted)
        return routed.sending.begin(self._group, self._route_counts(), chosen.stride())

    def compute(self, ctx: EmbeddingBagContext, dist_input: Received) -> Tensor:
        """Look up the ids of all ranks in the tables of this one."""
        local, replicated = self._local
        if replicated is not None:  # here, since a batch's ids may be sent before the step of the one before it
            assert ctx.features is not None
            own = self._whole.features(ctx.features)
            ctx.replicated = replicated.pooled(own, own.weights() if self._is_weighted else None)
        if local is None:
            # The backward pass of the exchanges runs here too, for others' sake.
            weights = dist_input.weights
            nothing = rl.zeros(sum(dist_input.batches), 0) + (self._anchor if weights is None else weights.sum())
            return nothing.to(self._dtype)
        pooled = local.pooled(dist_input.values, offsets_of(dist_input.lengths), dist_input.weights)
        return pooled.to(self._dtype)

    def output_dist(
        self, ctx: EmbeddingBagContext, output: Tensor, batches: Sequence[int]
    ) -> LazyAwaitable[KeyedTensor]:
        """Begin to send pooled rows back."""
        parts = self._output.parts(output, batches)
        return LazyAwaitable(lambda: self._keyed(ctx, parts.wait()))

    def compute_and_output_dist(self, ctx: EmbeddingBagContext, input: Received) -> LazyAwaitable[KeyedTensor]:
        """Look up, and begin to send back."""
        return self.output_dist(ctx, self.compute(ctx, input), input.batches)

    def _keyed(self, ctx: EmbeddingBagContext, parts: Sequence[Tensor]) -> KeyedTensor:
        pooled: list[list[Tensor]] = [[] for _ in self._slots.tables]
        for slot, columns in zip(self._divided.slots, summed_blocks(self._cover, parts), strict=True):
            pooled[slot] = columns
        if ctx.replicated is not None:
            dims = [self._slots.dims[slot] for slot in self._whole.slots]
            for slot, columns in zip(self._whole.slots, ctx.replicated.split(dims, 1), strict=True):
                pooled[slot] = [columns]
        values = rl.cat([piece for own in self._scaled(ctx, pooled) for piece in own], 1)
        return KeyedTensor(self._slots.names, self._slots.dims, values)

    def _scaled(self, ctx: EmbeddingBagContext, pooled: Sequence[list[Tensor]]) -> Sequence[list[Tensor]]:
        means = [self._tables[place].pooling is PoolingType.MEAN for place in self._slots.tables]
        if not any(means):
            return pooled
        assert ctx.features is not None
        lengths = ctx.features.lengths().reshape(len(means), -1).clamp(min=1)
        return [
            [piece / lengths[slot].to(piece.dtype).unsqueeze(1) for piece in own] if mean else own
            for slot, (own, mean) in enumerate(zip(pooled, means, strict=True))
        ]


def own_rule(module: EmbeddingBagCollection | EmbeddingCollection) -> RowRule | None:
    """Return how a collection updates rows in the backward pass; None if it has gradients."""
    return module.groups()[0].rule if isinstance(module, FusedTables) else rule_of_weights(module.weights_of_tables())


def rule_of_replicated(module: Module, rule: RowRule | None) -> RowRule | None:
    """Return how tables that each rank has are updated in the backward pass; None if they have gradients."""
    return rule if isinstance(module, FusedTables) else None


def given_weights(weights: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the weights that tables begin with: None on the device `meta`."""
    return [None if one.device.type == "meta" else one.detach() for one in weights]


def summed_blocks(cover: Cover, parts: Sequence[Tensor]) -> list[list[Tensor]]:
    """Return for each slot its columns, from what each rank has; row blocks are summed in order."""
    pieces: list[dict[int, list[tuple[int, Tensor]]]] = [{} for _ in cover.slots]
    for routes, part in zip(cover.routes, parts, strict=True):
        ranges = [(route, columns) for route in routes for columns in route.held.columns]
        widths = [end - first for _, (first, end) in ranges]
        for (route, columns), piece in zip(ranges, part.split(widths, 1), strict=True):
            pieces[route.slot].setdefault(route.held.block, []).append((columns[0], piece))
    return [_slot_columns(blocks) for blocks in pieces]


def _slot_columns(blocks: Mapping[int, list[tuple[int, Tensor]]]) -> list[Tensor]:
    rows = [[piece for _, piece in sorted(blocks[block], key=lambda one: one[0])] for block in sorted(blocks)]
    if len(rows) == 1:
        return rows[0]
    total, *rest = [own[0] if len(own) == 1 else rl.cat(own, 1) for own in rows]
    for block in rest:
        total = total + block
    return [total]
