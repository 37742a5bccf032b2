"""The tables that one rank holds: parts of larger ones, as a collection of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

import rushlight as rl
from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.distributed import ProcessGroup
from rushlight.distributed.tensor.layout import Box
from rushlight.ops import collective
from rushlight.ops.ragged import pooled_segments
from rushlight.recsys.configs import BaseEmbeddingConfig, EmbeddingBagConfig, PoolingType, Table
from rushlight.recsys.distributed.cover import Cover, Held
from rushlight.recsys.modules import EmbeddingBagCollection, FusedEmbeddingBagCollection
from rushlight.recsys.optim import RowRule, RowSums
from rushlight.recsys.sparse.segments import prefix_sums

Groups = Callable[[Sequence[int]], ProcessGroup]
"""The group of some ranks."""


class SharedRows(RowSums):
    """Figures of rows whose columns several ranks hold. Sums are in the order of ranks, so that all have the same bits.

    All these ranks are sent the same ids, and so call in the same order.
    """

    def __init__(self, columns: int, group: ProcessGroup) -> None:
        self._columns, self._group = columns, group

    def mean(self, rows: Tensor) -> Tensor:
        """Return the mean of each whole row."""
        return self._total(rows.sum(1)) / self._columns

    def norm(self, rows: Tensor) -> Tensor:
        """Return the length of each whole row."""
        return self._total((rows * rows).sum(1)).sqrt()

    def _total(self, part: Tensor) -> Tensor:
        parts = collective.all_gather_into_tensor(part.unsqueeze(0), self._group.size, self._group.name)
        return parts.sum(0)


class LocalTables(Protocol):
    """What a rank holds: weights, and with a rule the states of rows, both by local table."""

    def weights_of_tables(self) -> list[Tensor]:
        """Return the weights."""
        ...

    def states_of_tables(self) -> list[dict[str, Tensor]]:
        """Return the states of rows, and the step."""
        ...


def local_configs(tables: Sequence[Table], weights: Sequence[Tensor | None], cover: Cover, rank: int) -> list[Table]:
    """Return the descriptions of a rank's local tables; they begin with their part of the weights."""
    routes = cover.routes[rank]
    return [
        replace(
            tables[held.table],
            name=f"{tables[held.table].name}@{held.block}",
            num_embeddings=held.height,
            embedding_dim=held.width,
            feature_names=[f"{route.slot}@{held.block}" for route in routes if route.held == held],
            weight_init_min=tables[held.table].get_weight_init_min(),
            weight_init_max=tables[held.table].get_weight_init_max(),
            init_fn=_filling(held, weights[held.table]) or tables[held.table].init_fn,
        )
        for held in cover.held[rank]
    ]


def _filling(held: Held, weight: Tensor | None) -> Callable[[Tensor], object] | None:
    if weight is None:
        return None
    first, end = held.rows
    return lambda rows: rows.copy_(rl.cat([weight[first:end, low:high] for low, high in held.columns], 1))


class LocalFused(FusedEmbeddingBagCollection):
    """Local tables with their optimizer, which steps as if the loss were the mean of those of all ranks.

    `shared` has figures of rows that are parts of longer ones, by table.
    """

    def __init__(
        self,
        tables: Sequence[EmbeddingBagConfig],
        rule: RowRule,
        is_weighted: bool,
        shared: Mapping[int, RowSums],
        ranks: int,
    ) -> None:
        self._shared, self._ranks = shared, ranks
        super().__init__(tables, type(rule), asdict(rule), is_weighted)

    def _row_sums(self) -> Mapping[int, RowSums]:
        return self._shared

    def slot_count(self) -> int:
        """Return the number of features that are looked up."""
        return len(self._slots.tables)


class Divided(Function):
    """A tensor whose gradient is divided."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, by: int) -> Tensor:
        """Return the tensor."""
        ctx.by = by
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Divide."""
        return gradients[0] / ctx.by, None


class LocalDense(EmbeddingBagCollection):
    """Local tables with gradients, which are those of the mean of the losses of `ranks`."""

    def __init__(self, tables: Sequence[EmbeddingBagConfig], is_weighted: bool, ranks: int) -> None:
        self._ranks = ranks
        super().__init__(tables, is_weighted)

    def pooled(self, ids: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        """Return the pooled rows of ids that are known to be rows of their tables."""
        tables = [Divided.apply(weight, self._ranks) for weight in self.weights_of_tables()]
        return pooled_segments(tables, ids, offsets, weights, self._slots.tables, self._means)


def shared_sums(
    tables: Sequence[BaseEmbeddingConfig], cover: Cover, rank: int, rule: RowRule | None, groups: Groups
) -> dict[int, RowSums]:
    """Return what rows are summed over, by local table, for those whose columns several ranks hold."""
    shared: dict[int, RowSums] = {}
    places = {(held.table, held.block): place for place, held in enumerate(cover.held[rank])}
    if rule is not None and rule.couples_columns():
        for key, holders in cover.holders.items():  # groups are made on all ranks
            if len(holders) > 1:
                group = groups(holders)
                if key in places:
                    shared[places[key]] = SharedRows(tables[key[0]].embedding_dim, group)
    return shared


def local_tables(
    tables: Sequence[EmbeddingBagConfig],
    weights: Sequence[Tensor | None],
    cover: Cover,
    rank: int,
    rule: RowRule | None,
    is_weighted: bool,
    ranks: int,
    groups: Groups,
) -> LocalFused | LocalDense | None:
    """Return the local tables of a rank, or None where it has none. Losses are meant over so many ranks."""
    shared = shared_sums(tables, cover, rank, rule, groups)
    # Means are taken where the batch is, of the sums of all row blocks.
    summed = [replace(table, pooling=PoolingType.SUM) for table in tables]
    configs = local_configs(summed, weights, cover, rank)
    if not configs:
        return None
    if rule is None:
        return LocalDense(configs, is_weighted, ranks)
    return LocalFused(configs, rule, is_weighted, shared, ranks)


def boxes_of(held: Held, values: Tensor) -> list[tuple[Box, Tensor]]:
    """Return the boxes of a table that lie in an entry for each row of a local one: numbers, or one for each row."""
    if values.ndim == 1:
        return [((held.rows,), values)]
    ends = prefix_sums([end - first for first, end in held.columns])
    return [
        ((held.rows, columns), values[:, low:high])
        for columns, low, high in zip(held.columns, ends, ends[1:], strict=False)
    ]
