"""Checks of contestants' results: they are compared with numpy's in float64 before any time is taken."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from rushlight.bench.programs import numpy_eager, numpy_layers, numpy_models, numpy_ops
from rushlight.bench.records import Array, Case, Inputs, Work

FUNCTIONS = {**numpy_ops.FUNCTIONS, **numpy_eager.FUNCTIONS, **numpy_layers.FUNCTIONS}


def numpy_work(case: Case, inputs: Inputs) -> Work:
    """The case in numpy, in the dtype of the inputs."""
    if case.program in FUNCTIONS:
        return functools.partial(FUNCTIONS[case.program], *inputs.values(), **case.options)
    return numpy_models.MODELS[case.program](inputs, **case.options)


def flat(result: object) -> list[Array]:
    """The arrays of a result, which is an array or nested lists of arrays."""
    if isinstance(result, list | tuple):
        return [array for one in result for array in flat(one)]
    return [np.asarray(result)]


def reference(case: Case, inputs: Inputs) -> list[Array]:
    """The results of the first calls, computed in float64."""
    work = numpy_work(case, widened(inputs))
    return [array for _ in range(case.calls) for array in flat(work())]


def widened(inputs: Inputs) -> Inputs:
    """Inputs with float64 in place of float32."""
    return {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in inputs.items()}


def worst_difference(actual: Sequence[Array], expected: Sequence[Array]) -> tuple[float, str]:
    """The largest difference as a share of the largest value expected, over all results; and where it is."""
    if len(actual) != len(expected):
        return math.inf, f"{len(actual)} results where {len(expected)} are expected"
    worst, where = 0.0, ""
    for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
        if one.shape != other.shape:
            return math.inf, f"result {number} has shape {one.shape}, expected {other.shape}"
        if not one.size:
            continue
        scale = float(np.abs(other).max())
        difference = float(np.abs(one.astype(np.float64) - other).max()) / (scale or 1.0)
        if not difference <= worst:
            worst, where = difference, f"result {number} is off by {difference:.1e} of the largest value expected"
        if math.isnan(worst):
            return math.inf, f"result {number} has NaN"
    return worst, where
