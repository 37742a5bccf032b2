"""Numpy's files: `.npy`, one array, and `.npz`, an archive of them. Arrays of objects are pickles, and are refused."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from rushlight.data.archive import Archive
from rushlight.data.source import Source
from rushlight.eager.memory import MOST_DIMS, tensor_of
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import from_numpy_dtype
from rushlight.support.errors import RushlightError, error, fail, require

MAGIC = b"\x93NUMPY"
_WIDTHS = {1: 2, 2: 4, 3: 4}  # bytes of the header's length, by version


def arrays_of(archive: Archive) -> dict[str, Tensor]:
    """Return the arrays of an archive by name."""
    return {
        name.removesuffix(".npy"): array_of_bytes(archive.read(name), archive.source.name, name)
        for name in archive.entries
    }


def array_of_source(source: Source) -> Tensor:
    """Return the array of a `.npy` file."""
    return array_of_bytes(source.read(0, source.size, "array"), source.name, "array")


def array_of_bytes(data: bytes, file: str, entry: str) -> Tensor:
    """Return the array that bytes of numpy's format hold; P002 where they are damaged."""
    try:
        return _parsed(data, file, entry)
    except RushlightError:
        raise
    except (ValueError, TypeError, SyntaxError, KeyError, RecursionError, MemoryError, OverflowError) as cause:
        message = f"load: {file} is truncated or damaged"
        raise error("P002", message, entry=entry[:100], reason=str(cause)[:100]) from cause


def _parsed(data: bytes, file: str, entry: str) -> Tensor:
    width = _WIDTHS.get(data[6]) if data[:6] == MAGIC and len(data) > 10 else None
    require(width, "P002", f"load: {file} is truncated or damaged", entry=entry[:100])
    assert width is not None
    start = 8 + width
    size = int.from_bytes(data[8:start], "little")
    require(size <= 10_000 and start + size <= len(data), "P002", f"load: {file} is truncated or damaged", entry=entry)
    header: Any = ast.literal_eval(data[start : start + size].decode("latin1").strip())
    descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    if not isinstance(descr, str) or "O" in descr:
        fail("P009", f"load: {file} has an array of objects, which are a pickle", entry=entry[:100])
    dtype = np.dtype(descr)
    if from_numpy_dtype(dtype.newbyteorder("=")) is None:
        fail("M002", f"load: there is no dtype for {descr[:20]}", entry=entry[:100])
    sizes = isinstance(shape, tuple) and len(shape) <= MOST_DIMS and all(type(one) is int and one >= 0 for one in shape)
    body = len(data) - start - size
    fits = sizes and isinstance(fortran, bool) and math.prod(shape) * dtype.itemsize == body
    require(fits, "P002", f"load: {file} is truncated or damaged", entry=entry[:100])
    array = np.frombuffer(data, dtype, offset=start + size).astype(dtype.newbyteorder("="))
    return tensor_of(array.reshape(shape, order="F" if fortran else "C"))
