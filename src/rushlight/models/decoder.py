"""What decoders share: caches of keys and values, and attention to what came before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import rushlight as rl

F = rl.nn.functional
Cache = tuple[rl.Tensor, rl.Tensor]
"""Keys and values [1, heads, capacity, width of a head] of one layer, of which the first are written."""


class Decoder(Protocol):
    """A model that continues tokens."""

    context: int
    vocabulary: int

    def __call__(self, tokens: rl.Tensor, caches: Sequence[Cache], start: int) -> rl.Tensor:
        """Logits [vocabulary] of what follows tokens [1, length] from the position `start` on.

        Their keys and values are written to the caches, which hold those of the tokens before.
        """
        ...

    def caches(self, capacity: int) -> list[Cache]:
        """Caches of so many positions, for each layer."""
        ...


def new_caches(layers: int, heads: int, width: int, capacity: int) -> list[Cache]:
    """Caches of float32."""
    shape = (1, heads, capacity, width)
    return [(rl.zeros(shape), rl.zeros(shape)) for _ in range(layers)]


def attend(query: rl.Tensor, key: rl.Tensor, value: rl.Tensor, cache: Cache, start: int) -> rl.Tensor:
    """Attention of queries [1, heads, length, width] to positions up to their own.

    The cache holds keys and values of positions before `start`; those of [1, key heads, length, width] are written to
    it. Returns [1, length, heads * width].
    """
    length = query.shape[2]
    end = start + length
    keys, values = cache
    keys[:, :, start:end] = key
    values[:, :, start:end] = value
    seen = rl.arange(end)[None, :] <= (rl.arange(length) + start)[:, None]
    out = F.scaled_dot_product_attention(query, keys[:, :, :end], values[:, :, :end], seen, enable_gqa=True)
    return out.transpose(1, 2).reshape(1, length, query.shape[1] * query.shape[3])
