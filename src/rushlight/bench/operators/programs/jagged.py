"""Segments of rows, which offsets bound: sums, means, softmax, norms, products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark
from rushlight.bench.records import Array, Inputs, normal

SETS = {
    "small": [(4, 11, 3), (1, 5, 4)],
    "default": [(256, 20_000, 256), (1024, 65_536, 128)],
    "jagged": [(32, 4096, 512), (4096, 65_536, 64), (16, 65_536, 64)],
}
SIZES = ("segments", "rows", "columns")
EPSILON = 1e-5


def inputs(rng: np.random.Generator, segments: int, rows: int, columns: int) -> Inputs:
    """Rows, and offsets of segments: with three or more one is empty."""
    cuts = np.sort(rng.integers(1, rows, segments - 1))
    if segments > 2:
        cuts[1] = cuts[0]
    return {"x": normal(rng, rows, columns), "offsets": np.concatenate([[0], cuts, [rows]]).astype(np.int64)}


def parts(x: Array, offsets: Array) -> list[Array]:
    """The rows of each segment."""
    return np.split(x, offsets[1:-1])


def each(function: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """The rows that a function gives for each segment, in a row."""
    return lambda x, offsets: np.concatenate([function(part) for part in parts(x, offsets)])


def softmax_of(part: Array) -> Array:
    """Over the rows of a segment."""
    if not len(part):
        return part
    powers = np.exp(part - part.max(0))
    return powers / powers.sum(0)


def norm_of(part: Array) -> Array:
    """A segment of mean 0 and variance 1, over its rows and columns."""
    return (part - part.mean()) / np.sqrt(part.var() + EPSILON) if len(part) else part


def segment_of_rows(x: rl.Tensor, offsets: rl.Tensor) -> rl.Tensor:
    """The number of the segment that each row is in."""
    return rl.searchsorted(offsets[1:].contiguous(), rl.arange(x.shape[0]), right=True)


def summed(x: rl.Tensor, offsets: rl.Tensor) -> rl.Tensor:
    """The sum of each segment's rows."""
    return rl.segment_reduce(x, "sum", offsets=offsets, axis=0)


def mean(x: rl.Tensor, offsets: rl.Tensor) -> rl.Tensor:
    """The mean of each segment's rows, 0 where there are none."""
    counts = (offsets[1:] - offsets[:-1]).clamp(min=1)
    return summed(x, offsets) / counts[:, None]


def softmax(x: rl.Tensor, offsets: rl.Tensor) -> rl.Tensor:
    """Over the rows of each segment."""
    segment = segment_of_rows(x, offsets)
    count = offsets.shape[0] - 1
    index = segment[:, None].expand(x.shape)
    top = rl.full((count, x.shape[1]), -rl.inf, dtype=x.dtype).scatter_reduce(0, index, x.detach(), "amax")
    powers = (x - top[segment]).exp()
    return powers / summed(powers, offsets)[segment]


def layer_norm(x: rl.Tensor, offsets: rl.Tensor) -> rl.Tensor:
    """Each segment of mean 0 and variance 1, over its rows and columns."""
    segment = segment_of_rows(x, offsets)
    counts = ((offsets[1:] - offsets[:-1]) * x.shape[1]).clamp(min=1)
    average = summed(x, offsets).sum(1) / counts
    centred = x - average[segment][:, None]
    variance = summed(centred.square(), offsets).sum(1) / counts
    return centred * (variance + EPSILON).rsqrt()[segment][:, None]


def weights(rng: np.random.Generator, segments: int, rows: int, columns: int) -> Inputs:
    """The same, with a square matrix for each segment."""
    return {**inputs(rng, segments, rows, columns), "w": normal(rng, segments, columns, columns)}


def products_reference(x: Array, offsets: Array, w: Array) -> Array:
    """Each segment by its matrix."""
    return np.concatenate([part @ weight for part, weight in zip(parts(x, offsets), w, strict=True)])


def products(x: rl.Tensor, offsets: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
    """Each segment by its matrix."""
    return rl.nn.functional.grouped_mm(x, w, offs=offsets[1:].to(rl.int32))


def jagged(name: str, about: str, work: float, reference: Any, function: Any) -> Benchmark:
    """A benchmark of segments."""
    return Benchmark(
        name,
        about,
        SIZES,
        SETS,
        lambda segments, rows, columns: work * rows * columns,
        inputs,
        reference,
        function,
        ("x",),
    )


BENCHMARKS = (
    jagged(
        "jagged_sum",
        "the sum of each segment's rows",
        1.0,
        lambda x, offsets: np.stack([part.sum(0) for part in parts(x, offsets)]),
        summed,
    ),
    jagged(
        "jagged_mean",
        "the mean of each segment's rows",
        1.0,
        lambda x, offsets: np.stack([part.sum(0) / max(len(part), 1) for part in parts(x, offsets)]),
        mean,
    ),
    jagged("jagged_softmax", "softmax over the rows of each segment", 5.0, each(softmax_of), softmax),
    jagged("jagged_layer_norm", "each segment of mean 0 and variance 1", 8.0, each(norm_of), layer_norm),
    Benchmark(
        "jagged_dense_bmm",
        "products of segments with a matrix each",
        SIZES,
        {"small": [(4, 11, 4)], "default": [(8, 2048, 256)], "jagged": [(64, 4096, 128)]},
        lambda segments, rows, columns: 2.0 * rows * columns**2,
        weights,
        products_reference,
        products,
    ),
)
