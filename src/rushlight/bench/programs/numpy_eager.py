"""Common operators in numpy that the other programs do not have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.bench.programs.numpy_ops import EPSILON, gelu, matmul, softmax
from rushlight.bench.records import Array

LARGEST = 10  # elements of a row that `topk` keeps


def logsumexp(x: Array) -> Array:
    """Along the last dim."""
    top = x.max(-1)
    return np.log(np.exp(x - top[..., None]).sum(-1)) + top


def ordered(x: Array) -> tuple[Array, Array]:
    """Sorted along the last dim, and the indices that sort."""
    places = np.argsort(x, -1, kind="stable")
    return np.take_along_axis(x, places, -1), places


def largest(x: Array) -> tuple[Array, Array]:
    """The largest of each row in descending order, and where they are."""
    places = np.argsort(-x, -1, kind="stable")[..., :LARGEST]
    return np.take_along_axis(x, places, -1), places


def scatter_add(x: Array, index: Array, y: Array) -> Array:
    """A copy of x with each of y added where its index says."""
    total = x.copy()
    np.add.at(total, index, y)
    return total


def batch_norm(x: Array, w: Array, b: Array) -> Array:
    """Each channel less its mean, over its deviation, times w, plus b."""
    dims = (0, 2, 3)
    centered = x - x.mean(dims, keepdims=True)
    scale = 1.0 / np.sqrt((centered * centered).mean(dims, keepdims=True) + EPSILON)
    return centered * scale * w[:, None, None] + b[:, None, None]


FUNCTIONS: dict[str, Callable[..., object]] = {
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "abs": np.abs,
    "clamp": lambda x: np.clip(x, -1.0, 1.0),
    "relu": lambda x: np.maximum(x, 0),
    "exp": np.exp,
    "sin": np.sin,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "gelu": gelu,
    "log": np.log,
    "pow": lambda x, y: x**y,
    "sum": np.sum,
    "mean": lambda x: x.mean(-1),
    "amax": lambda x: x.max(-1),
    "var": lambda x: x.var(-1, ddof=1),
    "norm": lambda x: np.sqrt((x * x).sum()),
    "logsumexp": logsumexp,
    "max_dim0": lambda x: (x.max(0), x.argmax(0)),
    "argmax": np.argmax,
    "cumsum": np.cumsum,
    "cumsum_rows": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "logcumsumexp": lambda x: np.logaddexp.accumulate(x, -1),
    "sort": ordered,
    "sort_rows": ordered,
    "topk": largest,
    "searchsorted": np.searchsorted,
    "unique": np.unique,
    "median": lambda x: np.sort(x)[(x.size - 1) // 2],
    "where": np.where,
    "gather": lambda x, index: np.take_along_axis(x, index, 1),
    "index_select": lambda x, index: x[index],
    "index": lambda x, index: x[index],
    "masked_select": lambda mask, x, y: x[mask],
    "masked_fill": lambda mask, x, y: np.where(mask, x.dtype.type(0), x),
    "nonzero": lambda mask, x, y: np.argwhere(mask),
    "scatter_add": scatter_add,
    "bmm": matmul,
    "log_softmax": lambda x: np.log(softmax(x)),
    "batch_norm": batch_norm,
    "cat": lambda x, y: np.concatenate([x, y]),
    "flip": lambda x: x[::-1, ::-1],
    "transpose_copy": lambda x: x.T.copy(),
}
