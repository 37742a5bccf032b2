"""Multi-head attention as a layer (Vaswani et al. 2017)."""

from __future__ import annotations

from rushlight.eager.creation import empty
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import init
from rushlight.nn.functional.multi_head import each_once, multi_head_attention_forward
from rushlight.nn.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.module import Module
from rushlight.support.errors import require


class MultiheadAttention(Module):
    """Attention of several heads, each on its share of the embedding.

    Inputs are (length, batch, embedding), or (batch, length, embedding) when `batch_first`, or without a batch. Masks
    are True, or -inf, where attention is *not* allowed. `add_bias_kv` learns one more key and value, `add_zero_attn`
    adds one of zeros.
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
        positive = embed_dim > 0 and num_heads > 0
        require(positive, "A002", f"embed_dim and num_heads must be greater than 0, got {embed_dim} and {num_heads}")
        require(embed_dim % num_heads == 0, "A002", "embed_dim must be divisible by num_heads")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        together = self._qkv_same_embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if together else (embed_dim, embed_dim),
            "k_proj_weight": None if together else (embed_dim, self.kdim),
            "v_proj_weight": None if together else (embed_dim, self.vdim),
            "in_proj_weight": (3 * embed_dim, embed_dim) if together else None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(
                name, None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            )
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for name in ("bias_k", "bias_v"):
            if self._parameters[name] is not None:
                init.xavier_normal_(self._parameters[name])

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
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = each_once(lambda one: one.transpose(0, 1), query, key, value)
        output, weights = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(0, 1) if turned else output), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Return one mask for both, and its kind: 0 of queries and keys, 1 of padding, 2 of both, None without one."""
        if attn_mask is None and key_padding_mask is None:
            return None, None
        if attn_mask is None or key_padding_mask is None:
            return (key_padding_mask, 1) if attn_mask is None else (attn_mask, 0)
        batch, length = key_padding_mask.shape
        by_query = attn_mask if attn_mask.ndim == 3 else attn_mask.unsqueeze(0)
        shape = (batch, self.num_heads, -1, length)
        by_query = by_query.view(shape) if attn_mask.ndim == 3 else by_query.unsqueeze(0).expand(shape)
        padding = key_padding_mask.view(batch, 1, 1, length).expand(batch, self.num_heads, -1, -1)
        return by_query + padding, 2
