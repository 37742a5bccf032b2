"""The tables that one rank holds, for lookups of rows."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed import ProcessGroup
from rushlight.ops import collective
from rushlight.recsys.configs import EmbeddingConfig
from rushlight.recsys.distributed.cover import Cover
from rushlight.recsys.distributed.local import Divided, Groups, local_configs, shared_sums
from rushlight.recsys.distributed.replicated import sent_to_all, whole_cover
from rushlight.recsys.distributed.routing import transposed
from rushlight.recsys.modules.fused_rows import GroupedRows
from rushlight.recsys.modules.groups import TableGroup, grouped, states_of, weights_of
from rushlight.recsys.modules.tables import Slots, initial_weight
from rushlight.recsys.optim import RowRule
from rushlight.recsys.sparse.segments import prefix_sums


class LocalRows:
    """Local tables that give rows. Gradients, and steps with a rule, are those of the mean of the ranks' losses."""

    def __init__(
        self,
        tables: Sequence[EmbeddingConfig],
        weights: Sequence[Tensor | None],
        cover: Cover,
        rank: int,
        rule: RowRule | None,
        group: ProcessGroup,
        groups: Groups,
    ) -> None:
        self.tables = local_configs(tables, weights, cover, rank)
        self._ranks = group.size
        shared = shared_sums(tables, cover, rank, rule, groups)
        self._slots = Slots(self.tables)
        self._groups = [] if rule is None else grouped(self.tables, rule, None, shared, group.size)
        self._lookup: GroupedRows | None = None
        if rule is None:
            self._weights: list[Tensor] = [rl.nn.Parameter(initial_weight(table)) for table in self.tables]
        else:
            named = weights_of(self._groups, self.tables)
            self._weights = [named[table.name] for table in self.tables]
            self._lookup = self._grouped_lookup(group)

    def _grouped_lookup(self, group: ProcessGroup) -> GroupedRows:
        return GroupedRows(self._groups, self._slots.tables)

    def weights_of_tables(self) -> list[Tensor]:
        """Return the weights, table by table."""
        return self._weights

    def groups(self) -> list[TableGroup]:
        """Return the tables as they lie in memory; none without a rule."""
        return self._groups

    def states_of_tables(self) -> list[dict[str, Tensor]]:
        """Return the states of rows, and the step, by table; nothing without a rule."""
        return [{} for _ in self.tables] if self._lookup is None else states_of(self._groups, self.tables)

    def rows(self, ids: Tensor, bounds: Sequence[int]) -> list[Tensor]:
        """Return the rows of each slot's ids, which lie between two bounds."""
        if self._lookup is not None:
            return self._lookup.rows(ids, bounds)
        return self._slots.looked_up(ids, bounds, [self._with_mean_gradient(weight) for weight in self._weights])

    def _with_mean_gradient(self, weight: Tensor) -> Tensor:
        return Divided.apply(weight, self._ranks)


class _OfAllRanks(GroupedRows):
    """Rows that each rank has: a step is of all ranks' ids, by slot and then by rank, so that they stay equal."""

    def __init__(self, groups: Sequence[TableGroup], places: Sequence[int], group: ProcessGroup) -> None:
        super().__init__(groups, places)
        self._group = group

    def step(self, group: TableGroup, ids: Tensor, bounds: Sequence[int], gradient: Tensor) -> None:
        """Exchange ids and gradients, and update the rows of a group."""
        slots = self.slots_of(group)
        counts = [bounds[slot + 1] - bounds[slot] if slot in slots else 0 for slot in range(len(bounds) - 1)]
        own = rl.cat([ids[bounds[slot] : bounds[slot + 1]] for slot in slots])
        received = sent_to_all(rl.tensor(counts), own, None, 1, len(counts), self._group)
        by_slot = received.counts(len(counts))
        of_ranks = [sum(column) for column in zip(*by_slot, strict=True)]
        rows = collective.all_gather_into_tensor(gradient, self._group.size, self._group.name, tuple(of_ranks))
        by_rank = [list(column) for column in zip(*by_slot, strict=True)]
        super().step(group, received.values, prefix_sums([sum(each) for each in by_slot]), transposed(rows, by_rank))


class ReplicatedRows(LocalRows):
    """Tables that each rank has all of. Without a rule their gradients are reduced by who wraps the model."""

    def __init__(
        self,
        tables: Sequence[EmbeddingConfig],
        weights: Sequence[Tensor | None],
        rule: RowRule | None,
        group: ProcessGroup,
    ) -> None:
        super().__init__(tables, weights, whole_cover(tables), 0, rule, group, lambda ranks: group)

    def _grouped_lookup(self, group: ProcessGroup) -> GroupedRows:
        return _OfAllRanks(self._groups, self._slots.tables, group)

    def _with_mean_gradient(self, weight: Tensor) -> Tensor:
        return weight
