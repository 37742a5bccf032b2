"""Benchmark cases: inputs, a program, and the operations and bytes of one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Inputs = dict[str, Array]
Work = Callable[[], object]
"""One call of what is measured. It returns when the result is there."""

Record = dict[str, Any]
"""A JSON object: a worker's answer, or a part of a run's results."""

SEED = 20240611
TOLERANCES: dict[str, float] = {"float32": 1e-4, "bfloat16": 1e-2, "int8": 0.0}
"""By the dtype of the inputs."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure.

    `program` is a name in each framework's table of programs. `make` draws the inputs, the same for all frameworks;
    floating inputs are passed in `dtype`. `flops` and `bytes` are per call, with each operand and result moved once. A
    program with state is checked by the results of its first `calls` calls. `tolerance`, by default that of the dtype,
    is the largest difference allowed as a share of the largest value expected. Where first calls are measured, `later`
    more calls are timed after them. `contestants` names those that take part, all if it is empty.
    """

    name: str
    family: str
    program: str
    make: Callable[[np.random.Generator], Inputs]
    flops: float
    bytes: float
    dtype: str = "float32"
    calls: int = 1
    tolerance: float | None = None
    later: int = 0
    contestants: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def allowed(self) -> float:
        """The largest difference allowed, as a share of the largest value expected."""
        return TOLERANCES[self.dtype] if self.tolerance is None else self.tolerance

    def inputs(self) -> Inputs:
        """The arrays that every contestant gets."""
        return drawn(self.make, self.dtype)


def drawn(make: Callable[[np.random.Generator], Inputs], dtype: str) -> Inputs:
    """The arrays that `make` draws; float32 arrays are rounded to values of `dtype`."""
    return {name: rounded_to(array, dtype) for name, array in make(np.random.default_rng(SEED)).items()}


def rounded_to(array: Array, dtype: str) -> Array:
    """An array that has values of `dtype` only, where that is narrower than float32."""
    return rounded(array) if dtype == "bfloat16" else array


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Normally distributed float32 values."""
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def rounded(values: Array) -> Array:
    """float32 values rounded to the nearest bfloat16, ties to even; other arrays as they are."""
    if values.dtype != np.float32:
        return values
    bits = values.view(np.uint32)
    bits = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def moved(*shapes: tuple[int, ...], size: int = 4) -> float:
    """Bytes of arrays of these shapes with elements of `size` bytes."""
    return float(size * sum([math.prod(shape) for shape in shapes]))
