"""Reads and writes where indices say."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark
from rushlight.bench.records import Array, Inputs, normal

F = rl.nn.functional


def lookups(rng: np.random.Generator, table: int, width: int, count: int) -> Inputs:
    """A table, and places in it."""
    return {"w": normal(rng, table, width), "index": rng.integers(0, table, count)}


def lookup_bytes(table: int, width: int, count: int) -> float:
    """The rows that are read and written, and the places."""
    return 8.0 * count * width + 8.0 * count


def gathered(rng: np.random.Generator, rows: int, columns: int) -> Inputs:
    """A matrix, and places in its rows."""
    return {"x": normal(rng, rows, columns), "index": rng.integers(0, columns, (rows, columns))}


def scatter_add(x: Array, index: Array) -> Array:
    """Each element is added to its place of the same row."""
    result = np.zeros_like(x)
    np.add.at(result, (np.arange(len(x))[:, None], index), x)
    return result


def boxes(rng: np.random.Generator, count: int, others: int) -> Inputs:
    """Corners of rectangles."""

    def drawn(number: int) -> Array:
        corner = rng.uniform(0, 1, (number, 2)).astype(np.float32)
        return np.concatenate([corner, corner + rng.uniform(0.1, 0.5, (number, 2)).astype(np.float32)], 1)

    return {"a": drawn(count), "b": drawn(others)}


def iou_reference(a: Array, b: Array) -> Array:
    """The area that two rectangles share, as a part of what they cover."""
    low, high = np.maximum(a[:, None, :2], b[:, :2]), np.minimum(a[:, None, 2:], b[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), -1)
    return shared / (np.prod(a[:, 2:] - a[:, :2], -1)[:, None] + np.prod(b[:, 2:] - b[:, :2], -1) - shared)


def iou(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    """The area that two rectangles share, as a part of what they cover."""
    low, high = rl.maximum(a[:, None, :2], b[:, :2]), rl.minimum(a[:, None, 2:], b[:, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    return shared / ((a[:, 2:] - a[:, :2]).prod(-1)[:, None] + (b[:, 2:] - b[:, :2]).prod(-1) - shared)


TABLES = {"small": [(7, 4, 5)], "default": [(32_000, 512, 4096), (1_000_000, 64, 32_768)]}
SQUARES = {"small": [(3, 5)], "default": [(1024, 1024), (4096, 1024)]}

BENCHMARKS = (
    Benchmark(
        "embedding",
        "rows of a table",
        ("table", "width", "count"),
        TABLES,
        lambda table, width, count: 1.0 * width * count,
        lookups,
        lambda w, index: w[index],
        lambda w, index: F.embedding(index, w),
        ("w",),
        traffic=lookup_bytes,
    ),
    Benchmark(
        "gather",
        "elements of rows",
        ("rows", "columns"),
        SQUARES,
        lambda m, n: 1.0 * m * n,
        gathered,
        lambda x, index: np.take_along_axis(x, index, 1),
        lambda x, index: rl.gather(x, 1, index),
        ("x",),
    ),
    Benchmark(
        "scatter_add",
        "elements added at places of their rows",
        ("rows", "columns"),
        SQUARES,
        lambda m, n: 1.0 * m * n,
        gathered,
        scatter_add,
        lambda x, index: rl.zeros_like(x).scatter_add(1, index, x),
        ("x",),
    ),
    Benchmark(
        "box_iou",
        "how much pairs of rectangles overlap, as suppression of lesser boxes asks",
        ("boxes", "others"),
        {"small": [(3, 5)], "default": [(1024, 1024), (4096, 1024)]},
        lambda m, n: 12.0 * m * n,
        boxes,
        iou_reference,
        iou,
    ),
)
