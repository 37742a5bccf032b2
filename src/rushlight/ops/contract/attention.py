"""Scaled dot-product attention, by its parts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import bool_
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import common_dtype, matmul
from rushlight.ops.create import count_of, positions
from rushlight.ops.dims import Array, compute_array, convert, normal, same_size, widened
from rushlight.ops.join import tril
from rushlight.ops.pointwise.comparison import ge
from rushlight.ops.pointwise.elementary import exp, sqrt
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import sum_to
from rushlight.ops.random import dropout
from rushlight.ops.record import Gradients, Sample, define
from rushlight.ops.reduce.minmax import amax_or_lowest
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.reduce.softmax import safe_softmax, safe_softmax_ref, softmax, softmax_backward, softmax_ref
from rushlight.ops.view.reorder import expand, mT, unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import eq, guard_or_false

EQUAL_HEADS = "attention: as many key heads as query heads; else each is repeated"

causal_softmax = define(
    "causal_softmax(Tensor input) -> Tensor",
    "softmax over the last dim of the elements up to the diagonal; the others are 0.",
    dtypes="float",
    variants="function",
)


@causal_softmax.decompose
def causal_softmax_decompose(input: Value) -> Value:
    require(input.ndim >= 2, "S002", "causal_softmax: the input needs at least 2 dims", input=input.shape)
    rows, columns = positions(input, input.shape[-2]), positions(input, input.shape[-1])
    seen = ge(unsqueeze(rows, 1), columns)
    x = where(seen, widened(input), float("-inf"))
    weights = tril(exp(x - amax_or_lowest(x, -1, True)), 0)
    return convert(where(seen, weights * (1.0 / sum_(weights, -1, True)), 0.0), input.dtype)


@causal_softmax.ref
def causal_softmax_ref(input: Array) -> Array:
    seen = np.tri(*input.shape[-2:], dtype=np.bool_)
    x = np.where(seen, compute_array(input), -np.inf)
    weights = np.where(seen, np.exp(x - np.max(x, -1, keepdims=True, initial=-np.inf)), 0)
    return np.where(seen, weights / np.sum(weights, -1, keepdims=True), 0).astype(input.dtype)


@causal_softmax.vjp(types=("input",))
def causal_softmax_vjp(g: Value, out: Value, input: TensorType) -> Value:
    return _causal_softmax_gradient(g, out)


def _causal_softmax_gradient(g: Value, out: Value) -> Value:
    slope, weights = tril(widened(g), 0), widened(out)
    return convert(weights * tril(slope - sum_(slope * weights, -1, True), 0), g.dtype)


@causal_softmax.samples
def causal_softmax_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4, 4))
    yield Sample(normal(rng, 2, 5, 3) * 50)
    yield Sample(normal(rng, 2, 1, 3, 6))


attend = define(
    "attend(Tensor query, Tensor key, Tensor value, Tensor? mask, float? scale, bool is_causal) -> Tensor",
    "softmax(query @ key.mT * scale + mask) @ value, whose gradient makes the weights again: nobody keeps them.",
    dtypes="float",
    variants="function",
)


@attend.decompose
def attend_decompose(
    query: Value, key: Value, value: Value, mask: Value | None, scale: float | None, is_causal: bool
) -> Value:
    return matmul(_weights(query, key, mask, scale, is_causal), value)


def _weights(query: Value, key: Value, mask: Value | None, scale: float | None, is_causal: bool) -> Value:
    """How much each query sees of each key: of none where a mask hides them all."""
    require(not (is_causal and mask is not None), "A004", "attention: is_causal and attn_mask exclude each other")
    scores = matmul(query, mT(key)) * _scale(query, scale)
    if mask is None:
        return causal_softmax(scores) if is_causal else softmax(scores, -1)
    return safe_softmax(where(mask, scores, float("-inf")) if mask.dtype is bool_ else scores + mask, -1)


@attend.ref
def attend_ref(
    query: Array, key: Array, value: Array, mask: Array | None, scale: float | None, is_causal: bool
) -> Array:
    return scaled_dot_product_attention_ref(query, key, value, mask, 0.0, is_causal, scale, False)


@attend.vjp
def attend_vjp(
    g: Value, query: Value, key: Value, value: Value, mask: Value | None, scale: float | None, is_causal: bool
) -> Gradients:
    weights = _weights(query, key, mask, scale, is_causal)
    grad = matmul(g, mT(value))
    grad = _causal_softmax_gradient(grad, weights) if is_causal else softmax_backward(grad, weights, -1)
    grad_mask = None
    if mask is not None and mask.dtype is bool_:
        grad = where(mask, grad, 0.0)
    elif mask is not None:
        grad_mask = sum_to(grad, mask.shape)
    # Not of the scores' gradient: these are fewer.
    query_scaled, key_scaled = (factor * _scale(query, scale) for factor in (query, key))
    return (
        sum_to(matmul(grad, key_scaled), query.shape),
        sum_to(matmul(mT(grad), query_scaled), key.shape),
        sum_to(matmul(mT(weights), g), value.shape),
        grad_mask,
    )


@attend.samples
def attend_samples(rng: np.random.Generator) -> Iterator[Sample]:
    q, k, v = normal(rng, 2, 3, 5, 4), normal(rng, 2, 3, 6, 4), normal(rng, 2, 3, 6, 2)
    yield Sample(q, k, v, None, None, False)
    yield Sample(q, k[:, :, :5], v[:, :, :5], None, None, True)
    yield Sample(q, k[:, :1], v[0], np.tri(5, 6, 1, dtype=np.bool_), 0.3, False)
    mask = normal(rng, 5, 6)
    mask[2] = -np.inf
    yield Sample(q[0, 0], k[0, 0], v[0, 0], mask, None, False)


scaled_dot_product_attention = define(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
    "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    "softmax(query @ key.mT * scale + mask) @ value over the last two dims; a bool mask says what takes part.",
    dtypes="float",
    autocast="lower",
    variants="function",
)


@scaled_dot_product_attention.decompose
def scaled_dot_product_attention_decompose(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Value:
    least = 3 if enable_gqa else 2
    fits = min(query.ndim, key.ndim, value.ndim) >= least
    require(fits, "S002", f"attention: at least {least} dims are needed", query=query, key=key, value=value)
    if enable_gqa:
        key, value = _repeated_heads(key, query), _repeated_heads(value, query)
    dtype = common_dtype("attention", query=query, key=key, value=value)
    # Scores keep float32: rounded to bfloat16 a score of 200 is off by up to 0.5, and its weight by a factor of 1.6.
    query, key, value = widened(query), widened(key), widened(value)
    if attn_mask is not None and attn_mask.dtype is not bool_:
        attn_mask = widened(attn_mask)
    if dropout_p == 0.0:
        return convert(attend(query, key, value, attn_mask, scale, is_causal), dtype)
    weights = dropout(_weights(query, key, attn_mask, scale, is_causal), dropout_p, True)
    return convert(matmul(weights, value), dtype)


def _scale(query: Value, scale: float | None) -> Value | float:
    width = query.shape[-1]
    if scale is not None:
        return scale
    if not isinstance(width, int):
        return 1.0 / sqrt(count_of(query, width) * 1.0)
    return 1.0 / math.sqrt(width) if width else math.inf


def _repeated_heads(value: Value, query: Value) -> Value:
    """Each head of `value` repeated, so that groups of query heads share it."""
    heads, wanted = value.shape[-3], query.shape[-3]
    if guard_or_false(eq(heads, wanted), EQUAL_HEADS):
        return value
    times = wanted // heads
    require(
        same_size(times * heads, wanted),
        "S014",
        "attention: key heads must divide query heads",
        key=heads,
        query=wanted,
    )
    lead, matrix = value.shape[:-3], value.shape[-2:]
    return reshape(expand(unsqueeze(value, -3), (*lead, heads, times, *matrix)), (*lead, wanted, *matrix))


@scaled_dot_product_attention.ref
def scaled_dot_product_attention_ref(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Array:
    q, k, v = compute_array(query), compute_array(key), compute_array(value)
    if enable_gqa:
        k, v = (np.repeat(array, q.shape[-3] // array.shape[-3], -3) for array in (k, v))
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(scale or 1 / math.sqrt(q.shape[-1]))
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == np.bool_ else scores + attn_mask
    weights = softmax_ref(scores, -1, None) if attn_mask is None else safe_softmax_ref(scores, -1)
    return np.matmul(weights, v).astype(query.dtype)


@scaled_dot_product_attention.samples
def scaled_dot_product_attention_samples(rng: np.random.Generator) -> Iterator[Sample]:
    q, k, v = normal(rng, 2, 3, 5, 4), normal(rng, 2, 3, 6, 4), normal(rng, 2, 3, 6, 2)
    yield Sample(q, k, v)
    yield Sample(q, k[:, :, :5], v[:, :, :5], is_causal=True)
    yield Sample(q, k, v, np.tri(5, 6, -1, dtype=np.bool_), scale=0.3)
    yield Sample(q, k, v, normal(rng, 3, 5, 6))
    yield Sample(normal(rng, 2, 4, 5, 4), k[:, :2], v[:, :2], enable_gqa=True)
