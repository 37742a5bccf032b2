"""Programs whose rounding errors are compared: the same text for Rushlight and torch, and their meaning in float64.

`functional` is the module of neural network functions; tensors have the methods that both frameworks have.
"""

import math
from typing import Any

import numpy as np

erf = np.vectorize(math.erf)


def softmax(x):
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def log_sum_exp(x):
    return np.log(np.exp(x).sum(-1))


def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    seen = np.tril(np.ones(scores.shape[-2:], dtype=bool))
    return softmax(np.where(seen, scores, -np.inf)) @ v


def convolution(x, w):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def product(a, b):
    return a @ b


# name: the shapes, scales and offsets of the operands, the program, its meaning.
CASES: dict[str, tuple[Any, Any, Any]] = {
    "product-256": ([((256, 256), 1, 0)] * 2, lambda functional, a, b: a @ b, product),
    "product-1024": ([((256, 1024), 1, 0), ((1024, 256), 1, 0)], lambda functional, a, b: a @ b, product),
    "product-8192": ([((64, 8192), 1, 0), ((8192, 64), 1, 0)], lambda functional, a, b: a @ b, product),
    "product-vector": ([((512, 4096), 1, 0), ((4096,), 1, 0)], lambda functional, a, b: a @ b, product),
    "convolution": (
        [((2, 64, 20, 20), 1, 0), ((32, 64, 3, 3), 1, 0)],
        lambda functional, x, w: functional.conv2d(x, w, None, 1, 1),
        convolution,
    ),
    "attention": (
        [((2, 4, 256, 64), 1, 0)] * 3,
        lambda functional, q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        attention,
    ),
    "softmax": ([((256, 4096), 1, 0)], lambda functional, x: functional.softmax(x, -1), softmax),
    "log_softmax": (
        [((256, 4096), 1, 0)],
        lambda functional, x: functional.log_softmax(x, -1),
        lambda x: x - log_sum_exp(x)[:, None],
    ),
    "logsumexp": ([((256, 4096), 1, 0)], lambda functional, x: x.logsumexp(-1), log_sum_exp),
    "layer_norm": ([((256, 1024), 3, 1)], lambda functional, x: functional.layer_norm(x, (1024,)), layer_norm),
    "gelu": (
        [((256, 256), 2, 0)],
        lambda functional, x: functional.gelu(x),
        lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
    ),
    "exp": ([((256, 256), 4, 0)], lambda functional, x: x.exp(), np.exp),
    "tanh": ([((256, 256), 2, 0)], lambda functional, x: x.tanh(), np.tanh),
    "sum-of-rows": ([((256, 10000), 1, 0)], lambda functional, x: x.sum(-1), lambda x: x.sum(-1)),
    "sum-of-columns": ([((10000, 256), 1, 0)], lambda functional, x: x.sum(0), lambda x: x.sum(0)),
    "variance": ([((256, 5000), 1, 10)], lambda functional, x: x.var(-1), lambda x: x.var(-1, ddof=1)),
}


def operands(name):
    """The operands of a case."""
    random = np.random.default_rng(list(CASES).index(name))
    return [
        (random.standard_normal(shape) * scale + offset).astype(np.float32) for shape, scale, offset in CASES[name][0]
    ]


def error_of(name, functional, from_numpy):
    """The root of the mean square of a framework's errors."""
    arrays = operands(name)
    _, program, meaning = CASES[name]
    found = np.asarray(program(functional, *map(from_numpy, arrays)).numpy(), dtype=np.float64)
    wanted = meaning(*[array.astype(np.float64) for array in arrays])
    return float(np.sqrt(np.mean((found - wanted) ** 2)))
