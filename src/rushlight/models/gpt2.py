"""GPT-2 (Radford et al. 2019), under the names of Hugging Face's weights."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight import nn
from rushlight.models.decoder import Cache, attend, new_caches
from rushlight.models.folder import ModelFolder, fill
from rushlight.support.errors import require

F = nn.functional
_RENAMED = ((r"^transformer\.", ""),)
_UNUSED = (r"h\.\d+\.attn\.(masked_)?bias", r"lm_head\.weight")
_TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # stored as [in, out]


class Attention(nn.Module):
    """Queries, keys and values by one product."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: rl.Tensor, cache: Cache, start: int) -> rl.Tensor:
        """[1, length, width] in and out."""
        length, width = x.shape[1:]
        split = self.c_attn(x).view(1, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        return self.c_proj(attend(query, key, value, cache, start))


class MLP(nn.Module):
    """Two products with an approximate gelu between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, inner)
        self.c_proj = nn.Linear(inner, width)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[..., width] in and out."""
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    """Attention and an MLP, each of a normalized input and added to it."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        width, eps = folder.value("n_embd"), folder.value("layer_norm_epsilon", 1e-5)
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attn = Attention(width, folder.value("n_head"))
        self.mlp = MLP(width, folder.value("n_inner", 4 * width))

    def forward(self, x: rl.Tensor, cache: Cache, start: int) -> rl.Tensor:
        """[1, length, width] in and out."""
        x = x + self.attn(self.ln_1(x), cache, start)
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """A decoder; see `models.decoder.Decoder`. The embedding of tokens is also the last layer's weight."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        width = folder.value("n_embd")
        self.vocabulary: int = folder.value("vocab_size")
        self.context: int = folder.value("n_positions")
        self.wte = nn.Embedding(self.vocabulary, width)
        self.wpe = nn.Embedding(self.context, width)
        self.h = nn.ModuleList([Block(folder) for _ in range(folder.value("n_layer"))])
        self.ln_f = nn.LayerNorm(width, folder.value("layer_norm_epsilon", 1e-5))
        self.lm_head = nn.Linear(width, self.vocabulary, bias=False)

    def forward(self, tokens: rl.Tensor, caches: Sequence[Cache], start: int) -> rl.Tensor:
        """Logits [vocabulary] of what follows tokens [1, length]."""
        positions = rl.arange(tokens.shape[1]) + start
        x = self.wte(tokens).float() + self.wpe(positions).float()
        for block, cache in zip(self.h, caches, strict=True):
            x = block(x, cache, start)
        return self.lm_head(self.ln_f(x[:, -1:]))[0, 0]

    def caches(self, capacity: int) -> list[Cache]:
        """Caches of so many positions, for each layer."""
        heads = next(iter(self.h)).attn.heads
        return new_caches(len(self.h), heads, self.wte.weight.shape[1] // heads, capacity)


def load_gpt2(folder: ModelFolder) -> GPT2:
    """The decoder of a folder with its weights as they are stored."""
    activation = folder.value("activation_function", "gelu_new")
    plain = folder.value("scale_attn_weights", True) and not folder.value("scale_attn_by_inverse_layer_idx", False)
    require(activation == "gelu_new" and plain, "A006", "chat: gelu_new and plain scaling", activation=activation)
    with rl.device("meta"):
        model = GPT2(folder)
    weights = folder.weights(*_RENAMED)
    for name in [name for name in weights if name.endswith(_TRANSPOSED)]:
        weights[name] = weights[name].t().contiguous()
    if "wte.weight" in weights:
        weights["lm_head.weight"] = weights["wte.weight"]
    fill(model, weights, _UNUSED)
    return model
