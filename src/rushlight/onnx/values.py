"""Values while a model runs: tensors, lists of them, and numpy arrays of what is known on the host.

Sizes are arrays of objects, so that what a model computes of shapes stays open: integers, or symbolic sizes.
Texts are arrays of objects too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rushlight as rl

Numbers = NDArray[Any]
Value = Any
"""A tensor, an array that is known on the host, a list of values, or None."""
Size = Any
"""An integer, or a symbolic size."""


def sizes_array(sizes: Sequence[object]) -> Numbers:
    """A one-dimensional array of sizes."""
    array = np.empty(len(sizes), dtype=object)
    array[:] = sizes
    return array


def is_text(value: object) -> bool:
    """Whether this is an array of texts."""
    if not isinstance(value, np.ndarray):
        return False
    return value.dtype.kind in "SU" or (value.dtype.kind == "O" and any(isinstance(part, str) for part in value.flat))


def to_tensor(value: Any) -> Any:
    """The tensor of an array that is known on the host; other values, and texts, as they are."""
    if not isinstance(value, np.ndarray) or is_text(value):
        return value
    if value.dtype.kind != "O":
        return rl.from_numpy(np.array(value))
    parts = integers(value)
    if all(isinstance(part, int) for part in parts):
        return rl.tensor(parts, dtype=rl.int64).reshape(value.shape)
    return rl.stack([rl.tensor(part, dtype=rl.int64) for part in parts]).reshape(value.shape)


def to_host(value: Any) -> Any:
    """The array of a tensor's elements; under tracing, numbers that the values decide."""
    if not isinstance(value, rl.Tensor):
        return value
    if not rl.compiler.is_compiling():
        return value.detach().numpy()
    array = np.empty(tuple(value.shape), dtype=object)
    array[...] = value.tolist()
    return array


def to_dtype(x: rl.Tensor, dtype: rl.dtype, saturate: bool) -> rl.Tensor:
    """In another dtype; what an 8-bit float cannot hold becomes its largest number, or infinite."""
    if not dtype.is_floating_point or dtype.bits != 8:
        return x.to(dtype)
    if saturate:
        limits = rl.finfo(dtype)
        return (x if x.is_floating_point() else x.float()).clamp(limits.min, limits.max).to(dtype)
    array = x.float().numpy()
    return to_tensor(array.astype(rl.empty(0, dtype=dtype).numpy().dtype))


def saturated(x: rl.Tensor, dtype: rl.dtype) -> rl.Tensor:
    """In a dtype of integers; what it cannot hold becomes its least or largest number."""
    limits = rl.iinfo(dtype)
    return x.clamp(limits.min, limits.max).to(dtype)


def integers(array: Numbers) -> list[int]:
    """The elements as Python's numbers, or sizes."""
    # numpy knows the dtypes of other packages, such as bfloat16, as "V"
    known = array.astype(np.float64) if array.dtype.kind == "V" else array
    found: list[Any] = known.reshape(-1).tolist()
    return found
