"""The demo's model: a small GPT over bytes. Only the line that imports rushlight makes it ours: it is PyTorch's API."""

from __future__ import annotations

import math
from collections.abc import Callable

import rushlight as rl

F = rl.nn.functional
VOCABULARY = 256
SPREAD = 0.05  # of random weights: 0.02 and 0.1 both learn more slowly at this width


class Block(rl.nn.Module):
    """Causal self-attention and an MLP four times as wide, each on normalized input and added to it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.norm1 = rl.nn.LayerNorm(width)
        self.query_key_value = rl.nn.Linear(width, 3 * width)
        self.project = rl.nn.Linear(width, width)
        self.norm2 = rl.nn.LayerNorm(width)
        self.widen = rl.nn.Linear(width, 4 * width)
        self.narrow = rl.nn.Linear(4 * width, width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[batch, length, width] in and out."""
        x = x + self.attend(self.norm1(x))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))

    def attend(self, x: rl.Tensor) -> rl.Tensor:
        """Each position looks at itself and those before it."""
        batch, length, _ = x.shape
        split = self.query_key_value(x).view(batch, length, 3, -1, self.head_width)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(seen.transpose(1, 2).reshape(batch, length, -1))


class GPT(rl.nn.Module):
    """Bytes in, logits of the next byte out; the embedding of bytes is also the last layer's weight."""

    def __init__(self, layers: int, heads: int, width: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.token = rl.nn.Embedding(VOCABULARY, width)
        self.position = rl.nn.Embedding(context, width)
        self.blocks = rl.nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = rl.nn.LayerNorm(width)
        self.reset(layers)

    def reset(self, layers: int) -> None:
        """Random matrices, smaller where a block adds to the residual stream, as in GPT-2; biases of zero."""
        with rl.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.dim() == 2:
                    adds = name.endswith(("project.weight", "narrow.weight"))
                    parameter.normal_(0.0, SPREAD / math.sqrt(2 * layers) if adds else SPREAD)
                elif name.endswith("bias"):
                    parameter.zero_()

    def forward(self, tokens: rl.Tensor) -> rl.Tensor:
        """[batch, length] of int64 to [batch, length, 256]."""
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)

    def loss(self, windows: rl.Tensor) -> rl.Tensor:
        """Mean cross-entropy in nats per byte of windows [batch, length + 1]. The first byte is only an input."""
        return loss_of(self, windows)


def loss_of(model: Callable[[rl.Tensor], rl.Tensor], windows: rl.Tensor) -> rl.Tensor:
    """The loss of windows by what computes logits."""
    logits = model(windows[:, :-1])
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), windows[:, 1:].reshape(-1))
