"""Pooled collections whose optimizer runs in the backward pass: a table has no gradient in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.ops.ragged import segment_numbers
from rushlight.recsys.configs import EmbeddingBagConfig
from rushlight.recsys.modules.embedding_bag import EmbeddingBagCollection
from rushlight.recsys.modules.groups import FusedTables, TableGroup, grouped, weights_of
from rushlight.recsys.optim import SGD, RowSums, rule_of
from rushlight.recsys.sparse.segments import lengths_of
from rushlight.support.frozen import frozen


@frozen(eq=False)
class _GroupSlots:
    """The slots whose tables are in a group.

    Of each slot its number among these, or -1, and its table's first row.
    """

    slots: list[int]
    rank: Tensor
    first: Tensor

    @staticmethod
    def of(group: TableGroup, tables: Sequence[int]) -> _GroupSlots:
        """Return those of a group; `tables` says which table each slot reads."""
        slots = [slot for slot, table in enumerate(tables) if table in group.first]
        rank = rl.full((len(tables),), -1, dtype=rl.int64)
        rank[rl.tensor(slots)] = rl.arange(len(slots))
        return _GroupSlots(slots, rank, rl.tensor([group.first.get(table, 0) for table in tables]))


class _Pooled(Function):
    """A lookup whose backward pass is the optimizer's step."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, collection: FusedEmbeddingBagCollection, ids: Tensor, offsets: Tensor, weights: Any
    ) -> Tensor:
        """Look the ids up."""
        del anchor
        ctx.collection = collection
        ctx.save_for_backward(ids, offsets, *(() if weights is None else (weights,)))
        return collection.looked_up(ids, offsets, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Step, and give the gradient of the weights where it is wanted."""
        ids, offsets, *weights = ctx.saved_tensors
        own, passed = (weights[0] if weights else None), None
        with rl.no_grad():
            if ctx.needs_input_grad[4]:
                passed = ctx.collection.weight_gradient(ids, offsets, gradients[0])
            ctx.collection.step_of(ids, offsets, own, gradients[0])
        return None, None, None, None, passed


class FusedEmbeddingBagCollection(FusedTables, EmbeddingBagCollection):
    """An EmbeddingBagCollection that is trained by `backward()` alone.

    FusedEmbeddingBagCollection(tables, RowWiseAdagrad, {"lr": 0.1})

    `optimizer_type` is a class of `rl.recsys.optim`, or one of `rl.optim` that it has a rule for. Weights are
    parameters that want no gradient; `fused_optimizer_state()` has the states by TorchRec's keys.
    """

    def __init__(
        self,
        tables: Sequence[EmbeddingBagConfig],
        optimizer_type: type[object] = SGD,
        optimizer_kwargs: Mapping[str, Any] | None = None,
        is_weighted: bool = False,
        device: Any = None,
    ) -> None:
        super().__init__(tables, is_weighted, device="meta")
        rule = rule_of(optimizer_type, optimizer_kwargs or {})
        self._groups = grouped(self._tables, rule, device, self._row_sums())
        for name, weight in weights_of(self._groups, self._tables).items():
            self.embedding_bags[name].weight = weight
        self._slots_of_groups = [_GroupSlots.of(group, self._slots.tables) for group in self._groups]
        self._views = {
            place: group.rows_of(self._tables[place], place, group.weight)
            for group in self._groups
            for place in group.places
            if len(group.places) > 1
        }
        self._has_mean = rl.tensor(self._means)
        self._anchor = rl.zeros((), requires_grad=True)

    def _row_sums(self) -> Mapping[int, RowSums]:
        """What rows are summed over, for tables that are part of larger ones."""
        return {}

    def pooled(self, ids: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        """Return the pooled rows of ids; their backward pass is the step."""
        return _Pooled.apply(self._anchor, self, ids, offsets, weights)

    def looked_up(self, ids: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        """Return the pooled rows, without history."""
        return super().pooled(ids, offsets, weights)

    def tables_to_read(self) -> list[Tensor]:
        """Return tables of groups as views of these: a graph has one memory for what it reads and writes."""
        return [self._views.get(place, weight) for place, weight in enumerate(self.weights_of_tables())]

    def step_of(self, ids: Tensor, offsets: Tensor, weights: Tensor | None, gradient: Tensor) -> None:
        """Update the rows of the ids, given the gradient of the pooled rows."""
        count = len(self._slots.tables)
        batch = (offsets.shape[0] - 1) // count
        numbers = segment_numbers(offsets, ids.shape[0])
        feature = numbers // max(batch, 1)
        scales = self._scales(offsets, numbers, feature, weights)
        blocks = gradient.split(self._columns, 1)
        for group, own in zip(self._groups, self._slots_of_groups, strict=True):
            pooled = rl.stack([blocks[slot] for slot in own.slots]).reshape(len(own.slots) * batch, -1)
            if len(own.slots) == count:
                group.apply(own.first[feature] + ids, pooled, numbers, scales)
                continue
            chosen = (own.rank[feature] >= 0).nonzero().flatten()
            kind = feature[chosen]
            kept = None if scales is None else scales[chosen]
            bags = own.rank[kind] * batch + numbers[chosen] % max(batch, 1)
            group.apply(own.first[kind] + ids[chosen], pooled, bags, kept)

    def _scales(self, offsets: Tensor, numbers: Tensor, feature: Tensor, weights: Tensor | None) -> Tensor | None:
        """What the gradient of each id's row is multiplied by."""
        if not any(self._means):
            return weights
        lengths = lengths_of(offsets).float()
        return rl.where(self._has_mean[feature], 1 / lengths[numbers], 1.0)

    def weight_gradient(self, ids: Tensor, offsets: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of the weights of ids, given that of the pooled rows."""
        count, tables = len(self._slots.tables), self.weights_of_tables()
        batch = (offsets.shape[0] - 1) // count
        numbers = segment_numbers(offsets, ids.shape[0])
        parts: list[Tensor] = []
        ends = offsets[rl.arange(count + 1) * batch].tolist()
        for slot, block in enumerate(gradient.split(self._columns, 1)):
            low, high = ends[slot], ends[slot + 1]
            rows = tables[self._slots.tables[slot]][ids[low:high]]
            parts.append((rows * block[numbers[low:high] - slot * batch]).sum(1))
        return rl.cat(parts)
