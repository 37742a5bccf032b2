"""Convolutions over one dim and two."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark
from rushlight.bench.programs.numpy_ops import convolution
from rushlight.bench.records import Array, normal

F = rl.nn.functional


def along(x: Array, w: Array) -> Array:
    """Over one dim, padded to the same length."""
    border = w.shape[-1] // 2
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (border, border))), w.shape[-1], 2)
    return np.einsum("bctk,ock->bot", windows, w, optimize=True)


BENCHMARKS = (
    Benchmark(
        "conv1d",
        "three taps along a sequence",
        ("batch", "channels", "length"),
        {"small": [(2, 3, 7)], "default": [(16, 64, 512), (4, 256, 2048)]},
        lambda b, c, t: 6.0 * b * c * c * t,
        lambda rng, b, c, t: {"x": normal(rng, b, c, t), "w": normal(rng, c, c, 3)},
        along,
        lambda x, w: F.conv1d(x, w, padding=1),
        ("x", "w"),
    ),
    Benchmark(
        "conv2d",
        "3x3 over images",
        ("batch", "channels", "size"),
        {"small": [(2, 3, 5)], "default": [(1, 64, 56), (8, 64, 28)]},
        lambda b, c, s: 18.0 * b * c * c * s * s,
        lambda rng, b, c, s: {"x": normal(rng, b, c, s, s), "w": normal(rng, c, c, 3, 3)},
        convolution,
        lambda x, w: F.conv2d(x, w, padding=1),
        ("x", "w"),
    ),
    Benchmark(
        "depthwise_conv2d",
        "3x3 over each channel by itself",
        ("batch", "channels", "size"),
        {"small": [(2, 3, 5)], "default": [(1, 128, 56), (8, 128, 28)]},
        lambda b, c, s: 18.0 * b * c * s * s,
        lambda rng, b, c, s: {"x": normal(rng, b, c, s, s), "w": normal(rng, c, 1, 3, 3)},
        lambda x, w: convolution(x, w, groups=x.shape[1]),
        lambda x, w: F.conv2d(x, w, padding=1, groups=x.shape[1]),
        ("x", "w"),
    ),
)
