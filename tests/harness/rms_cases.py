"""Programs whose rounding errors are compared: the same text for Rushlight and torch, and their meaning in float64.

`functional` is the module of neural network functions; tensors have the methods that both frameworks have.
"""

import math
from typing import Any

import numpy as np

MOST_NORMAL = 8_000_000
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


def sums_of_tails(x):
    """Several sums of a long vector, which begin at different places."""
    return [x[start:].sum() for start in range(0, 10 * 123_457, 123_457)]


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
    "sum-of-short-rows": ([((4096, 100), 1, 0)], lambda functional, x: x.sum(-1), lambda x: x.sum(-1)),
    "sum-of-64-rows": ([((64, 4096), 1, 0)], lambda functional, x: x.sum(0), lambda x: x.sum(0)),
    "sum-of-256-rows": ([((256, 4096), 1, 0)], lambda functional, x: x.sum(0), lambda x: x.sum(0)),
    "sum-of-65536-rows": ([((65536, 64), 1, 0)], lambda functional, x: x.sum(0), lambda x: x.sum(0)),
    "sum-of-10M": ([((10_000_000,), 1, 1)], lambda functional, x: sums_of_tails(x), sums_of_tails),
    "sum-of-100M": ([((100_000_000,), 1, 0)], lambda functional, x: sums_of_tails(x), sums_of_tails),
    "mean-of-rows": ([((256, 10000), 1, 1)], lambda functional, x: x.mean(-1), lambda x: x.mean(-1)),
    "mean-of-columns": ([((10000, 256), 1, 1)], lambda functional, x: x.mean(0), lambda x: x.mean(0)),
    "norm-of-rows": ([((256, 10000), 1, 0)], lambda functional, x: x.norm(2, -1), lambda x: np.sqrt((x * x).sum(-1))),
    "norm-of-columns": ([((10000, 256), 1, 0)], lambda functional, x: x.norm(2, 0), lambda x: np.sqrt((x * x).sum(0))),
    "variance-of-columns": ([((5000, 256), 1, 10)], lambda functional, x: x.var(0), lambda x: x.var(0, ddof=1)),
    "cross_entropy": (
        [((1024, 1000), 1, 0)],
        lambda functional, x: functional.cross_entropy(x, x.argmax(-1), reduction="none"),
        lambda x: log_sum_exp(x) - x.max(-1),
    ),
}


def operands(name):
    """The operands of a case: normally distributed, or uniformly where they are many."""
    random = np.random.default_rng(list(CASES).index(name))
    found = []
    for shape, scale, offset in CASES[name][0]:
        if math.prod(shape) > MOST_NORMAL:
            array = random.random(shape, np.float32)
            array -= np.float32(0.5 - offset)
            found.append(array)
        else:
            found.append((random.standard_normal(shape) * scale + offset).astype(np.float32))
    return found


def error_of(name, functional, from_numpy):
    """The root of the mean square of a framework's errors."""
    arrays = operands(name)
    _, program, meaning = CASES[name]
    found = program(functional, *map(from_numpy, arrays))
    numbers = np.asarray([part.numpy() for part in found] if isinstance(found, list) else found.numpy(), np.float64)
    wanted = np.asarray(meaning(*[array.astype(np.float64) for array in arrays]))
    return float(np.sqrt(np.mean((numbers - wanted) ** 2)))
