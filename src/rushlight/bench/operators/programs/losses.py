"""Losses of classes, and divergences of distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark
from rushlight.bench.records import Array, Inputs, normal

F = rl.nn.functional
BETA = 0.5
VOCABULARY = {
    "small": [(1, 2), (5, 9)],
    "default": [(1024, 8192), (2048, 32000)],
    "llm": [(2048, 4096), (2048, 8192), (2048, 16384), (512, 128_000)],
}
PROJECTED = {"small": [(3, 4, 7)], "default": [(512, 512, 8192), (1024, 1024, 32000)], "llm": [(2048, 4096, 32000)]}


def log_softmax(x: Array) -> Array:
    """Along the last dim."""
    centred = x - x.max(-1, keepdims=True)
    return centred - np.log(np.exp(centred).sum(-1, keepdims=True))


def classes(rng: np.random.Generator, rows: int, vocabulary: int) -> Inputs:
    """Logits, and a class for each row."""
    return {"x": normal(rng, rows, vocabulary), "targets": rng.integers(0, vocabulary, rows)}


def cross_entropy(x: Array, targets: Array) -> Array:
    """The mean over rows."""
    return -log_softmax(x)[np.arange(len(targets)), targets].mean()


def projected(rng: np.random.Generator, rows: int, width: int, vocabulary: int) -> Inputs:
    """Rows, the weights of the vocabulary, and a class for each row."""
    return {
        "x": normal(rng, rows, width),
        "w": normal(rng, vocabulary, width, scale=width**-0.5),
        "targets": rng.integers(0, vocabulary, rows),
    }


def distributions(rng: np.random.Generator, rows: int, vocabulary: int) -> Inputs:
    """Rows of log probabilities, two of each."""
    return {name: log_softmax(normal(rng, rows, vocabulary)) for name in ("x", "y")}


def students(rng: np.random.Generator, rows: int, width: int, vocabulary: int) -> Inputs:
    """Rows of a student and a teacher, and the weights of their vocabulary."""
    scale = width**-0.5
    return {
        "x": normal(rng, rows, width),
        "w": normal(rng, vocabulary, width, scale=scale),
        "y": normal(rng, rows, width),
        "v": normal(rng, vocabulary, width, scale=scale),
    }


def kl_div(x: Array, y: Array) -> Array:
    """Of y from x, both logarithms: the mean over rows."""
    return (np.exp(y) * (y - x)).sum(-1).mean()


def jsd(x: Any, y: Any, log: Any, exp: Any) -> Any:
    """The Jensen-Shannon divergence of two rows of log probabilities: the mean over rows."""
    mixed = log((1 - BETA) * exp(x) + BETA * exp(y))
    return (BETA * exp(y) * (y - mixed) + (1 - BETA) * exp(x) * (x - mixed)).sum(-1).mean()


def jsd_reference(x: Array, y: Array) -> Array:
    """By numpy."""
    return jsd(x, y, np.log, np.exp)


def jsd_composition(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
    """By elementary operators."""
    return jsd(x, y, rl.log, rl.exp)


def fused_jsd(x: rl.Tensor, w: rl.Tensor, y: rl.Tensor, v: rl.Tensor) -> rl.Tensor:
    """Of two projections."""
    return jsd_composition(F.log_softmax(x @ w.T, -1), F.log_softmax(y @ v.T, -1))


BENCHMARKS = (
    Benchmark(
        "cross_entropy",
        "the mean loss of classes",
        ("rows", "vocabulary"),
        VOCABULARY,
        lambda m, n: 5.0 * m * n,
        classes,
        cross_entropy,
        F.cross_entropy,
        ("x",),
    ),
    Benchmark(
        "fused_linear_cross_entropy",
        "the mean loss of classes of a projection",
        ("rows", "width", "vocabulary"),
        PROJECTED,
        lambda m, d, n: 2.0 * m * d * n,
        projected,
        lambda x, w, targets: cross_entropy(x @ w.T, targets),
        lambda x, w, targets: F.cross_entropy(F.linear(x, w), targets),
        ("x", "w"),
    ),
    Benchmark(
        "kl_div",
        "the Kullback-Leibler divergence of rows of log probabilities",
        ("rows", "vocabulary"),
        VOCABULARY,
        lambda m, n: 13.0 * m * n,
        distributions,
        kl_div,
        lambda x, y: F.kl_div(x, y, reduction="batchmean", log_target=True),
        ("x",),
    ),
    Benchmark(
        "jsd",
        "the Jensen-Shannon divergence of rows of log probabilities",
        ("rows", "vocabulary"),
        VOCABULARY,
        lambda m, n: 40.0 * m * n,
        distributions,
        jsd_reference,
        jsd_composition,
        ("x",),
    ),
    Benchmark(
        "fused_linear_jsd",
        "the Jensen-Shannon divergence of two projections",
        ("rows", "width", "vocabulary"),
        PROJECTED,
        lambda m, d, n: 4.0 * m * d * n,
        students,
        lambda x, w, y, v: jsd_reference(log_softmax(x @ w.T), log_softmax(y @ v.T)),
        fused_jsd,
        ("x", "w"),
    ),
)
