"""Functions of the array API standard that make arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.compat.array_api.array import Array, arrayed, plain
from rushlight.compat.functions import meshgrid as _meshgrid
from rushlight.eager import creation as making
from rushlight.eager.arguments import default_dtype
from rushlight.eager.boundary import checked
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, int64
from rushlight.support.errors import fail

Shape = int | tuple[int, ...]


@checked
def asarray(obj: object, /, *, dtype: DType | None = None, device: object = None, copy: bool | None = None) -> Array:
    """Return numbers, nested sequences of them, arrays, buffers or tensors as an array.

    Memory is shared where nothing has to be converted, unless `copy` forces a copy. Errors: A002 where it forbids one
    that is needed.
    """
    if isinstance(obj, Handle):
        source = plain(obj)
    else:
        source = obj if isinstance(obj, bool | int | float | complex | list | tuple) else np.asarray(obj)
    if copy is False:
        shared = making.as_tensor(source, dtype, device)
        if not _shares(shared, source):
            fail("A002", "asarray: this cannot become an array without a copy", obj=obj, hint="leave copy out")
        return arrayed(shared)
    return arrayed(making.asarray(source, dtype=dtype, device=device, copy=copy))


def _shares(tensor: Tensor, source: object) -> bool:
    if isinstance(source, Handle):
        return tensor.backing is source.backing
    return isinstance(source, np.ndarray) and (not source.size or np.shares_memory(tensor.numpy(), source))


@checked
def from_dlpack(x: object, /, *, device: object = None, copy: bool | None = None) -> Array:
    """Return an array on the memory of an object with DLPack; `copy` forces or forbids a copy."""
    return arrayed(making.from_dlpack(x, device=device, copy=copy))


@checked
def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: object = None,
) -> Array:
    """Return start, start + step, ... before stop; from 0 when only the stop is given."""
    first, last = (0, start) if stop is None else (start, stop)
    default = int64 if all(isinstance(value, int) for value in (first, last, step)) else default_dtype()
    if (last - first) * step < 0:
        last = first
    return arrayed(making.arange(first, last, step, dtype=dtype or default, device=device))


@checked
def empty(shape: Shape, *, dtype: DType | None = None, device: object = None) -> Array:
    """Return an array with undefined contents."""
    return arrayed(making.empty(_shape(shape), dtype=dtype, device=device))


@checked
def ones(shape: Shape, *, dtype: DType | None = None, device: object = None) -> Array:
    """Return ones."""
    return arrayed(making.ones(_shape(shape), dtype=dtype, device=device))


@checked
def zeros(shape: Shape, *, dtype: DType | None = None, device: object = None) -> Array:
    """Return zeros."""
    return arrayed(making.zeros(_shape(shape), dtype=dtype, device=device))


@checked
def full(shape: Shape, fill_value: complex, *, dtype: DType | None = None, device: object = None) -> Array:
    """Return one value everywhere, of the default dtype of its kind unless another is given."""
    return arrayed(making.full(_shape(shape), fill_value, dtype=dtype, device=device))


def _shape(shape: Any) -> Sequence[int]:
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)


@checked
def empty_like(x: object, /, *, dtype: DType | None = None, device: object = None) -> Array:
    """Return undefined contents in the shape of an array."""
    return arrayed(making.empty_like(plain(x), dtype=dtype, device=device))


@checked
def ones_like(x: object, /, *, dtype: DType | None = None, device: object = None) -> Array:
    """Return ones in the shape of an array."""
    return arrayed(making.ones_like(plain(x), dtype=dtype, device=device))


@checked
def zeros_like(x: object, /, *, dtype: DType | None = None, device: object = None) -> Array:
    """Return zeros in the shape of an array."""
    return arrayed(making.zeros_like(plain(x), dtype=dtype, device=device))


@checked
def full_like(x: object, /, fill_value: complex, *, dtype: DType | None = None, device: object = None) -> Array:
    """Return one value in the shape of an array."""
    return arrayed(making.full_like(plain(x), fill_value, dtype=dtype, device=device))


@checked
def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: object = None
) -> Array:
    """Return ones on the k-th diagonal, zeros elsewhere; those above the main one are positive."""
    rows = making.arange(n_rows, device=device).unsqueeze(1)
    columns = making.arange(n_rows if n_cols is None else n_cols, device=device)
    diagonal: Tensor = columns - rows == k
    return arrayed(diagonal.to(dtype or default_dtype()))


@checked
def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: object = None,
    endpoint: bool = True,
) -> Array:
    """Return evenly spaced numbers from start to stop, or to one step before the stop."""
    count = num if endpoint else num + 1
    return arrayed(making.linspace(start, stop, count, dtype=dtype, device=device)[:num])


@checked
def meshgrid(*arrays: object, indexing: str = "xy") -> list[Array]:
    """Return grids of coordinates; "xy" exchanges the first two dims, as plots do."""
    return arrayed(list(_meshgrid(*[plain(array) for array in arrays], indexing=indexing)))


@checked
def tril(x: object, /, *, k: int = 0) -> Array:
    """Return the matrices with zeros above the k-th diagonal."""
    return arrayed(plain(x).tril(k))


@checked
def triu(x: object, /, *, k: int = 0) -> Array:
    """Return the matrices with zeros below the k-th diagonal."""
    return arrayed(plain(x).triu(k))


@checked
def astype(x: object, dtype: DType, /, *, copy: bool = True, device: object = None) -> Array:
    """Return the elements converted; a copy in any case, unless `copy` is False."""
    return arrayed(plain(x).to(device=device, dtype=dtype, copy=copy))
