"""Attention, and positions by rotation."""

from __future__ import annotations

import functools

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.dtypes import dtype_of
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Size, Value


def _heads(x: Tensor, count: int) -> Tensor:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def _repeated(x: Tensor, heads: Size) -> Tensor:
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _mask_numbers(mask: Tensor, dtype: rl.dtype) -> Tensor:
    if mask.dtype is not rl.bool:
        return mask.to(dtype)
    return rl.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -float("inf"))


def _bias(
    scores: Tensor, mask: Tensor | None, window: tuple[int, int], offset: Value, lengths: Tensor | None
) -> Tensor | None:
    """What is added to scores: the mask, minus infinity outside the window and beyond each example's length."""
    bias = None
    rows, columns = scores.shape[-2:]
    if mask is not None:
        bias = _mask_numbers(mask, scores.dtype)
        if bias.dim():
            bias = rl.constant_pad_nd(bias, [0, columns - bias.shape[-1]], -float("inf"))
    left, right = window
    if left < 0 and right < 0 and lengths is None:
        return bias
    places = rl.arange(columns)
    start = offset.reshape(-1, 1, 1, 1) if isinstance(offset, Tensor) else offset
    ahead = places - (rl.arange(rows).unsqueeze(1) + start)
    parts = [] if left < 0 else [ahead < -left]
    parts += [] if right < 0 else [ahead > right]
    parts += [] if lengths is None else [places >= lengths.reshape(-1, 1, 1, 1)]
    hidden = functools.reduce(rl.logical_or, parts)
    cut = rl.zeros(hidden.shape, dtype=scores.dtype).masked_fill(hidden, -float("inf"))
    return cut if bias is None else bias + cut


@operator("Attention", counted=True)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int = 1,
) -> object:
    """Weighted means of values, by the products of queries and keys."""
    flat = q.dim() == 3
    if flat:
        assert q_num_heads is not None and kv_num_heads is not None
        q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    if past_key is not None and past_value is not None:
        k, v = rl.cat([past_key, k], 2), rl.cat([past_value, v], 2)
    heads, factor = q.shape[1], (q.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    scores = (q * factor) @ (_repeated(k, heads) * factor).mT
    offset: Value = 0 if past_key is None else past_key.shape[2]
    if lengths is not None and past_key is None:
        offset = lengths - q.shape[2]
    # Capped first: a masked score stays minus infinity.
    capped = softcap * rl.tanh(scores / softcap) if softcap else scores
    right = 0 if is_causal else right_window_size
    bias = _bias(capped, mask, (left_window_size, right), offset, lengths)
    biased = capped if bias is None else capped + bias
    weights = _weights(biased, softmax_precision)
    shown = (capped, capped, biased, weights)
    result = weights @ _repeated(v, heads)
    result = result.transpose(1, 2).flatten(2) if flat else result
    return (result, k, v, shown[qk_matmul_output_mode])[:outputs]


def _weights(scores: Tensor, precision: int | None) -> Tensor:
    wide = scores if precision is None else scores.to(dtype_of(precision))
    weights = rl.softmax(wide, -1)
    # A row that attends to nothing is zero.
    empty = (wide == -float("inf")).all(-1, keepdim=True)
    return weights.masked_fill(empty, 0.0).to(scores.dtype)


@operator("RotaryEmbedding")
def rotary_embedding(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of numbers turned by angles that grow with their positions."""
    flat = x.dim() == 3
    rows = x.reshape(x.shape[0], x.shape[1], num_heads, -1) if flat else x.transpose(1, 2)
    size = rotary_embedding_dim or rows.shape[-1]
    turned, rest = rows[..., :size], rows[..., size:]
    cos, sin = (table if positions is None else table[positions] for table in (cosines, sines))
    cos, sin = cos[..., : size // 2].unsqueeze(2), sin[..., : size // 2].unsqueeze(2)
    first, second = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    one, two = cos * first - sin * second, sin * first + cos * second
    joined = rl.stack([one, two], -1).flatten(-2) if interleaved else rl.cat([one, two], -1)
    whole = rl.cat([joined, rest], -1)
    return whole.flatten(2) if flat else whole.transpose(1, 2)
