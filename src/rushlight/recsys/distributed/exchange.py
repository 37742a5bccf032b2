"""Exchanges among ranks: the keys of jagged tensors go where tables are, pooled rows come back.

Each begins at once, and is waited for when its result is asked, so that what a program does in between overlaps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.distributed import ProcessGroup, all_to_all_single
from rushlight.distributed.engine.work import Work
from rushlight.eager.composite.segments import lengths_of, offsets_of, taken_segments
from rushlight.ops import collective
from rushlight.recsys.distributed.awaitable import Awaitable
from rushlight.recsys.distributed.precision import EXACT, QCommsConfig, decoded, encoded, encoded_counts
from rushlight.recsys.sparse import KeyedJaggedTensor
from rushlight.recsys.sparse.segments import as_graph, prefix_sums
from rushlight.support.errors import require

Counts = Sequence[int]


class _Sent(Function):
    """Elements that ranks send each other; their gradients go back."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, sent: Counts, taken: Counts, group: ProcessGroup, works: list[Work]) -> Tensor:
        """Begin, and return the memory that is written to until the work is waited for."""
        ctx.sent, ctx.taken, ctx.group = tuple(sent), tuple(taken), group
        result = flat.new_empty(sum(taken))
        work = all_to_all_single(result, flat, list(taken), list(sent), group, async_op=True)
        assert work is not None
        works.append(work)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Send the gradients back."""
        back = collective.all_to_all_single(gradients[0], ctx.sent, ctx.taken, ctx.group.name)
        return back, None, None, None, None


class _Coded(Function):
    """Numbers that ranks have sent each other as fewer bits; so do their gradients go back."""

    @staticmethod
    def forward(
        ctx: Any,
        flat: Tensor,
        received: Tensor,
        sent: Counts,
        taken: Counts,
        group: ProcessGroup,
        precision: QCommsConfig,
    ) -> Tensor:
        """Return what has come."""
        ctx.sent, ctx.taken, ctx.group, ctx.dtype = tuple(sent), tuple(taken), group, flat.dtype
        ctx.kind = precision.backward_precision
        return decoded(precision.forward_precision, received, taken).to(flat.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Send the gradients back."""
        counts = tuple(encoded_counts(ctx.kind, ctx.sent)), tuple(encoded_counts(ctx.kind, ctx.taken))
        coded = encoded(ctx.kind, gradients[0], ctx.taken)
        back = decoded(ctx.kind, collective.all_to_all_single(coded, *counts, ctx.group.name), ctx.sent)
        return back.to(ctx.dtype), None, None, None, None, None


def _exchange_coded(
    flat: Tensor, sent: Counts, taken: Counts, group: ProcessGroup, precision: QCommsConfig
) -> Awaitable[Tensor]:
    kind = precision.forward_precision
    with rl.no_grad():
        coded = encoded(kind, flat.detach(), sent)
        counts = encoded_counts(kind, sent), encoded_counts(kind, taken)
        received = coded.new_empty(sum(counts[1]))
        work = all_to_all_single(received, coded, counts[1], counts[0], group, async_op=True)
    assert work is not None

    def finish() -> Tensor:
        work.wait()
        return _Coded.apply(flat, received, sent, taken, group, precision)

    return Awaitable(finish)


def exchange(
    flat: Tensor, sent: Counts, taken: Counts, group: ProcessGroup, precision: QCommsConfig = EXACT
) -> Awaitable[Tensor]:
    """Send `sent[i]` elements to each rank i, and take `taken[i]`; gradients go the other way."""
    if group.size == 1:
        return Awaitable(lambda: flat)
    if not precision.is_exact():
        return _exchange_coded(flat, sent, taken, group, precision)
    works: list[Work] = []
    result = _Sent.apply(flat, sent, taken, group, works)

    def finish() -> Tensor:
        works[0].wait()
        return result

    return Awaitable(finish)


class KJTAllToAll:
    """Sends each rank its keys of a jagged tensor: of all ranks' keys the first `splits[0]` go to rank 0, and so on.

    The result has the batches of all ranks for the keys of this one, one rank's after another's. It is waited for
    twice: how much comes is known first, then the ids are under way.

    KJTAllToAll(group, [2, 1])(features).wait().wait()
    """

    def __init__(self, pg: ProcessGroup, splits: Counts) -> None:
        require(len(splits) == pg.size, "A002", "KJTAllToAll: a number of keys for each rank", splits=splits)
        self._group, self._splits = pg, list(splits)

    def __call__(self, input: KeyedJaggedTensor) -> Awaitable[Awaitable[KeyedJaggedTensor]]:
        """Begin to exchange."""
        keys, ends = input.keys(), prefix_sums(self._splits)
        fits = ends[-1] == len(keys) and not input.variable_stride_per_key()
        require(fits, "E003", "KJTAllToAll: the splits are those of other keys", keys=len(keys), splits=self._splits)
        bounds = input.offset_per_key()
        counts = [bounds[end] - bounds[first] for first, end in itertools.pairwise(ends)]
        here = keys[ends[self._group.rank] : ends[self._group.rank + 1]]
        sending = Sending(input.lengths(), input.values(), input.weights_or_none(), counts)
        batch = input.stride()

        def second(received: Awaitable[Received]) -> Awaitable[KeyedJaggedTensor]:
            return Awaitable(lambda: received.wait().keyed(here))

        first = sending.begin(self._group, self._splits, batch)
        return Awaitable(lambda: second(first.wait()))


