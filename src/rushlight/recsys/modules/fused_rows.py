"""Lookups of rows whose optimizer runs in the backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.recsys.configs import EmbeddingConfig
from rushlight.recsys.modules.embedding import EmbeddingCollection
from rushlight.recsys.modules.groups import FusedTables, Named, TableGroup, grouped, weights_of
from rushlight.recsys.optim import SGD, rule_of


class _Rows(Function):
    """The rows of each group's ids; the backward pass is the step of all groups, in their order."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, lookup: GroupedRows, ids: Tensor, bounds: Sequence[int]
    ) -> tuple[Tensor, ...]:
        """Look the ids up."""
        del anchor
        ctx.lookup, ctx.bounds = lookup, tuple(bounds)
        ctx.save_for_backward(ids)
        return tuple([group.weight.index_select(0, lookup.numbers(group, ids, bounds)) for group in lookup.groups])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        """Step."""
        (ids,) = ctx.saved_tensors
        with rl.no_grad():
            for group, gradient in zip(ctx.lookup.groups, gradients, strict=True):
                ctx.lookup.step(group, ids, ctx.bounds, gradient)
        return None, None, None, None


def _each(rows: Tensor, gradients: Tensor) -> Named:
    """Rows that have a gradient each."""
    return rows, gradients, rl.arange(rows.shape[0]), None


class GroupedRows:
    """Rows of tables in groups. Ids are by slot; `places` says which table each slot reads."""

    def __init__(self, groups: Sequence[TableGroup], places: Sequence[int]) -> None:
        self.groups = list(groups)
        self._firsts = [
            {slot: group.first[place] for slot, place in enumerate(places) if place in group.first} for group in groups
        ]
        self._count = len(places)
        self._anchor = rl.zeros((), requires_grad=True)

    def slots_of(self, group: TableGroup) -> list[int]:
        """Return the slots whose tables are in a group."""
        return list(self._firsts[self.groups.index(group)])

    def numbers(self, group: TableGroup, ids: Tensor, bounds: Sequence[int]) -> Tensor:
        """Return the rows of a group that the ids of its slots name; a slot's ids lie between two bounds."""
        firsts = self._firsts[self.groups.index(group)]
        return rl.cat([ids[bounds[slot] : bounds[slot + 1]].long() + first for slot, first in firsts.items()])

    def rows(self, ids: Tensor, bounds: Sequence[int]) -> list[Tensor]:
        """Return the rows of each slot's ids. Their backward pass is the step."""
        found: dict[int, Tensor] = {}
        for group, rows in zip(self.groups, _Rows.apply(self._anchor, self, ids, bounds), strict=True):
            slots = self.slots_of(group)
            counts = [bounds[slot + 1] - bounds[slot] for slot in slots]
            found |= dict(zip(slots, rows.split(counts), strict=True))
        return [found[slot] for slot in range(self._count)]

    def step(self, group: TableGroup, ids: Tensor, bounds: Sequence[int], gradient: Tensor) -> None:
        """Update the rows of a group that ids name, given the gradients of what was looked up."""
        group.apply(_each, self.numbers(group, ids, bounds), gradient)


class FusedEmbeddingCollection(FusedTables, EmbeddingCollection):
    """An EmbeddingCollection that is trained by `backward()` alone; see FusedEmbeddingBagCollection.

    FusedEmbeddingCollection(tables, RowWiseAdagrad, {"lr": 0.1})

    A backward pass is one step of each table, for all features that read it.
    """

    def __init__(
        self,
        tables: Sequence[EmbeddingConfig],
        optimizer_type: type[object] = SGD,
        optimizer_kwargs: Mapping[str, Any] | None = None,
        device: Any = None,
        need_indices: bool = False,
    ) -> None:
        super().__init__(tables, "meta", need_indices)
        self._groups = grouped(self._tables, rule_of(optimizer_type, optimizer_kwargs or {}), device)
        for name, weight in weights_of(self._groups, self._tables).items():
            self.embeddings[name].weight = weight
        self._lookup = GroupedRows(self._groups, self._slots.tables)

    def rows(self, ids: Tensor, bounds: Sequence[int]) -> list[Tensor]:
        """Return the rows of each slot's ids; their backward pass is the step."""
        return self._lookup.rows(ids, bounds)
