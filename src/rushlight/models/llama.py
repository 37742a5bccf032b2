"""Llama (Touvron et al. 2023) and what differs from it in a setting: Mistral, Qwen2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import nn
from rushlight.models.decoder import Cache, attend, new_caches
from rushlight.models.folder import ModelFolder, fill
from rushlight.support.errors import fail, require

F = nn.functional
_RENAMED = ((r"^model\.", ""),)
_UNUSED = (r".*rotary_emb\.inv_freq", r".*\.attention\.bias")


class Attention(nn.Module):
    """Attention with rotary positions (Su et al. 2021), and fewer heads of keys than of queries."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        width = folder.value("hidden_size")
        self.heads = folder.value("num_attention_heads")
        self.key_heads = folder.value("num_key_value_heads", self.heads)
        self.width = head_width(folder)
        biased = folder.model_type == "qwen2" or folder.value("attention_bias", False)
        self.q_proj = nn.Linear(width, self.heads * self.width, bias=biased)
        self.k_proj = nn.Linear(width, self.key_heads * self.width, bias=biased)
        self.v_proj = nn.Linear(width, self.key_heads * self.width, bias=biased)
        self.o_proj = nn.Linear(self.heads * self.width, width, bias=folder.value("attention_bias", False))

    def forward(self, x: rl.Tensor, turns: tuple[rl.Tensor, rl.Tensor], cache: Cache, start: int) -> rl.Tensor:
        """[1, length, width] in and out; `turns` are the cosines and sines of the positions."""
        length = x.shape[1]
        query = self.q_proj(x).view(1, length, self.heads, self.width).transpose(1, 2)
        key = self.k_proj(x).view(1, length, self.key_heads, self.width).transpose(1, 2)
        value = self.v_proj(x).view(1, length, self.key_heads, self.width).transpose(1, 2)
        return self.o_proj(attend(turned(query, *turns), turned(key, *turns), value, cache, start))


class Gated(nn.Module):
    """An MLP in which one product gates the other (Shazeer 2020)."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        width, inner = folder.value("hidden_size"), folder.value("intermediate_size")
        biased = folder.value("mlp_bias", False)
        self.gate_proj = nn.Linear(width, inner, bias=biased)
        self.up_proj = nn.Linear(width, inner, bias=biased)
        self.down_proj = nn.Linear(inner, width, bias=biased)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        """[..., width] in and out."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and an MLP, each of a normalized input and added to it."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        self.self_attn = Attention(folder)
        self.mlp = Gated(folder)
        width, eps = folder.value("hidden_size"), folder.value("rms_norm_eps", 1e-6)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width, eps), nn.RMSNorm(width, eps)

    def forward(self, x: rl.Tensor, turns: tuple[rl.Tensor, rl.Tensor], cache: Cache, start: int) -> rl.Tensor:
        """[1, length, width] in and out."""
        x = x + self.self_attn(self.input_layernorm(x), turns, cache, start)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """A decoder; see `models.decoder.Decoder`."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        width, vocabulary = folder.value("hidden_size"), folder.value("vocab_size")
        self.vocabulary: int = vocabulary
        self.context: int = folder.value("max_position_embeddings")
        window = folder.value("sliding_window", 0)
        if window and folder.value("use_sliding_window", folder.model_type == "mistral"):
            self.context = min(self.context, window)
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([Layer(folder) for _ in range(folder.value("num_hidden_layers"))])
        self.norm = nn.RMSNorm(width, folder.value("rms_norm_eps", 1e-6))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.rates = rates(folder)

    def forward(self, tokens: rl.Tensor, caches: Sequence[Cache], start: int) -> rl.Tensor:
        """Logits [vocabulary] of what follows tokens [1, length]."""
        positions = (rl.arange(tokens.shape[1]) + start).float()
        angles = positions[:, None] * rl.tensor(self.rates)
        turns = (angles.cos(), angles.sin())
        x = self.embed_tokens(tokens).float()
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, turns, cache, start)
        return self.lm_head(self.norm(x[:, -1:]))[0, 0]

    def caches(self, capacity: int) -> list[Cache]:
        """Caches of so many positions, for each layer."""
        attention = next(iter(self.layers)).self_attn
        return new_caches(len(self.layers), attention.key_heads, attention.width, capacity)


def turned(x: rl.Tensor, cosines: rl.Tensor, sines: rl.Tensor) -> rl.Tensor:
    """Heads [..., length, width]: element i and i + width / 2 as a plane, turned by the angle of the position."""
    first, second = x.chunk(2, -1)
    return rl.cat([first * cosines - second * sines, second * cosines + first * sines], -1)


def head_width(folder: ModelFolder) -> int:
    """Elements of a head."""
    return folder.value("head_dim", folder.value("hidden_size") // folder.value("num_attention_heads"))


def rates(folder: ModelFolder) -> list[float]:
    """By how much each plane of a head turns from one position to the next, in radians.

    A006 for scaling other than linear and Llama 3's.
    """
    options: dict[str, Any] = folder.value("rope_parameters", folder.value("rope_scaling", {}))
    base = options.get("rope_theta", folder.value("rope_theta", 10000.0))
    half = head_width(folder) // 2
    rates = [base ** (-plane / half) for plane in range(half)]
    kind = options.get("rope_type", options.get("type", "default"))
    if kind == "linear":
        return [rate / options["factor"] for rate in rates]
    if kind == "llama3":
        return [_stretched(rate, options) for rate in rates]
    require(kind == "default", "A006", "chat: rotary positions are scaled linearly or as Llama 3 does", kind=kind)
    return rates


def _stretched(rate: float, options: dict[str, Any]) -> float:
    """Llama 3's rate: slow ones are divided by a factor, fast ones stay, those between are a mixture."""
    low, high = options["low_freq_factor"], options["high_freq_factor"]
    turns = options["original_max_position_embeddings"] * rate / (2 * math.pi)
    part = min(max((turns - low) / (high - low), 0.0), 1.0)
    return part * rate + (1 - part) * rate / options["factor"]


def load_llama(folder: ModelFolder) -> Llama:
    """The decoder of a folder with its weights as they are stored."""
    if folder.value("hidden_act", "silu") != "silu":
        fail("A006", "chat: the activation is silu", hidden_act=folder.value("hidden_act"))
    with rl.device("meta"):
        model = Llama(folder)
    weights = folder.weights(*_RENAMED)
    tied = "lm_head.weight" not in weights or folder.value("tie_word_embeddings", False)
    if tied and "embed_tokens.weight" in weights:
        weights["lm_head.weight"] = weights["embed_tokens.weight"]
    fill(model, weights, _UNUSED)
    return model
