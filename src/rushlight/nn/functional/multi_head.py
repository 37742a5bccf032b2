"""Multi-head attention as a function of its inputs and parameters (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind, bool_
from rushlight.nn.functional.attention import scaled_dot_product_attention
from rushlight.support.errors import fail, require


class Heads(NamedTuple):
    """Queries, keys and values by head: (batch, heads, length, head size), and the mask that is added to scores."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


@checked
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the attended values, and the attention weights (of all heads, or their mean) or None.

    Inputs are (length, batch, features), or (length, features). Masks are True where attention is *not* allowed, or are
    added to the scores. `bias_k` and `bias_v` are one more key and value; `add_zero_attn` adds one of zeros;
    `static_k` and `static_v` (batch * heads, length, head size) stand for the keys and values.
    """
    batched = query.ndim == 3
    _require_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if is_causal and attn_mask is None:
        fail("A004", "Need attn_mask if specifying the is_causal hint.")
    if not batched:
        query, key, value = each_once(lambda one: one.unsqueeze(1), query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _require_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if query is key is value and not use_separate_proj_weight and in_proj_weight is not None:
        projected = [*ops.linear(query, in_proj_weight, in_proj_bias).chunk(3, -1)]  # one product in place of three
    else:
        apart = (q_proj_weight, k_proj_weight, v_proj_weight)
        weights = _input_weights(in_proj_weight, apart, use_separate_proj_weight)
        projected = _projected((query, key, value), weights, in_proj_bias)
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else attn_mask
    source = key.shape[0] if static_k is None else static_k.shape[1]
    masks = _masks(mask, key_padding_mask, query, source, num_heads)
    heads = _heads(projected, (static_k, static_v), (bias_k, bias_v), add_zero_attn, masks, num_heads)
    attended, scores = _attend(heads, dropout_p if training else 0.0, need_weights, causal)
    joined = attended.permute(2, 0, 1, 3).reshape(query.shape[0], query.shape[1], query.shape[2])
    output = ops.linear(joined, out_proj_weight, out_proj_bias)
    if scores is not None and average_attn_weights:
        scores = scores.mean(1)
    if batched:
        return output, scores
    return output.squeeze(1), None if scores is None else scores.squeeze(0)


def each_once(change: Callable[[Tensor], Tensor], *tensors: Tensor) -> list[Tensor]:
    """Return some tensors changed; what is one tensor stays one."""
    changed = {id(tensor): tensor for tensor in tensors}
    changed = {key: change(tensor) for key, tensor in changed.items()}
    return [changed[id(tensor)] for tensor in tensors]


def _require_ranks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> None:
    rank = query.ndim
    require(rank in (2, 3), "A004", f"query should be unbatched 2D or batched 3D, but received {rank}-D", query=query)
    same = key.ndim == rank and value.ndim == rank
    require(same, "A004", f"For a query of {rank} dims key and value have as many", key=key, value=value)
    if key_padding_mask is not None:
        fits = key_padding_mask.ndim == rank - 1
        require(fits, "A004", f"key_padding_mask should be {rank - 1}-D", key_padding_mask=key_padding_mask)
    if attn_mask is not None:
        require(attn_mask.ndim in (2, 3), "A004", "attn_mask should be 2-D or 3-D", attn_mask=attn_mask)


def _require_sizes(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int, separate: bool) -> None:
    width = query.shape[2]
    require(width == embed_dim, "A004", f"was expecting embedding dimension of {embed_dim}, but got {width}")
    require(width % num_heads == 0, "A004", f"embed_dim {width} not divisible by num_heads {num_heads}")
    fits = key.shape[:2] == value.shape[:2] if separate else key.shape == value.shape
    require(fits, "A004", "key and value have other shapes", key=key, value=value)


def _input_weights(
    together: Tensor | None, apart: tuple[Tensor | None, Tensor | None, Tensor | None], separate: bool
) -> Sequence[Tensor]:
    if not separate:
        if together is None:
            fail("A004", "use_separate_proj_weight is False but in_proj_weight is None")
        return together.chunk(3)
    query, key, value = apart
    if query is None or key is None or value is None:
        fail("A004", "use_separate_proj_weight is True but one of q_proj_weight, k_proj_weight, v_proj_weight is None")
    return (query, key, value)


def _projected(inputs: Sequence[Tensor], weights: Sequence[Tensor], bias: Tensor | None) -> list[Tensor]:
    biases: Sequence[Tensor | None] = (None, None, None) if bias is None else bias.chunk(3)
    return [ops.linear(x, weight, own) for x, weight, own in zip(inputs, weights, biases, strict=True)]


def _masks(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor, source: int, num_heads: int
) -> tuple[Tensor | None, Tensor | None]:
    """Both masks as numbers added to scores (batch, heads, queries, keys), None where not given."""
    # Reshaping asks no size of Python, and refuses masks of another shape.
    length, batch, _ = query.shape
    if attn_mask is not None:
        of_heads = (batch, num_heads) if attn_mask.ndim == 3 else ()
        attn_mask = additive(attn_mask, query, "attn_mask").reshape(*of_heads, length, source)
    if key_padding_mask is not None:
        key_padding_mask = additive(key_padding_mask, query, "key_padding_mask").reshape(batch, 1, 1, source)
    return attn_mask, key_padding_mask


def additive(mask: Tensor, like: Tensor, name: str) -> Tensor:
    """Return a mask as numbers that are added to scores: -inf where a bool mask is True."""
    if mask.dtype is bool_:
        return ops.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
    require(mask.dtype.kind is Kind.FLOAT, "A004", f"only bool and floating types of {name} are supported", mask=mask)
    return mask


def _heads(
    projected: list[Tensor],
    static: tuple[Tensor | None, Tensor | None],
    biases: tuple[Tensor | None, Tensor | None],
    add_zero_attn: bool,
    masks: tuple[Tensor | None, Tensor | None],
    num_heads: int,
) -> Heads:
    query, key, value = projected
    batch = query.shape[1]
    keys_and_values: list[Tensor] = []
    given = [bias is not None for bias in biases]
    require(given[0] == given[1], "A004", "bias_k and bias_v are given together or not at all")
    for part, fixed, bias in zip((key, value), static, biases, strict=True):
        if bias is not None:
            require(fixed is None, "A004", "bias cannot be added to static key or value")
            part = ops.cat([part, bias.expand(1, batch, part.shape[2])])
        by_head = _by_head(part, num_heads) if fixed is None else _fixed_by_head(fixed, query, num_heads)
        if add_zero_attn:
            row = (*by_head.shape[:2], 1, by_head.shape[3])
            by_head = ops.cat([by_head, ops.zeros(row, dtype=by_head.dtype, device=by_head.device)], 2)
        keys_and_values.append(by_head)
    more = given[0] + bool(add_zero_attn)
    present = [ops.pad(mask, (0, more)) if more else mask for mask in masks if mask is not None]
    mask = None
    for one in present:
        mask = one if mask is None else mask + one
    key, value = keys_and_values
    return Heads(_by_head(query, num_heads), key, value, mask)


def _by_head(x: Tensor, num_heads: int) -> Tensor:
    """(length, batch, features) to (batch, heads, length, head size)."""
    length, batch, width = x.shape
    return x.reshape(length, batch, num_heads, width // num_heads).permute(1, 2, 0, 3)


def _fixed_by_head(fixed: Tensor, query: Tensor, num_heads: int) -> Tensor:
    _, batch, width = query.shape
    expected = (batch * num_heads, width // num_heads)
    fits = fixed.ndim == 3 and (fixed.shape[0], fixed.shape[2]) == expected
    require(fits, "A004", "static_k and static_v are (batch * heads, length, size)", expected=expected, got=fixed)
    return fixed.reshape(batch, num_heads, fixed.shape[1], fixed.shape[2])


def _attend(heads: Heads, dropped: float, need_weights: bool, causal: bool) -> tuple[Tensor, Tensor | None]:
    query, key, value, mask = heads
    if not need_weights:
        return scaled_dot_product_attention(query, key, value, mask, dropped, causal), None
    scores = (query * query.shape[-1] ** -0.5) @ key.mT
    weights = ops.softmax(scores if mask is None else scores + mask, -1)
    if dropped:
        weights = ops.dropout(weights, dropped, True)
    return weights @ value, weights
