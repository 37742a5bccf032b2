"""Sums, orders and running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark, elements
from rushlight.bench.programs import numpy_eager, numpy_ops
from rushlight.bench.records import Array, Inputs, normal

TOP = 8


def matrix(rng: np.random.Generator, rows: int, columns: int) -> Inputs:
    """A normal matrix."""
    return {"x": normal(rng, rows, columns)}


def distinct(rng: np.random.Generator, rows: int, columns: int) -> Inputs:
    """A matrix of numbers that are all different: its order has one answer."""
    numbers = rng.permutation(rows * columns).astype(np.float32) / np.float32(1 << 10)
    return {"x": numbers.reshape(rows, columns)}


def welford(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    """The mean and the variance of rows."""
    variance, mean = rl.var_mean(x, -1, correction=0)
    return mean, variance


def topk_reference(x: Array) -> tuple[Array, Array]:
    """The largest of each row, in descending order, and where they are."""
    order = np.argsort(-x, -1)[:, : min(TOP, x.shape[1])]
    return np.take_along_axis(x, order, -1), order


def topk(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    """The largest of each row."""
    values, indices = rl.topk(x, min(TOP, x.shape[1]), -1)
    return values, indices


def sort(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    """Rows in ascending order."""
    values, indices = rl.sort(x, -1)
    return values, indices


SETS = {"small": [(1, 1), (5, 9)], "default": [(4096, 1024), (4096, 4096)], "narrow": [(100_000, 64), (100_000, 512)]}
COLUMNS = {"small": [(1, 1), (9, 5)], "default": [(32768, 512), (32768, 2048), (32768, 4096)]}
ORDERS = {"small": [(1, 1), (5, 19)], "default": [(256, 4096), (16, 65536)]}


def of_rows(name: str, about: str, work: float, reference: Any, function: Any, **options: Any) -> Benchmark:
    """A benchmark of the rows of a matrix."""
    options = {"differentiated": ("x",), "shapes": SETS, "make": matrix, **options}
    return Benchmark(
        name,
        about,
        ("rows", "columns"),
        work=lambda *shape: work * elements(*shape),
        reference=reference,
        baseline=function,
        **options,
    )


BENCHMARKS = (
    of_rows("sum", "the sum of each row", 1.0, lambda x: x.sum(-1), lambda x: x.sum(-1)),
    of_rows("sum_columns", "the sum of each column", 1.0, lambda x: x.sum(0), lambda x: x.sum(0), shapes=COLUMNS),
    of_rows("mean", "the mean of each row", 1.0, lambda x: x.mean(-1), lambda x: x.mean(-1)),
    of_rows(
        "welford",
        "mean and variance of each row",
        4.0,
        lambda x: (x.mean(-1), x.var(-1)),
        welford,
        differentiated=(),
    ),
    of_rows("softmax", "softmax of each row", 5.0, numpy_ops.softmax, lambda x: rl.softmax(x, -1)),
    of_rows(
        "logsumexp", "log of the sum of exp of each row", 4.0, numpy_eager.logsumexp, lambda x: rl.logsumexp(x, -1)
    ),
    of_rows("cumsum", "running sums of each row", 1.0, lambda x: np.cumsum(x, -1), lambda x: rl.cumsum(x, -1)),
    of_rows(
        "topk",
        "the largest eight of each row",
        4.0,
        topk_reference,
        topk,
        differentiated=(),
        shapes=ORDERS,
        make=distinct,
    ),
    of_rows(
        "sort", "each row in order", 12.0, numpy_eager.ordered, sort, differentiated=(), shapes=ORDERS, make=distinct
    ),
)
