"""Transformers, whole and by layers (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable

from rushlight.eager import functions as ops
from rushlight.eager.dispatch import STATE, call_user
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import bool_
from rushlight.nn import functional, init
from rushlight.nn.functional.multi_head import additive
from rushlight.nn.modules.activation import MultiheadAttention
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.dropout import Dropout
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import LayerNorm
from rushlight.support.errors import fail, require

_MOST_LAYERS = 10_000

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = Callable[[Tensor], Tensor]


ACTIVATIONS: dict[str, Activation] = {"relu": functional.relu, "gelu": functional.gelu}


def _activation(given: str | Activation) -> Activation:
    if not isinstance(given, str):
        return given
    require(given in ACTIVATIONS, "A004", f"activation should be relu/gelu, not {given}")
    return ACTIVATIONS[given]


class _Layer(Module):
    """What encoder and decoder layers share: self-attention and two linear layers, with dropout and norms."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: str | Activation,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: object,
        dtype: object,
    ) -> None:
        super().__init__()
        self.self_attn = self._attention(d_model, nhead, dropout, bias, batch_first, device, dtype)
        self._add_cross_attention(d_model, nhead, dropout, bias, batch_first, device, dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, device=device, dtype=dtype)
        self.norm_first = norm_first
        self.activation = _activation(activation)

    @staticmethod
    def _attention(
        width: int, heads: int, dropout: float, bias: bool, batch_first: bool, device: object, dtype: object
    ) -> MultiheadAttention:
        return MultiheadAttention(
            width, heads, dropout=dropout, bias=bias, batch_first=batch_first, device=device, dtype=dtype
        )

    def _add_cross_attention(
        self, width: int, heads: int, dropout: float, bias: bool, batch_first: bool, device: object, dtype: object
    ) -> None:
        """Add the attention between self-attention and the linear layers; a decoder has one."""

    def _add_norms(
        self, count: int, width: int, eps: float, bias: bool, dropout: float, device: object, dtype: object
    ) -> None:
        for number in range(1, count + 1):
            setattr(self, f"norm{number}", LayerNorm(width, eps=eps, bias=bias, device=device, dtype=dtype))
        for number in range(1, count + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))

    def _around(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Add what a block makes of the input, with the norm before the block or after the sum."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _self_attended(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        attended, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout1(attended)

    def _fed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(call_user(self.activation, self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two linear layers, each added to its input.

    Inputs are (length, batch, d_model), or (batch, length, d_model) when `batch_first`, or without a batch.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, batch_first, norm_first, bias, device, dtype
        )
        self._add_norms(2, d_model, layer_norm_eps, bias, dropout, device, dtype)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the encoded input; masks are True, or -inf, where attention is not allowed."""
        padding = _as_numbers(src_key_padding_mask, src, "src_key_padding_mask")
        mask = _as_numbers(src_mask, src, "src_mask")
        x = self._around(src, self.norm1, lambda x: self._self_attended(x, mask, padding, is_causal))
        return self._around(x, self.norm2, lambda x: self.dropout2(self._fed_forward(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output, then two linear layers, each added to its input."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, batch_first, norm_first, bias, device, dtype
        )
        self._add_norms(3, d_model, layer_norm_eps, bias, dropout, device, dtype)

    def _add_cross_attention(
        self, width: int, heads: int, dropout: float, bias: bool, batch_first: bool, device: object, dtype: object
    ) -> None:
        self.multihead_attn = self._attention(width, heads, dropout, bias, batch_first, device, dtype)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoded input; masks are True, or -inf, where attention is not allowed."""

        def attend_to_memory(x: Tensor) -> Tensor:
            attended, _ = self.multihead_attn(
                x,
                memory,
                memory,
                attn_mask=memory_mask,
                key_padding_mask=memory_key_padding_mask,
                is_causal=memory_is_causal,
                need_weights=False,
            )
            return self.dropout2(attended)

        def attend_to_self(x: Tensor) -> Tensor:
            return self._self_attended(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        x = self._around(tgt, self.norm1, attend_to_self)
        x = self._around(x, self.norm2, attend_to_memory)
        return self._around(x, self.norm3, lambda x: self.dropout3(self._fed_forward(x)))


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, then a norm if there is one.

    `enable_nested_tensor` and `mask_check` say when PyTorch leaves padding out. As there, an encoder that is evaluated
    without gradients, with `batch_first`, gives zeros for padding at the ends of sequences.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor and _may_leave_out_padding(encoder_layer)
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the encoded input; `is_causal` says that the mask is a causal one, None to look at it."""
        padding = _as_numbers(src_key_padding_mask, src, "src_key_padding_mask")
        mask = _as_numbers(mask, src, "mask")
        x, causal = src, _is_causal(mask, is_causal)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if src_key_padding_mask is not None and self._leaves_out_padding(src, src_key_padding_mask):
            left_out = src_key_padding_mask
            if self.mask_check:  # sequences begin at the left
                left_out = left_out & (left_out[:, 1:] >= left_out[:, :-1]).all()
            x = ops.where(left_out.unsqueeze(-1), 0.0, x)
        return x if self.norm is None else self.norm(x)

    def _leaves_out_padding(self, src: Tensor, padding: Tensor) -> bool:
        """Whether PyTorch computes without padding at the ends of sequences, whose results are zeros then."""
        if not self.use_nested_tensor or self.training or src.ndim != 3 or padding.dtype is not bool_:
            return False
        return not (STATE.grad and (src.requires_grad or any(one.requires_grad for one in self.layers.parameters())))


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other, then a norm if there is one."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoded input; `tgt_is_causal` says that its mask is a causal one, None to look at it."""
        x, causal = tgt, _is_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder and a decoder, which attends to what the encoder returns.

    Inputs are (length, batch, d_model), or (batch, length, d_model) when `batch_first`, or without a batch.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = functional.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is None:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
            encoder_layer = TransformerEncoderLayer(*layer, device=device, dtype=dtype)
            self.encoder: Module = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        else:
            self.encoder = custom_encoder
        if custom_decoder is None:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
            decoder_layer = TransformerDecoderLayer(*layer, device=device, dtype=dtype)
            self.decoder: Module = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        else:
            self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return what the decoder makes of `tgt` and of the encoded `src`."""
        if src.ndim == 3:
            dim = 0 if self.batch_first else 1
            same = src.shape[dim] == tgt.shape[dim]
            require(same, "A004", "the batch number of src and tgt must be equal", src=src, tgt=tgt)
        fits = src.shape[-1] == self.d_model and tgt.shape[-1] == self.d_model
        require(fits, "A004", "the feature number of src and tgt must be equal to d_model", src=src, tgt=tgt)
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: object = None, dtype: object = None) -> Tensor:
        """Return the causal mask that is added to scores: -inf above the diagonal, else 0."""
        return ops.triu(ops.full((sz, sz), float("-inf"), dtype=dtype, device=device), 1)

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.ndim > 1:
                init.xavier_uniform_(param)


def _clones(layer: Module, count: int) -> ModuleList:
    require(count <= _MOST_LAYERS, "A002", f"layers are at most {_MOST_LAYERS:,}", num_layers=count)
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def _as_numbers(mask: Tensor | None, like: Tensor, name: str) -> Tensor | None:
    return None if mask is None else additive(mask, like, name)


def _may_leave_out_padding(layer: Module) -> bool:
    """Whether PyTorch's encoder would drop padding for layers of this kind."""
    if not isinstance(layer, TransformerEncoderLayer):
        return False
    attention = layer.self_attn
    even = attention.num_heads % 2 == 0
    valid = layer.activation in (functional.relu, functional.gelu)
    biased = attention._qkv_same_embed_dim and attention.in_proj_bias is not None
    same_eps = layer.norm1.eps == layer.norm2.eps
    return attention.batch_first and even and valid and biased and same_eps and not layer.norm_first


def _is_causal(mask: Tensor | None, given: bool | None) -> bool:
    """Whether layers may take the mask for a causal one.

    Looking at it would save work, not change results: a mask that is given is added as it is.
    """
    if given and mask is None:
        fail("A004", "Need attn_mask if specifying the is_causal hint.")
    return bool(given) and mask is not None
