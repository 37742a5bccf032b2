"""The speedrun of GPT-2 small (modded-nanogpt, Jordan et al. 2024), small enough for a processor.

What is of the record: rotary positions, norms of queries and keys, squared ReLU, embeddings that are added to values,
skips from the first half of the blocks to the second, logits that are kept small, attention within documents and a
window by a function of pairs, products in bfloat16, Muon for matrices and Adam for the rest.
"""

from __future__ import annotations

import math

import numpy as np

import rushlight as rl
from rushlight import nn
from rushlight.bench.models.record import Extent, SmallModel

F = nn.functional
VOCABULARY = 256
END_OF_DOCUMENT = 0
CONTEXT = 256
_SOFTCAP = 15.0
_BASE = 1024.0  # of the angles of positions


def norm(x: rl.Tensor) -> rl.Tensor:
    """Rows of one root mean square."""
    return F.rms_norm(x, (x.shape[-1],))


def window_mask(documents: rl.Tensor, window: int) -> rl.Tensor:
    """Which pairs of positions [length, length] attend: of one document, no later, and less than a window apart."""

    def attends(query: rl.Tensor, key: rl.Tensor) -> rl.Tensor:
        same = documents[query] == documents[key]
        return same & (query >= key) & (query - key < window)

    places = rl.arange(documents.shape[0])
    return rl.func.vmap(rl.func.vmap(attends, in_dims=(None, 0)), in_dims=(0, None))(places, places)


class Attention(nn.Module):
    """Causal attention with rotary positions.

    `mix` are the shares of its own values and of those that are added.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.mix = nn.Parameter(rl.tensor([0.5, 0.5]))
        half = width // heads // 2
        steps = (1 / _BASE) ** (np.arange(half) / half)
        angles = np.arange(CONTEXT)[:, None] * steps[None]
        self.register_buffer("cosines", rl.from_numpy(np.cos(angles).astype(np.float32)), persistent=False)
        self.register_buffer("sines", rl.from_numpy(np.sin(angles).astype(np.float32)), persistent=False)

    def rotated(self, x: rl.Tensor) -> rl.Tensor:
        """[length, heads, width of a head] turned by its positions."""
        cosines, sines = self.cosines[: x.shape[0], None], self.sines[: x.shape[0], None]
        one, other = x.chunk(2, dim=-1)
        return rl.cat([one * cosines + other * sines, other * cosines - one * sines], dim=-1)

    def forward(self, x: rl.Tensor, added: rl.Tensor | None, mask: rl.Tensor) -> rl.Tensor:
        """[length, width] in and out."""
        length = x.shape[0]
        query, key, value = self.query_key_value(x).view(length, 3, self.heads, -1).unbind(1)
        value = self.mix[0] * value if added is None else self.mix[0] * value + self.mix[1] * added.view_as(value)
        query, key = self.rotated(norm(query)), self.rotated(norm(key))
        query, key, value = (part.to(x.dtype).transpose(0, 1) for part in (query, key, value))
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.project(seen.transpose(0, 1).reshape(length, -1))


class Block(nn.Module):
    """Attention and a squared ReLU, each of normalized rows.

    `mix` are the shares of the rows and of the embedding.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)
        self.mix = nn.Parameter(rl.tensor([1.0, 0.0]))

    def forward(self, x: rl.Tensor, start: rl.Tensor, added: rl.Tensor | None, mask: rl.Tensor) -> rl.Tensor:
        """[length, width] in and out."""
        x = self.mix[0] * x + self.mix[1] * start
        x = x + self.attention(norm(x), added, mask)
        return x + self.narrow(F.relu(self.widen(norm(x))).square())


class ModdedGPT(nn.Module):
    """Tokens [length] of documents in a row, which a token ends, to logits [length, vocabulary]."""

    def __init__(self, blocks: int = 4, heads: int = 2, width: int = 64, window: int = 32) -> None:
        super().__init__()
        self.window = window
        self.token = nn.Embedding(VOCABULARY, width)
        self.values = nn.ModuleList([nn.Embedding(VOCABULARY, width) for _ in range(blocks // 2)])
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(blocks)])
        self.skips = nn.Parameter(rl.ones(blocks // 2))
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        with rl.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith(("project.weight", "narrow.weight", "head.weight")):
                    parameter.zero_()
                elif parameter.dim() == 2:
                    parameter.normal_(0.0, 0.5 / math.sqrt(width) if "blocks" in name else 1.0)

    def forward(self, tokens: rl.Tensor) -> rl.Tensor:
        """[length] of int64 to [length, 256]."""
        documents = (tokens == END_OF_DOCUMENT).cumsum(0)
        near, far = window_mask(documents, self.window), window_mask(documents, CONTEXT)
        start = x = norm(self.token(tokens))
        half, kept = len(self.values), list[rl.Tensor]()
        for at, block in enumerate(self.blocks):
            first = at < half
            x = x if first else x + self.skips[at - half] * kept.pop()
            x = block(x, start, self.values[at](tokens) if first else None, far if at % 2 else near)
            if first:
                kept.append(x)
        logits = self.head(norm(x)).float()
        return _SOFTCAP * rl.tanh(logits / _SOFTCAP)

    def optimizers(self) -> list[rl.optim.Optimizer]:
        """Muon for the matrices of blocks, Adam for embeddings, the head and single numbers."""
        matrices = [each for name, each in self.named_parameters() if name.startswith("blocks") and each.dim() == 2]
        known = set(map(id, matrices))
        others = [each for each in self.parameters() if id(each) not in known]
        return [rl.optim.Muon(matrices, lr=0.02, weight_decay=0.0), rl.optim.Adam(others, lr=0.01, betas=(0.8, 0.95))]


def inputs(length: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Tokens [length]: documents of some lengths, in which a token tells much of the next."""
    rng = np.random.default_rng(seed)
    tokens = (rng.integers(1, 8, length).cumsum() * 7) % (VOCABULARY - 1) + 1
    tokens[rng.random(length) < 0.02] = END_OF_DOCUMENT
    return (rl.from_numpy(tokens.astype(np.int64)),)


MODEL = SmallModel(
    "modded_nanogpt",
    ModdedGPT,
    inputs,
    (("length",),),
    {"length": Extent(2, CONTEXT)},
)
