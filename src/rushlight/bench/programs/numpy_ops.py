"""Operators in numpy, in the inputs' dtype; in float64 they are the reference for all contestants."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rushlight.bench.records import Array

EPSILON = 1e-5
GROUP = 128  # rows of packed weights that have one scale
_erf: Callable[[Array], Array] = np.frompyfunc(math.erf, 1, 1)


def matmul(a: Array, b: Array) -> Array:
    """a @ b."""
    return a @ b


def int8_matmul(a: Array, b: Array) -> Array:
    """a @ b in int32. numpy has no fast product of integers: this one is exact in float64 up to 2^53."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32)


def int4_matmul(x: Array, w: Array, scales: Array) -> Array:
    """x @ (int4 * scale): each byte of w has two numbers, of rows 2k and 2k + 1; a scale for each group of rows."""
    numbers = np.stack([w << 4 >> 4, w >> 4], 1).reshape(-1, GROUP, w.shape[1])
    return x @ (numbers.astype(x.dtype) * scales[:, None]).reshape(-1, w.shape[1])


def gelu(x: Array) -> Array:
    """By the error function, which numpy does not have: Python's, element by element."""
    return 0.5 * x * (1.0 + _erf(x * math.sqrt(0.5)).astype(x.dtype))


def gelu_slope(x: Array) -> Array:
    """The derivative of `gelu`."""
    return 0.5 * (1.0 + _erf(x * math.sqrt(0.5)).astype(x.dtype)) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def pointwise(x: Array, w: Array, b: Array, residual: Array) -> Array:
    """gelu(x * w + b) + residual."""
    return gelu(x * w + b) + residual


def softmax(x: Array) -> Array:
    """Along the last dim."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def normalized(x: Array) -> tuple[Array, Array]:
    """x less its mean, over its deviation; and one over the deviation."""
    centered = x - x.mean(-1, keepdims=True)
    scale = 1.0 / np.sqrt((centered * centered).mean(-1, keepdims=True) + EPSILON)
    return centered * scale, scale


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    """Along the last dim."""
    return normalized(x)[0] * w + b


def layer_norm_back(unit: Array, scale: Array, w: Array, g: Array) -> tuple[Array, Array, Array]:
    """Gradients of x, w and b where `normalized(x)` gave `unit, scale`."""
    inner = g * w
    slope = scale * (inner - inner.mean(-1, keepdims=True) - unit * (inner * unit).mean(-1, keepdims=True))
    outer = tuple(range(g.ndim - 1))
    return slope, (g * unit).sum(outer), g.sum(outer)


def layer_norm_gradients(x: Array, w: Array, b: Array, g: Array) -> tuple[Array, ...]:
    """The result, and the gradients of x, w and b."""
    unit, scale = normalized(x)
    return (unit * w + b, *layer_norm_back(unit, scale, w, g))


def rms_norm(x: Array, w: Array) -> Array:
    """Along the last dim."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w


def cross_entropy_gradients(logits: Array, targets: Array) -> tuple[Array, Array]:
    """The mean loss, and the gradient of the logits."""
    rows = np.arange(len(targets))
    slope = softmax(logits)
    loss = -np.log(slope[rows, targets]).mean()
    slope[rows, targets] -= 1.0
    slope /= len(targets)
    return loss, slope


def attention_weights(q: Array, k: Array) -> Array:
    """Causal attention weights. Where there are fewer queries than keys, they are the last positions."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    seen = np.tril(np.ones(scores.shape[-2:], bool), scores.shape[-1] - scores.shape[-2])
    return softmax(np.where(seen, scores, scores.dtype.type(-np.inf)))


def attention(q: Array, k: Array, v: Array) -> Array:
    """Causal."""
    return attention_weights(q, k) @ v


def attention_back(weights: Array, q: Array, k: Array, v: Array, g: Array) -> tuple[Array, Array, Array]:
    """Gradients of q, k and v where `attention_weights(q, k)` gave `weights`."""
    slope = g @ v.swapaxes(-1, -2)
    slope = weights * (slope - (slope * weights).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return slope @ k, slope.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g


def attention_gradients(q: Array, k: Array, v: Array, g: Array) -> tuple[Array, ...]:
    """The result, and the gradients of q, k and v."""
    weights = attention_weights(q, k)
    return (weights @ v, *attention_back(weights, q, k, v, g))


def sum_rows(x: Array) -> Array:
    """Over the first dim."""
    return x.sum(0)


def convolution(x: Array, w: Array, stride: int = 1, groups: int = 1) -> Array:
    """A convolution that pads to the same size, as one product with unfolded windows for each group."""
    border = w.shape[-1] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (border, border), (border, border)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    pairs = zip(np.split(windows, groups, 1), np.split(w, groups), strict=True)
    products = [np.tensordot(part, weights, ((1, 4, 5), (1, 2, 3))) for part, weights in pairs]
    return np.concatenate(products, 3).transpose(0, 3, 1, 2)


def add(*operands: Array) -> Array:
    """The sum, from left to right."""
    return sum(operands[1:], operands[0])


def chain_gradient(x: Array, y: Array, slope: Array) -> Array:
    """The gradient of x at the end of a chain of fifty products with y."""
    return slope * y**50


def unbind_split_flip_cat(x: Array, counts: Array) -> Array:
    """Each row's parts of x, turned round."""
    for row in counts:
        x = np.concatenate([part[::-1] for part in np.split(x, np.cumsum(row)[:-1])])
    return x


def join_selected(x: Array) -> Array:
    """The positive elements."""
    return x[x > 0]


FUNCTIONS: dict[str, Callable[..., object]] = {
    "unbind_split_flip_cat": unbind_split_flip_cat,
    "sum_items": np.sum,
    "join_selected": join_selected,
    "matmul": matmul,
    "int8_matmul": int8_matmul,
    "int4_matmul": int4_matmul,
    "pointwise": pointwise,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "layer_norm_gradients": layer_norm_gradients,
    "rms_norm": rms_norm,
    "cross_entropy_gradients": cross_entropy_gradients,
    "attention": attention,
    "attention_gradients": attention_gradients,
    "sum_rows": sum_rows,
    "convolution": convolution,
    "add": add,
    "recorded_add": add,
    "chain_gradient": chain_gradient,
}
UNFAIR: dict[str, str] = {
    "recorded_add": "numpy records nothing",
    "chain_gradient": "numpy records nothing",
    "pointwise": "numpy has no error function",
    "int8_matmul": "numpy has no fast product of integers",
}
"""Programs that are here to check others, and why numpy is not measured with them."""
