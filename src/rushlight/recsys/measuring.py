"""Measuring lookups on this machine, for the constants of the planner's estimator."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from rushlight.eager.creation import from_numpy
from rushlight.nn.functional.embedding import embedding_bag
from rushlight.recsys.planner.calibration import Measurement

ROUNDS = 7


def lookups(count: int, seed: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Yield rows, columns, samples and ids of a sample of lookups of mixed sizes."""
    generator = np.random.Generator(np.random.PCG64(seed))
    columns = (16, 32, 64, 128, 256)
    for position in range(count):
        rows = int(10 ** generator.uniform(3, 5.3))
        samples = int(2 ** generator.uniform(5, 11))
        yield rows, columns[position % len(columns)], samples, int(2 ** generator.uniform(0, 5.3))


def measure(rows: int, columns: int, samples: int, pooling: int, seed: int = 0) -> Measurement:
    """Return the time of the sum of bags of ids, forward and backward: the least of several rounds of each."""
    generator = np.random.Generator(np.random.PCG64(seed))
    weight = from_numpy(generator.standard_normal((rows, columns), np.float32)).requires_grad_()
    ids = from_numpy(generator.integers(0, rows, samples * pooling))
    offsets = from_numpy(np.arange(0, samples * pooling, pooling))
    forward, backward = float("inf"), float("inf")
    for _ in range(ROUNDS):
        start = perf_counter()
        bags = embedding_bag(ids, weight, offsets, mode="sum", sparse=True)
        middle = perf_counter()
        bags.backward(bags.detach())
        end = perf_counter()
        weight.grad = None
        forward, backward = min(forward, middle - start), min(backward, end - middle)
    return Measurement(rows, columns, samples, float(pooling), forward * 1e3, backward * 1e3)
