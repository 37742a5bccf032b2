"""Tables of which each rank has all: a rank looks up its own batch, and all take the step of all batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.distributed import ProcessGroup
from rushlight.eager.composite.segments import offsets_of
from rushlight.ops import collective
from rushlight.recsys.configs import BaseEmbeddingConfig, EmbeddingBagConfig
from rushlight.recsys.distributed.cover import Cover, TableBox
from rushlight.recsys.distributed.exchange import Received, Sending
from rushlight.recsys.distributed.local import LocalFused, local_tables
from rushlight.recsys.modules.tables import Slots
from rushlight.recsys.optim import RowRule
from rushlight.recsys.sparse import KeyedJaggedTensor


def whole_cover(tables: Sequence[BaseEmbeddingConfig]) -> Cover:
    """Return the cover of tables that one rank has all of."""
    whole = [[TableBox((0, table.num_embeddings), (0, table.embedding_dim), 0)] for table in tables]
    names, shapes = [table.name for table in tables], [table.shape for table in tables]
    return Cover(names, shapes, whole, Slots(tables).tables, 1)


class ReplicatedTables:
    """Tables that each rank has. With a rule they step in the backward pass, else they have gradients.

    The step is that of the ids and the gradients of all ranks, in their order, so that tables stay the same.
    """

    def __init__(
        self,
        tables: Sequence[EmbeddingBagConfig],
        weights: Sequence[Tensor | None],
        rule: RowRule | None,
        is_weighted: bool,
        group: ProcessGroup,
    ) -> None:
        cover = whole_cover(tables)
        # Gradients of whole tables are reduced by who wraps the model.
        ranks = 1 if rule is None else group.size
        local = local_tables(tables, weights, cover, 0, rule, is_weighted, ranks, lambda ranks: group)
        assert local is not None
        self.local, self._group = local, group
        self._anchor = rl.zeros((), requires_grad=True)

    def pooled(self, features: KeyedJaggedTensor, weights: Tensor | None) -> Tensor:
        """Return the sums of rows of this rank's batch."""
        ids, offsets = features.values(), features.offsets()
        if isinstance(self.local, LocalFused):
            return _Replicated.apply(self._anchor, self.local, self._group, ids, offsets, features.lengths(), weights)
        return self.local.pooled(ids, offsets, weights)


class _Replicated(Function):
    """A lookup whose backward pass is the step of all ranks' batches."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        tables: LocalFused,
        group: ProcessGroup,
        ids: Tensor,
        offsets: Tensor,
        lengths: Tensor,
        weights: Tensor | None,
    ) -> Tensor:
        """Look the ids up."""
        del anchor
        ctx.tables, ctx.group = tables, group
        ctx.save_for_backward(ids, offsets, lengths, *(() if weights is None else (weights,)))
        return tables.looked_up(ids, offsets, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Step, and give the gradient of the weights where it is wanted."""
        ids, offsets, lengths, *weights = ctx.saved_tensors
        own, passed = (weights[0] if weights else None), None
        with rl.no_grad():
            if ctx.needs_input_grad[6]:
                passed = ctx.tables.weight_gradient(ids, offsets, gradients[0])
            all_ids, all_gradients = _of_all_ranks(ctx.tables, lengths, ids, own, gradients[0], ctx.group)
            ends = offsets_of(all_ids.lengths)
            ctx.tables.step_of(all_ids.values, ends, all_ids.weights, all_gradients)
        return None, None, None, None, None, None, passed


def _of_all_ranks(
    tables: LocalFused, lengths: Tensor, ids: Tensor, weights: Tensor | None, gradient: Tensor, group: ProcessGroup
) -> tuple[Received, Tensor]:
    """The ids of all ranks, and the gradients of their pooled rows."""
    received = sent_to_all(lengths, ids, weights, gradient.shape[0], tables.slot_count(), group)
    rows = collective.all_gather_into_tensor(gradient, group.size, group.name, tuple(received.batches))
    return received, rows


def sent_to_all(
    lengths: Tensor, ids: Tensor, weights: Tensor | None, batch: int, slots: int, group: ProcessGroup
) -> Received:
    """Return the ids of all ranks, by slot."""
    size = group.size
    everywhere = rl.cat([lengths] * size), rl.cat([ids] * size), None if weights is None else rl.cat([weights] * size)
    return Sending(*everywhere, [ids.shape[0]] * size).begin(group, [slots] * size, batch).wait().wait()
