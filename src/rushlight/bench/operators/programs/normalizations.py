"""Norms: of rows, of groups of channels, of batches."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark
from rushlight.bench.programs.numpy_ops import EPSILON, layer_norm, rms_norm
from rushlight.bench.records import Array, Inputs, normal

F = rl.nn.functional
ROWS = {
    "small": [(2, 3), (5, 8)],
    "default": [(4096, 1024), (8192, 4096)],
    "narrow": [(100_000, 64), (100_000, 512)],
    "llm": [(1, 4096), (512, 8192)],
}
IMAGES = {"small": [(2, 4, 3, 5)], "default": [(16, 64, 32, 32), (8, 256, 56, 56)]}
GROUPS = 2


def affine(rng: np.random.Generator, rows: int, columns: int) -> Inputs:
    """Rows, with a factor and a summand for each column."""
    return {"x": normal(rng, rows, columns), "w": normal(rng, columns), "b": normal(rng, columns)}


def images(rng: np.random.Generator, batch: int, channels: int, height: int, width: int) -> Inputs:
    """Images, with a factor and a summand for each channel."""
    return {"x": normal(rng, batch, channels, height, width), "w": normal(rng, channels), "b": normal(rng, channels)}


def standardized(x: Array, axes: tuple[int, ...]) -> Array:
    """x less its mean, over its deviation."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + EPSILON)


def batch_norm_reference(x: Array, w: Array, b: Array) -> Array:
    """By the statistics of the batch."""
    return standardized(x, (0, 2, 3)) * w[:, None, None] + b[:, None, None]


def group_norm_reference(x: Array, w: Array, b: Array) -> Array:
    """By the statistics of each image's groups of channels."""
    parts = x.reshape(x.shape[0], GROUPS, -1)
    return standardized(parts, (2,)).reshape(x.shape) * w[:, None, None] + b[:, None, None]


def batch_norm(x: rl.Tensor, w: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """By the statistics of the batch."""
    return F.batch_norm(x, None, None, w, b, True, 0.1, EPSILON)


def group_norm(x: rl.Tensor, w: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """By the statistics of each image's groups of channels."""
    return F.group_norm(x, GROUPS, w, b, EPSILON)


layer_norms = Benchmark(
    "layer_norm",
    "rows of mean 0 and variance 1, scaled and shifted",
    ("rows", "columns"),
    ROWS,
    lambda m, n: 8.0 * m * n,
    affine,
    layer_norm,
    lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPSILON),
    ("x", "w", "b"),
)


@layer_norms.variant("composition")
def composed_layer_norm(x: rl.Tensor, w: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """By elementary operators."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * w + b


rms_norms = Benchmark(
    "rms_norm",
    "rows over the root of their mean square",
    ("rows", "columns"),
    ROWS,
    lambda m, n: 4.0 * m * n,
    lambda rng, m, n: {"x": normal(rng, m, n), "w": normal(rng, n)},
    rms_norm,
    lambda x, w: F.rms_norm(x, w.shape, w, EPSILON),
    ("x", "w"),
)


@rms_norms.variant("composition")
def composed_rms_norm(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
    """By elementary operators."""
    return x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * w


BENCHMARKS = (
    layer_norms,
    rms_norms,
    Benchmark(
        "batch_norm",
        "channels of mean 0 and variance 1",
        ("batch", "channels", "height", "width"),
        IMAGES,
        lambda n, c, h, w: 8.0 * n * c * h * w,
        images,
        batch_norm_reference,
        batch_norm,
        ("x", "w", "b"),
    ),
    Benchmark(
        "group_norm",
        "groups of channels of mean 0 and variance 1",
        ("batch", "channels", "height", "width"),
        IMAGES,
        lambda n, c, h, w: 8.0 * n * c * h * w,
        images,
        group_norm_reference,
        group_norm,
        ("x", "w", "b"),
    ),
)