class Received:
    """Segments that all ranks have sent: by route, then by rank, then by example."""

    def __init__(self, lengths: Tensor, values: Tensor, weights: Tensor | None, batches: Counts) -> None:
        self.lengths, self.values, self.weights, self.batches = lengths, values, weights, list(batches)

    def counts(self, routes: int) -> list[list[int]]:
        """Return how many ids each route has from each rank."""
        ends = offsets_of(self.lengths)[rl.tensor(prefix_sums(list(self.batches) * routes))].tolist()
        sizes = [end - first for first, end in itertools.pairwise(ends)]
        ranks = len(self.batches)
        return [sizes[route * ranks : (route + 1) * ranks] for route in range(routes)]

    def keyed(self, keys: Sequence[str]) -> KeyedJaggedTensor:
        """Return them as a jagged tensor of keys."""
        return KeyedJaggedTensor.of_parts((self.values, self.weights, self.lengths, None), tuple(keys), None)


class Sending:
    """Lengths, ids and weights of routes in the order of ranks, and how many ids go to each rank."""

    def __init__(self, lengths: Tensor, values: Tensor, weights: Tensor | None, counts: Counts) -> None:
        self._lengths, self._values, self._weights, self._counts = lengths, values, weights, list(counts)

    def begin(self, group: ProcessGroup, routes: Counts, batch: int) -> Awaitable[Awaitable[Received]]:
        """Tell the ranks the size of this one's batch and how many ids come; `routes` are those to each rank."""
        told = rl.tensor([[batch, count] for count in self._counts]).reshape(-1)
        pairs = [2] * group.size
        known = exchange(told, pairs, pairs, group)
        return Awaitable(lambda: self._send(known.wait().reshape(-1, 2).tolist(), group, routes, batch))

    def _send(self, known: list[list[int]], group: ProcessGroup, routes: Counts, batch: int) -> Awaitable[Received]:
        batches, taken = [size for size, _ in known], [count for _, count in known]
        mine = routes[group.rank]
        lengths = exchange(
            self._lengths.to(rl.int32), [count * batch for count in routes], [mine * size for size in batches], group
        )
        values = exchange(self._values.long(), self._counts, taken, group)
        weights = None if self._weights is None else exchange(self._weights, self._counts, taken, group)

        def finish() -> Received:
            own = None if weights is None else weights.wait()
            return _by_route(lengths.wait().long(), values.wait(), own, mine, batches)

        return Awaitable(finish)


def _by_route(lengths: Tensor, values: Tensor, weights: Tensor | None, routes: int, batches: Counts) -> Received:
    """What comes by rank and then by route, by route and then by rank."""
    ranks = len(batches)
    if routes <= 1 or ranks == 1:
        return Received(lengths, values, weights, batches)
    kind = (weights is None, lengths.dtype)
    own, ids, kept = as_graph(
        _route_by_route, kind, lengths, values, weights, rl.tensor([[size] * routes for size in batches])
    )
    return Received(own, ids, kept, batches)


def _route_by_route(
    lengths: Tensor, values: Tensor, weights: Tensor | None, sizes: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Lengths, values and weights of each route from each rank; `sizes` are by rank, then by route."""

    def by_route(runs: Tensor) -> Tensor:
        return runs.reshape(sizes.shape).T.reshape(-1)

    firsts = offsets_of(sizes.reshape(-1))
    ends = offsets_of(lengths.long())[firsts]
    places = taken_segments(by_route(ends[:-1]), by_route(lengths_of(ends)), values.shape[0])
    ordered = lengths[taken_segments(by_route(firsts[:-1]), by_route(sizes), lengths.shape[0])]
    return ordered, values[places], None if weights is None else weights[places]


class PooledEmbeddingsAllToAll:
    """Sends pooled rows of all ranks' batches back to the ranks whose batches they are of.

    `dim_sum_per_rank` are the columns that each rank has; the result has those of all ranks side by side.

    PooledEmbeddingsAllToAll(group, [32, 16])(pooled, [4, 4]).wait()
    """

    def __init__(self, pg: ProcessGroup, dim_sum_per_rank: Counts, precision: QCommsConfig = EXACT) -> None:
        self._group, self._dims, self._precision = pg, list(dim_sum_per_rank), precision

    def __call__(self, local_embs: Tensor, batch_size_per_rank: Counts) -> Awaitable[Tensor]:
        """Begin to exchange."""
        parts = self.parts(local_embs, batch_size_per_rank)
        return Awaitable(lambda: rl.cat(parts.wait(), 1))

    def parts(self, local_embs: Tensor, batch_size_per_rank: Counts) -> Awaitable[list[Tensor]]:
        """Begin to exchange; the result is what each rank has for this rank's batch."""
        group, batch = self._group, batch_size_per_rank[self._group.rank]
        sent = [size * self._dims[group.rank] for size in batch_size_per_rank]
        taken = [batch * dim for dim in self._dims]
        whole = exchange(local_embs.reshape(-1), sent, taken, group, self._precision)

        def finish() -> list[Tensor]:
            pieces = whole.wait().split(taken)
            return [piece.reshape(batch, dim) for piece, dim in zip(pieces, self._dims, strict=True)]

        return Awaitable(finish)
