"""Numpy's scalars, arrays and dtypes as pickles have them: numbers only, each of exactly its bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.data.unpickler import Malformed

_KINDS = "biufc"
_MOST_DIMS = 32


def dtype_of(name: object, *options: object) -> np.dtype[Any]:
    """Return a dtype of numbers by its short name, as `f4`."""
    if not isinstance(name, str) or len(name) > 8:
        raise Malformed("a dtype without name")
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS or dtype.shape:
        raise Malformed("a dtype of no numbers")
    return dtype


def check_dtype_state(state: object) -> None:
    """Malformed unless a dtype's state is that of numbers in this machine's order of bytes."""
    if not isinstance(state, tuple) or len(state) < 3 or state[1] not in ("<", "|", "=") or state[2] is not None:
        raise Malformed("a dtype of another order of bytes, or of no numbers")


def scalar(dtype: object, data: object = b"") -> np.generic:
    """Return a scalar of its bytes."""
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes) or len(data) != dtype.itemsize:
        raise Malformed("a scalar of other bytes than its dtype's")
    return np.frombuffer(data, dtype)[0]


def _empty_array(cls: object, shape: object, code: object) -> NDArray[Any]:
    if cls is not np.ndarray:
        raise Malformed("an array of another class")
    return np.empty(0, np.int8)


def fill(array: NDArray[Any], state: Any) -> None:
    """Give an empty array its shape, dtype and bytes."""
    version, shape, dtype, fortran, data = state
    sizes = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not sizes or len(shape) > _MOST_DIMS or not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
        raise Malformed("an array that is none")
    if version != 1 or dtype.kind not in _KINDS or math.prod(shape) * dtype.itemsize != len(data):
        raise Malformed("an array of other bytes than its shape's")
    restore: Any = array.__setstate__
    restore((1, shape, dtype, bool(fortran), data))


def _from_bytes(data: object, dtype: object, shape: object, order: object) -> NDArray[Any]:
    """What numpy's pickles of protocol 5 call."""
    array = np.empty(0, np.int8)
    fill(array, (1, shape, dtype, order == "F", bytes(data) if isinstance(data, bytes | bytearray) else data))
    return array


NAMES: dict[str, object] = {
    "numpy.dtype": np.dtype,
    "numpy.ndarray": np.ndarray,
    **{f"numpy.{core}.multiarray.scalar": scalar for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray._reconstruct": _empty_array for core in ("core", "_core")},
    **{f"numpy.{core}.numeric._frombuffer": _from_bytes for core in ("core", "_core")},
}
"""What pickles call these."""

CALLS: dict[int, Callable[..., object]] = {
    id(np.dtype): dtype_of,
    id(scalar): scalar,
    id(_empty_array): _empty_array,
    id(_from_bytes): _from_bytes,
}
"""What a call of them does, by identity."""
