"""`make_tensor`: a tensor of elements drawn by chance, of any dtype and range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.compat.creation import rand, randint
from rushlight.eager.creation import empty
from rushlight.eager.storage.formats import MemoryFormat, laid_out
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, Kind, bool_, float32, float64, int64, uint8
from rushlight.support.errors import require


def make_tensor(
    *shape: int | Sequence[int],
    dtype: DType,
    device: object = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor of elements from `low` to below `high`, evenly drawn from the default generator.

    By default these are -9 and 10 for integers (9 for others, 0 and 10 for uint8, 0 and 2 for bool). A range beyond the
    dtype's is cut to it. With `exclude_zero` zeros are the smallest number above 0. Errors: A002 for an empty range.

    ```python
    rl.testing.make_tensor(2, 3, dtype=rl.float32, low=0, high=1)
    ```
    """
    sizes: Any = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    least, end = _range_of(dtype, low, high)
    both = noncontiguous and memory_format is not None
    require(not both, "A002", "make_tensor: noncontiguous=True and a memory format exclude each other")
    count = math.prod(sizes)
    drawn = _drawn((2 * count,) if noncontiguous and count > 1 else (count,), dtype, least, end)
    if exclude_zero:
        drawn = drawn.masked_fill(drawn == 0, _smallest(dtype))
    if noncontiguous and count > 1:
        wide = empty((*sizes[:-1], 2 * int(sizes[-1])), dtype=dtype)
        drawn = wide.copy_(drawn.reshape(wide.shape))[..., ::2]
    result: Any = drawn if noncontiguous and count > 1 else drawn.reshape(sizes)
    if memory_format is not None:
        result = laid_out(result, memory_format)
    result = result if device is None else result.to(device)
    return result.requires_grad_() if requires_grad else result


def _range_of(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds that are drawn from: A002 where there is nothing between them."""
    whole = dtype.kind is Kind.INT
    defaults = (0, 2) if dtype is bool_ else (0, 10) if dtype is uint8 else (-9, 10) if whole else (-9.0, 9.0)
    least, end = (default if given is None else given for given, default in zip((low, high), defaults, strict=True))
    fits = not (math.isnan(least) or math.isnan(end)) and least < end
    require(fits, "A002", "make_tensor: low must be below high, and neither may be NaN", low=low, high=high)
    if dtype is bool_:
        bounds = (0, 2)
    elif whole:
        numbers: Any = dtype.numpy
        info = np.iinfo(numbers)
        bounds = (int(info.min), int(info.max) + 1)
    else:
        most = float(np.finfo(np.float64 if dtype.itemsize >= 8 else np.float32).max)
        bounds = (-most, most)
    inside = max(least, bounds[0]), min(end, bounds[1])
    require(inside[0] < inside[1], "A002", "make_tensor: the dtype has no number in this range", low=low, high=high)
    return (math.ceil(inside[0]), math.ceil(inside[1])) if whole or dtype is bool_ else inside


def _drawn(shape: tuple[int, ...], dtype: DType, low: float, high: float) -> Any:
    if dtype is bool_ or dtype.kind is Kind.INT:
        top = min(int(high), 2**63 - 1)
        return randint(int(low), top, shape, dtype=int64).to(dtype)
    part = float64 if dtype.itemsize >= 8 else float32
    if dtype.kind is Kind.COMPLEX:
        real, imag = (_drawn(shape, part if dtype.itemsize > 8 else float32, low, high) for _ in range(2))
        return (real + 1j * imag).to(dtype)
    drawn = rand(shape, dtype=part)
    return (drawn * high + (1 - drawn) * low).to(dtype)  # no overflow, whatever the range


def _smallest(dtype: DType) -> float:
    """What stands for 0 where it is left out: the smallest normal number, 1 of integers."""
    if dtype is bool_ or dtype.kind is Kind.INT:
        return 1
    if dtype.itemsize <= 2 and dtype.name != "bfloat16":
        return 2.0**-14
    return float(np.finfo(np.float64 if dtype.itemsize == 16 or dtype is float64 else np.float32).tiny)
