"""Reductions, scans and differences of the array API standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compat.array_api.array import Array, arrayed, plain
from rushlight.compat.array_api.dtypes import sum_dtype
from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, bool_
from rushlight.support.errors import require

Axes = int | tuple[int, ...] | None


def _reduced(function: Callable[..., object], x: Tensor, axis: Axes, keepdims: bool, **options: object) -> Array:
    """A reduction along axes: all for None, and for () none, each element by itself."""
    if axis == ():
        return arrayed(function(x.unsqueeze(-1), -1, keepdim=False, **options))
    return arrayed(function(x, axis, keepdim=keepdims, **options))


@checked
def sum(x: object, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """Return sums along axes; small integers become the default integer of their signedness."""
    source = plain(x)
    return _reduced(ops.sum, source, axis, keepdims, dtype=dtype or sum_dtype(source.dtype))


@checked
def prod(x: object, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """Return products along axes; small integers become the default integer of their signedness."""
    source = plain(x)
    return _reduced(ops.prod, source, axis, keepdims, dtype=dtype or sum_dtype(source.dtype))


@checked
def max(x: object, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return the greatest elements along axes; NaN where there is one. Errors: I007 for no elements."""
    return _reduced(ops.amax, plain(x), _all_for_none(x, axis), keepdims)


@checked
def min(x: object, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return the least elements along axes; NaN where there is one. Errors: I007 for no elements."""
    return _reduced(ops.amin, plain(x), _all_for_none(x, axis), keepdims)


def _all_for_none(x: object, axis: Axes) -> Axes:
    source = plain(x)
    return tuple(range(source.ndim)) if axis is None and source.ndim else axis


@checked
def mean(x: object, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return arithmetic means along axes."""
    return _reduced(ops.mean, plain(x), axis, keepdims)


@checked
def std(x: object, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Return standard deviations along axes; the divisor is the number of elements less the correction."""
    return _reduced(ops.std, plain(x), axis, keepdims, correction=correction)


@checked
def var(x: object, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Return variances along axes; the divisor is the number of elements less the correction."""
    return _reduced(ops.var, plain(x), axis, keepdims, correction=correction)


@checked
def all(x: object, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return whether all elements along axes are true, that is, not 0; true for none."""
    return _reduced(ops.all, plain(x).to(bool_), axis, keepdims)


@checked
def any(x: object, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return whether an element along axes is true, that is, not 0; false for none."""
    return _reduced(ops.any, plain(x).to(bool_), axis, keepdims)


@checked
def count_nonzero(x: object, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return how many elements along axes are not 0."""
    return _reduced(ops.sum, plain(x) != 0, axis, keepdims)


@checked
def cumulative_sum(
    x: object, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """Return sums of all elements up to each along an axis; on request 0 comes first."""
    return _scanned(ops.cumsum, 0, x, axis, dtype, include_initial)


@checked
def cumulative_prod(
    x: object, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """Return products of all elements up to each along an axis; on request 1 comes first."""
    return _scanned(ops.cumprod, 1, x, axis, dtype, include_initial)


def _scanned(
    function: Callable[..., Any],
    initial: int,
    x: object,
    axis: int | None,
    dtype: DType | None,
    include_initial: bool,
) -> Array:
    source = plain(x)
    require(axis is not None or source.ndim == 1, "A002", "an axis is needed for several dims", x=source)
    dim = 0 if axis is None else axis
    scanned = function(source, dim, dtype=dtype or sum_dtype(source.dtype))
    if include_initial:
        shape = list(scanned.shape)
        shape[dim] = 1
        scanned = ops.cat((ops.full(tuple(shape), initial, dtype=scanned.dtype), scanned), dim)
    return arrayed(scanned)


@checked
def diff(
    x: object, /, n: int = 1, *, axis: int = -1, prepend: object | None = None, append: object | None = None
) -> Array:
    """Return the n-th differences of neighbours along an axis, of what is joined to it before and after.

    `n` may stand by position too, as programs write it for NumPy.
    """
    before, after = [plain(part) if isinstance(part, Handle) else part for part in (prepend, append)]
    return arrayed(plain(x).diff(n, axis, before, after))
