"""All benchmarks of operators by name, and how they are found."""

from __future__ import annotations

from rushlight.bench.operators.programs import (
    attention,
    convolutions,
    indexing,
    jagged,
    losses,
    normalizations,
    pointwise,
    products,
    reductions,
    tiled,
)
from rushlight.bench.operators.record import Benchmark, Problem

BENCHMARKS: dict[str, Benchmark] = {
    one.name: one
    for module in (
        pointwise,
        reductions,
        normalizations,
        products,
        losses,
        attention,
        jagged,
        indexing,
        convolutions,
    )
    for one in module.BENCHMARKS
}
tiled.register(BENCHMARKS)


def find(name: str) -> Problem:
    """A problem by its name, as `softmax/forward/5x9`."""
    operator, mode, sizes = name.split("/")
    return Problem(BENCHMARKS[operator], tuple(map(int, sizes.split("x"))), mode)
