"""An encoder and decoder like T5 (Raffel et al. 2019): a bias for each distance, RMS norms, one table for all."""

from __future__ import annotations

import math

import numpy as np

import rushlight as rl
from rushlight import nn
from rushlight.bench.models.record import Extent, SmallModel

F = nn.functional
VOCABULARY = 1000


def bucket(distance: rl.Tensor, both: bool, buckets: int, farthest: int) -> rl.Tensor:
    """The number of a distance's bucket: near distances have one each, far ones share by their logarithm.

    `both` keeps half of the buckets for positions ahead; otherwise these are all in the first.
    """
    buckets_of = rl.zeros_like(distance)
    if both:
        buckets //= 2
        buckets_of = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    scale = (buckets - exact) / math.log(farthest / exact)
    # A distance of 0 is exact: its logarithm, which is -inf, is not to become an integer.
    far = exact + ((distance.clamp(min=1).float() / exact).log() * scale).long()
    return buckets_of + rl.where(distance < exact, distance, far.clamp(max=buckets - 1))


class Distances(nn.Module):
    """A learned bias of attention for each bucket of distances and each head."""

    def __init__(self, heads: int, both: bool, buckets: int = 32, farthest: int = 128) -> None:
        super().__init__()
        self.both = both
        self.buckets = buckets
        self.farthest = farthest
        self.bias = nn.Embedding(buckets, heads)

    def forward(self, length: int) -> rl.Tensor:
        """[1, heads, length, length]; positions ahead are -inf unless `both`."""
        places = rl.arange(length)
        distance = places[None, :] - places[:, None]
        biases = self.bias(bucket(distance, self.both, self.buckets, self.farthest)).permute(2, 0, 1)[None]
        return biases if self.both else biases.masked_fill(distance > 0, float("-inf"))


class Attention(nn.Module):
    """Self- or cross-attention. Scores are not scaled: the initial weights are."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: rl.Tensor, other: rl.Tensor, bias: rl.Tensor | None = None) -> rl.Tensor:
        """[batch, length, width]."""
        query, key, value = self.split(self.query(x)), self.split(self.key(other)), self.split(self.value(other))
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=1.0)
        return self.output(seen.transpose(1, 2).reshape(x.shape))

    def split(self, x: rl.Tensor) -> rl.Tensor:
        """[batch, heads, length, width / heads]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Layer(nn.Module):
    """Self-attention, cross-attention in the decoder, and a gated MLP, each on normalized input."""

    def __init__(self, width: int, heads: int, crosses: bool) -> None:
        super().__init__()
        self.own_norm = nn.RMSNorm(width, eps=1e-6)
        self.own = Attention(width, heads)
        self.cross_norm = nn.RMSNorm(width, eps=1e-6) if crosses else None
        self.cross = Attention(width, heads) if crosses else None
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.widen = nn.Linear(width, 2 * width, bias=False)
        self.narrow = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: rl.Tensor, bias: rl.Tensor, encoded: rl.Tensor | None = None) -> rl.Tensor:
        """[batch, length, width] in and out."""
        inner = self.own_norm(x)
        x = x + self.own(inner, inner, bias)
        if self.cross is not None and self.cross_norm is not None:
            x = x + self.cross(self.cross_norm(x), encoded)
        inner = self.norm(x)
        return x + self.narrow(F.gelu(self.gate(inner), approximate="tanh") * self.widen(inner))


class Stack(nn.Module):
    """Layers that share the bias of distances."""

    def __init__(self, width: int, heads: int, layers: int, decodes: bool) -> None:
        super().__init__()
        self.distances = Distances(heads, both=not decodes)
        self.layers = nn.ModuleList([Layer(width, heads, decodes) for _ in range(layers)])
        self.norm = nn.RMSNorm(width, eps=1e-6)

    def forward(self, x: rl.Tensor, encoded: rl.Tensor | None = None) -> rl.Tensor:
        """[batch, length, width] in and out."""
        bias = self.distances(x.shape[1])
        for layer in self.layers:
            x = layer(x, bias, encoded)
        return self.norm(x)


class T5(nn.Module):
    """From source and target tokens to logits of the next target tokens. One table embeds all and gives the logits."""

    def __init__(self, width: int = 128, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.width = width
        self.shared = nn.Embedding(VOCABULARY, width)
        self.encoder = Stack(width, heads, layers, decodes=False)
        self.decoder = Stack(width, heads, layers, decodes=True)

    def forward(self, source: rl.Tensor, target: rl.Tensor) -> rl.Tensor:
        """[batch, source] and [batch, target] of int64 to [batch, target, vocabulary]."""
        encoded = self.encoder(self.shared(source))
        decoded = self.decoder(self.shared(target), encoded)
        return F.linear(decoded * self.width**-0.5, self.shared.weight)


def inputs(batch: int, source: int, target: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Tokens of two sequences."""
    rng = np.random.default_rng(seed)
    return tuple([rl.from_numpy(rng.integers(0, VOCABULARY, (batch, length))) for length in (source, target)])


MODEL = SmallModel(
    "t5",
    T5,
    inputs,
    (("batch", "source"), ("batch", "target")),
    {"batch": Extent(1), "source": Extent(1), "target": Extent(1)},
)
