"""Which ids go where: ids of features, divided by row blocks, in the order of the routes of a cover."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.eager.composite.segments import lengths_of, offsets_of, taken_segments
from rushlight.ops.ragged import segment_numbers
from rushlight.recsys.distributed.cover import Cover
from rushlight.recsys.distributed.exchange import Sending
from rushlight.recsys.sparse import KeyedJaggedTensor
from rushlight.recsys.sparse.segments import as_graph, prefix_sums
from rushlight.support.frozen import frozen


@frozen(eq=False)
class _Blocks:
    """Ids by block of each slot and then by example: lengths of a batch for each block, ids counted in their block."""

    lengths: Tensor
    ids: Tensor
    weights: Tensor | None
    order: Tensor | None  # which id each one was


@frozen(eq=False)
class Routed:
    """What goes to each rank, how many ids each route has, and the order of the ids of all blocks."""

    sending: Sending
    counts: list[int]
    order: Tensor | None


class Router:
    """Divides the ids of the slots of a cover by row blocks, and puts them in the order of its routes."""

    def __init__(self, cover: Cover) -> None:
        self._divided, self._count = cover.is_divided(), cover.first_blocks[-1]
        self._routes = [
            cover.first_blocks[route.slot] + route.held.block for routes in cover.routes for route in routes
        ]
        self._ends = prefix_sums([len(routes) for routes in cover.routes])
        self._in_order = self._routes == list(range(self._count))
        self._order = rl.tensor(self._routes, dtype=rl.int64)
        # All tables as rows of one long table, so that one search finds the block of every id.
        bases = prefix_sums([cover.shapes[table][0] for table in cover.slots])
        self._bases = rl.tensor(bases[:-1], dtype=rl.int64)
        starts = [
            base + first for base, table in zip(bases, cover.slots, strict=False) for first in cover.starts[table]
        ]
        self._starts = rl.tensor(starts, dtype=rl.int64)

    @property
    def blocks(self) -> list[int]:
        """The block of each route, counted through all slots."""
        return self._routes

    def routed(self, features: KeyedJaggedTensor, weighted: bool) -> Routed:
        """Return what goes to each rank. Ids are rows of their tables, which has been checked."""
        batch = features.stride()
        weights = features.weights() if weighted else None
        blocks = _Blocks(features.lengths(), features.values(), weights, None)
        if self._divided:
            blocks = self._by_block(features, weights, batch)
            ends = offsets_of(blocks.lengths.long())[rl.arange(self._count + 1) * batch]
        else:
            ends = features.key_offsets()
        return self._by_route(blocks, ends.tolist())

    def _by_block(self, features: KeyedJaggedTensor, weights: Tensor | None, batch: int) -> _Blocks:
        ids = features.values().long()
        numbers = segment_numbers(features.offsets(), ids.shape[0])
        slot, example = numbers // max(batch, 1), numbers % max(batch, 1)
        row = ids + self._bases[slot]
        block = rl.searchsorted(self._starts, row, right=True) - 1
        inside = row - self._starts[block]
        order = block.argsort(stable=True)
        lengths = (block * batch + example).bincount(minlength=self._count * batch)
        return _Blocks(lengths, inside[order], None if weights is None else weights[order], order)

    def _by_route(self, blocks: _Blocks, ends: Sequence[int]) -> Routed:
        counts = [ends[block + 1] - ends[block] for block in self._routes]
        sums = prefix_sums(counts)
        to_ranks = [sums[end] - sums[first] for first, end in itertools.pairwise(self._ends)]
        if self._in_order:
            return Routed(Sending(blocks.lengths, blocks.ids, blocks.weights, to_ranks), counts, blocks.order)
        own = blocks.lengths, blocks.ids, blocks.weights
        kind = (blocks.weights is None, blocks.lengths.dtype, blocks.ids.dtype)
        room = rl.empty(sums[-1], dtype=rl.uint8)
        lengths, ids, weights = as_graph(_in_order, kind, *own, rl.tensor(list(ends)), self._order, room)
        return Routed(Sending(lengths, ids, weights, to_ranks), counts, blocks.order)


def _in_order(
    lengths: Tensor, ids: Tensor, weights: Tensor | None, ends: Tensor, order: Tensor, room: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Lengths, ids and weights of the blocks that an order names; `room` is as large as all of them."""
    blocks = ends.shape[0] - 1
    by_block = lengths.reshape(blocks, lengths.shape[0] // blocks)[order]
    places = taken_segments(ends[:-1][order], lengths_of(ends)[order], room.shape[0])
    return by_block.reshape(-1), ids[places], None if weights is None else weights[places]


class _Moved(Function):
    """Rows in another order; `back` is that of their gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, back: Tensor) -> Tensor:
        """Move."""
        ctx.save_for_backward(back)
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Move back."""
        (back,) = ctx.saved_tensors
        return gradients[0].index_select(0, back), None, None


def moved_back(rows: Tensor, order: Tensor) -> Tensor:
    """Return rows where they came from: row k of `rows` is row `order[k]` of the result."""
    back = rl.empty_like(order).index_copy_(0, order, rl.arange(order.shape[0]))
    return _Moved.apply(rows, back, order)


def transposed(rows: Tensor, counts: Sequence[Sequence[int]]) -> Tensor:
    """Return runs of rows in column-major order. `counts` are the lengths of the runs as they lie, in row-major order.

    transposed(rows, counts_by_route_and_rank)  # by rank, then by route
    """
    columns = [list(column) for column in zip(*counts, strict=True)]
    if len(counts) <= 1 or len(columns) <= 1:
        return rows
    return _Moved.apply(rows, transposing(counts), transposing(columns))


def transposing(counts: Sequence[Sequence[int]]) -> Tensor:
    """Return the places of rows in the order of `transposed`."""
    inner = len(counts[0])
    starts = prefix_sums([count for run in counts for count in run])
    order = [outer * inner + place for place in range(inner) for outer in range(len(counts))]
    lengths = rl.tensor([counts[run // inner][run % inner] for run in order], dtype=rl.int64)
    return taken_segments(rl.tensor([starts[run] for run in order], dtype=rl.int64), lengths, starts[-1])
