"""An encoder like BERT (Devlin et al. 2018): token types, padding that nothing looks at, a pooled head."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import nn
from rushlight.bench.models.record import Extent, SmallModel

F = nn.functional
VOCABULARY, CONTEXT, TYPES = 1000, 512, 2


class Layer(nn.Module):
    """Self-attention and an MLP; each is added to its input and then normalized."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, dropout, batch_first=True)
        self.attention_norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.output_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: rl.Tensor, padding: rl.Tensor) -> rl.Tensor:
        """[batch, length, width] in and out; `padding` [batch, length] is True where nothing is to be seen."""
        seen, _ = self.attention(x, x, x, key_padding_mask=padding, need_weights=False)
        x = self.attention_norm(x + self.dropout(seen))
        return self.output_norm(x + self.dropout(self.narrow(F.gelu(self.widen(x)))))


class Bert(nn.Module):
    """Tokens to every token's vector, and one of the whole from the first token's."""

    def __init__(self, width: int = 128, heads: int = 4, layers: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.word = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.position = nn.Embedding(CONTEXT, width)
        self.kind = nn.Embedding(TYPES, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([Layer(width, heads, dropout) for _ in range(layers)])
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: rl.Tensor, mask: rl.Tensor, types: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        """All [batch, length] of int64; `mask` is 1 for tokens and 0 for padding."""
        positions = rl.arange(tokens.shape[1])
        x = self.norm(self.word(tokens) + self.position(positions) + self.kind(types))
        padding = mask == 0
        for layer in self.layers:
            x = layer(x, padding)
        return x, rl.tanh(self.pooler(x[:, 0]))


def inputs(batch: int, length: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Tokens in random numbers for each row, their mask, and the types that mark the second sentence."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, length + 1, (batch, 1))
    mask = (np.arange(length) < counts).astype(np.int64)
    tokens = rng.integers(1, VOCABULARY, (batch, length)) * mask
    types = (np.arange(length) >= counts // 2).astype(np.int64) * mask
    return rl.from_numpy(tokens), rl.from_numpy(mask), rl.from_numpy(types)


MODEL = SmallModel(
    "bert",
    Bert,
    inputs,
    (("batch", "length"),) * 3,
    {"batch": Extent(1), "length": Extent(1, CONTEXT)},
)
