"""A language model of two LSTM layers; the embedding is also the last layer's weight."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import nn
from rushlight.bench.models.record import Extent, SmallModel

F = nn.functional
VOCABULARY = 1000


class LanguageModel(nn.Module):
    """Tokens to logits of the next tokens."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.layers = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.bias = nn.Parameter(rl.zeros(VOCABULARY))

    def forward(self, tokens: rl.Tensor) -> rl.Tensor:
        """[batch, length] of int64 to [batch, length, vocabulary]."""
        states, _ = self.layers(self.token(tokens))
        return F.linear(states, self.token.weight, self.bias)


def inputs(batch: int, length: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Tokens."""
    rng = np.random.default_rng(seed)
    return (rl.from_numpy(rng.integers(0, VOCABULARY, (batch, length))),)


MODEL = SmallModel(
    "lstm",
    LanguageModel,
    inputs,
    (("batch", "length"),),
    {"batch": Extent(1), "length": Extent(1)},
)
