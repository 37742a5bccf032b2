"""Pooled collections whose optimizer runs in the backward pass: a table has no gradient in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.eager.composite.segments import lengths_of
from rushlight.ops.ragged import segment_numbers
from rushlight.recsys.configs import EmbeddingBagConfig
from rushlight.recsys.modules.embedding_bag import EmbeddingBagCollection
from rushlight.recsys.modules.groups import FusedTables, Named, TableGroup, grouped, weights_of
from rushlight.recsys.modules.tables import Slots
from rushlight.recsys.optim import SGD, RowSums, rule_of
from rushlight.recsys.sparse.segments import prefix_sums
from rushlight.support.frozen import frozen


@frozen(eq=False)
class _GroupSlots:
    """How many slots have tables in a group, and the runs of columns that they are of pooled rows.

    Of each slot its table's first row, and its number among these, or -1; None if all slots are.
    """

    count: int
    columns: list[tuple[int, int]]
    first: Tensor
    number: Tensor | None

    @staticmethod
    def of(group: TableGroup, slots: Slots) -> _GroupSlots:
        """Return those of a group."""
        own = [slot for slot, table in enumerate(slots.tables) if table in group.first]
        ends = prefix_sums(slots.dims)
        columns: list[tuple[int, int]] = []
        for slot in own:
            start = columns.pop()[0] if columns and columns[-1][1] == ends[slot] else ends[slot]
            columns.append((start, ends[slot + 1]))
        first = rl.tensor([group.first.get(table, 0) for table in slots.tables])
        if len(own) == len(slots.tables):
            return _GroupSlots(len(own), columns, first, None)
        number = rl.full((len(slots.tables),), -1, dtype=rl.int64)
        number[rl.tensor(own)] = rl.arange(len(own))
        return _GroupSlots(len(own), columns, first, number)


def _of_bags(
    gradients: Tensor,
    ids: Tensor,
    offsets: Tensor,
    weights: Tensor | None,
    means: Tensor | None,
    first: Tensor,
    number: Tensor | None,
) -> Named:
    """The rows of a group that bags name. Gradients are by bag, then by those slots that have a number."""
    slots, batch = first.shape[0], max((offsets.shape[0] - 1) // first.shape[0], 1)
    bags = segment_numbers(offsets, ids.shape[0])
    feature = bags // batch
    if means is not None:
        weights = rl.where(means[feature], 1 / lengths_of(offsets).float()[bags], 1.0)
    rows, bag = first[feature] + ids, bags % batch
    if number is None:
        return rows, gradients, bag * slots + feature, weights
    chosen = (number[feature] >= 0).nonzero().flatten()
    members = bag * (gradients.shape[0] // batch) + number[feature]
    return rows[chosen], gradients, members[chosen], None if weights is None else weights[chosen]


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

    _ranks = 1

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
        self._groups = grouped(self._tables, rule, device, self._row_sums(), self._ranks)
        for name, weight in weights_of(self._groups, self._tables).items():
            self.embedding_bags[name].weight = weight
        self._slots_of_groups = [_GroupSlots.of(group, self._slots) for group in self._groups]
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
        means = self._has_mean if any(self._means) else None
        for group, own in zip(self._groups, self._slots_of_groups, strict=True):
            columns = [gradient[:, low:high] for low, high in own.columns]
            whole = columns[0] if len(columns) == 1 else rl.cat(columns, 1)
            rows = whole.reshape(gradient.shape[0] * own.count, group.weight.shape[1])
            group.apply(_of_bags, rows, ids, offsets, weights, means, own.first, own.number)

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
