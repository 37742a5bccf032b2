"""Multi-head attention (Vaswani et al. 2017)."""

from __future__ import annotations

from rushlight.eager.creation import empty
from rushlight.eager.functions import zeros_like
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.dtype import bool_
from rushlight.nn import functional, init
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.support.errors import fail, require


class MultiheadAttention(Module):
    """Attention of several heads, each on its share of the embedding.

    Inputs are (length, batch, embedding), or (batch, length, embedding) when `batch_first`, or without a batch. Masks
    are True, or -inf, where attention is *not* allowed.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        divides = embed_dim > 0 and num_heads > 0 and embed_dim % num_heads == 0
        require(divides, "A002", f"embed_dim ({embed_dim}) must be divisible by num_heads ({num_heads})")
        if add_bias_kv or add_zero_attn:
            fail("A006", "MultiheadAttention: add_bias_kv and add_zero_attn are not supported yet")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        together = self.kdim == embed_dim and self.vdim == embed_dim
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if together else None,
            "q_proj_weight": None if together else (embed_dim, embed_dim),
            "k_proj_weight": None if together else (embed_dim, self.kdim),
            "v_proj_weight": None if together else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(
                name, None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            )
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attended values, and the attention weights (of all heads, or their mean) or None."""
        batched = query.ndim == 3
        if not batched:
            query, key, value = (one.unsqueeze(0) for one in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (one.transpose(0, 1) for one in (query, key, value))
        heads, keys, values = (self._split(one) for one in self._projected(query, key, value))
        mask = self._mask(attn_mask, key_padding_mask, query, key, is_causal)
        attended, weights = self._attend(heads, keys, values, mask, need_weights)
        joined = attended.transpose(1, 2).reshape(query.shape[0], query.shape[1], self.embed_dim)
        output = self.out_proj(joined)
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return (output if self.batch_first else output.transpose(0, 1)), weights

    def _projected(self, *inputs: Tensor) -> list[Tensor]:
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [functional.linear(x, weight, bias) for x, weight, bias in zip(inputs, weights, biases, strict=True)]

    def _split(self, projected: Tensor) -> Tensor:
        batch, length, _ = projected.shape
        return projected.reshape(batch, length, self.num_heads, self.head_dim).transpose(1, 2)

    def _mask(
        self,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        query: Tensor,
        key: Tensor,
        is_causal: bool,
    ) -> Tensor | None:
        """Return the mask that is added to the scores, or None.

        Its shape broadcasts to (batch, heads, query, key).
        """
        if is_causal and attn_mask is None:
            fail("A004", "MultiheadAttention: is_causal is a hint about attn_mask, which is missing")
        mask: Tensor | None = None
        if attn_mask is not None:
            mask = _additive(attn_mask, query)
            if mask.ndim == 3:
                mask = mask.reshape(query.shape[0], self.num_heads, query.shape[1], key.shape[1])
        if key_padding_mask is not None:
            padding = _additive(key_padding_mask, query).reshape(key.shape[0], 1, 1, key.shape[1])
            mask = padding if mask is None else mask + padding
        return mask

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        dropped = self.dropout if self.training else 0.0
        if not need_weights:
            return functional.scaled_dot_product_attention(query, key, value, mask, dropped), None
        scores = (query * self.head_dim**-0.5) @ key.mT
        weights = functional.softmax(scores if mask is None else scores + mask, -1)
        weights = functional.dropout(weights, dropped, self.training)
        return weights @ value, weights


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype is not bool_:
        return mask
    return zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
