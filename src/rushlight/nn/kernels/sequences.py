"""Kernels over sequences: attention to pages of a cache, and the scan of a state-space model."""

from __future__ import annotations

from rushlight.eager.creation import arange, empty_like
from rushlight.eager.functions import where
from rushlight.eager.tensor import Tensor
from rushlight.nn.functional import pad
from rushlight.nn.kernels.rowwise import wide
from rushlight.tile import cdiv, kernel, tile

CHUNK = 64
"""Steps of a chunk: within one each step looks at all before it, and between chunks states are handed on."""


@kernel
def paged_attention(query: Tensor, keys: Tensor, values: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    """One query for each sequence, whose keys and values lie in pages.

    `query` is (sequences, heads, width), `keys` and `values` are (pages, places, heads, width); row s of `table` names
    the pages of sequence s, of which the first `lengths[s]` places count. A sequence without places gives 0.

    >>> pages = rl.randn(6, 4, 2, 8)
    >>> kernels.paged_attention(rl.randn(1, 2, 8), pages, pages, rl.tensor([[5, 0]]), rl.tensor([7])).shape
    Size([1, 2, 8])
    """
    sequences, heads, width = query.shape
    places = table.shape[1] * keys.shape[1]
    out = empty_like(query)
    for s in tile(sequences):
        mine = wide(keys[table[s, :]]).reshape(s.size, places, heads, width)
        found = wide(values[table[s, :]]).reshape(s.size, places, heads, width)
        scores = (wide(query[s, :, :])[:, None] * mine).sum(3) * (1 / width**0.5)
        inside = (arange(places) < lengths[s][:, None])[:, :, None]
        scores = where(inside, scores, -float("inf"))
        top = scores.amax(1, keepdim=True)
        shares = where(inside, (scores - top).exp(), 0)
        total = shares.sum(1)[:, :, None]
        mixed = (shares[:, :, :, None] * where(inside[:, :, :, None], found, 0)).sum(1)
        out[s, :, :] = where(total > 0, mixed / total, 0).to(query.dtype)
    return out


@kernel
def selective_scan(x: Tensor, step: Tensor, decay: Tensor, into: Tensor, out_of: Tensor) -> Tensor:
    """The scan of a selective state-space model (Mamba), for sequences of any length.

    For each channel and state, `h[t] = exp(step[t] * decay) * h[t - 1] + step[t] * into[t] * x[t]`, and
    `y[t] = sum over states of out_of[t] * h[t]`. `x` and `step` are (batch, length, channels), `decay` is
    (channels, states), at most 0, and `into` and `out_of` are (batch, length, states). Chunks of 64 steps are computed
    in parallel; nothing is divided by a decay, so that long sequences do not overflow.

    >>> x = rl.randn(1, 70, 4)
    >>> kernels.selective_scan(x, x.abs(), -rl.ones(4, 2), rl.randn(1, 70, 2), rl.randn(1, 70, 2)).shape
    Size([1, 70, 4])
    """
    batch, length, channels = x.shape
    chunks = cdiv(length, CHUNK)
    rest = chunks * CHUNK - length
    out = empty_like(x)

    def in_chunks(value: Tensor) -> Tensor:
        return pad(wide(value), (0, 0, 0, rest)).reshape(value.shape[0], chunks, CHUNK, value.shape[2])

    for b in tile(batch):
        steps = in_chunks(step[b, :, :])
        # (batch, chunk, time, channel, state): logarithms of decays since the chunk began, and what enters the state.
        decays = (steps[..., None] * wide(decay)).cumsum(2)
        entering = (steps * in_chunks(x[b, :, :]))[..., None] * in_chunks(into[b, :, :])[:, :, :, None, :]
        read = in_chunks(out_of[b, :, :])[:, :, :, None, :]
        earlier = arange(CHUNK)[:, None] >= arange(CHUNK)
        reach = where(earlier[:, :, None, None], decays[:, :, :, None] - decays[:, :, None], -float("inf")).exp()
        within = (reach * entering[:, :, None]).sum(3)
        whole = decays[:, :, -1]
        left = within[:, :, -1]
        # States at the beginnings of chunks: what earlier chunks left, over the decays of the chunks between.
        passed = whole.cumsum(1)
        before = arange(chunks)[:, None] > arange(chunks)
        gap = (passed - whole)[:, :, None] - passed[:, None]
        handed = (where(before[:, :, None, None], gap, -float("inf")).exp() * left[:, None]).sum(2)
        state = within + decays.exp() * handed[:, :, None]
        found = (state * read).sum(4).reshape(b.size, chunks * CHUNK, channels)
        out[b, :, :] = found[:, :length].to(x.dtype)
    return out
