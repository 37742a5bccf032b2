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
from rushlight.recsys.modules.groups import FusedTables, grouped, weights_of
from rushlight.recsys.optim import SGD, RowSums, rule_of
from rushlight.recsys.sparse.segments import lengths_of


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

    def step_of(self, ids: Tensor, offsets: Tensor, weights: Tensor | None, gradient: Tensor) -> None:
        """Update the rows of the ids, given the gradient of the pooled rows."""
        count = len(self._slots.tables)
        batch = (offsets.shape[0] - 1) // count
        numbers = segment_numbers(offsets, ids.shape[0])
        feature, bag = numbers // max(batch, 1), numbers % max(batch, 1)
        scales = self._scales(offsets, numbers, feature, weights)
        blocks = gradient.split(self._columns, 1)
        for group in self._groups:
            slots = [slot for slot, place in enumerate(self._slots.tables) if place in group.first]
            own = rl.stack([blocks[slot] for slot in slots]).reshape(len(slots) * batch, -1)
            if len(slots) == count:
                first = rl.tensor([group.first[place] for place in self._slots.tables])
                group.apply(first[feature] + ids, own, feature * batch + bag, scales)
                continue
            rank = rl.full((count,), -1, dtype=rl.int64)
            rank[rl.tensor(slots)] = rl.arange(len(slots))
            first = rl.tensor([group.first.get(place, 0) for place in self._slots.tables])
            chosen = (rank[feature] >= 0).nonzero().flatten()
            kind = feature[chosen]
            kept = None if scales is None else scales[chosen]
            group.apply(first[kind] + ids[chosen], own, rank[kind] * batch + bag[chosen], kept)

    def _scales(self, offsets: Tensor, numbers: Tensor, feature: Tensor, weights: Tensor | None) -> Tensor | None:
        """What the gradient of each id's row is multiplied by."""
        if not any(self._means):
            return weights
        lengths = lengths_of(offsets).float()
        return rl.where(rl.tensor(self._means)[feature], 1 / lengths[numbers], 1.0)

    def weight_gradient(self, ids: Tensor, offsets: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of the weights of ids, given that of the pooled rows."""
        batch = (offsets.shape[0] - 1) // len(self._slots.tables)
        numbers = segment_numbers(offsets, ids.shape[0])
        parts: list[Tensor] = []
        ends = rl.searchsorted(numbers, rl.arange(len(self._slots.tables) + 1) * batch).tolist()
        for slot, block in enumerate(gradient.split(self._columns, 1)):
            low, high = ends[slot], ends[slot + 1]
            rows = self.weights_of_tables()[self._slots.tables[slot]][ids[low:high]]
            parts.append((rows * block[numbers[low:high] - slot * batch]).sum(1))
        return rl.cat(parts)
