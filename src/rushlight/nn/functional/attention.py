"""Attention as a function of queries, keys and values."""

from __future__ import annotations

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.ops.contract.attention import scaled_dot_product_attention_decompose


@checked
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Return softmax(query @ key.mT * scale + mask) @ value; a bool mask is True for keys that take part."""
    if dropout_p == 0.0:
        return ops.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    # In parts: a draw of random numbers is a call of its own, with its place in the generator's stream.
    query, key, value = required_tensor(query), required_tensor(key), required_tensor(value)
    return scaled_dot_product_attention_decompose(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
