"""Functions of the array API standard that search, sort, count, and find distinct elements."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.compat.array_api.array import Array, arrayed, plain
from rushlight.compat.array_api.dtypes import promoted, result_type
from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.creation import scalar_tensor
from rushlight.eager.handle import Handle
from rushlight.eager.indexing import nonzero_places
from rushlight.support.errors import require


class UniqueAll(NamedTuple):
    """Distinct elements, where each first stands, each element's index among them, and their counts."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements, and each element's index among them."""

    values: Array
    inverse_indices: Array


@checked
def argmax(x: object, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return indices of the first greatest elements along an axis, by default of all in row-major order."""
    return arrayed(ops.argmax(plain(x), axis, keepdims))


@checked
def argmin(x: object, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return indices of the first least elements along an axis, by default of all in row-major order."""
    return arrayed(ops.argmin(plain(x), axis, keepdims))


@checked
def nonzero(x: object, /) -> tuple[Array, ...]:
    """Return for each axis the indices of the elements that are not 0. Errors: S002 without dims."""
    source = plain(x)
    require(source.ndim > 0, "S002", "nonzero: the array must have dims", x=source)
    return arrayed(tuple(nonzero_places(source != 0)))


@checked
def searchsorted(x1: object, x2: object, /, *, side: str = "left", sorter: object | None = None) -> Array:
    """Return where elements of `x2` belong in the sorted vector `x1`, before or after equal ones.

    `sorter`: the indices that sort `x1`, which then need not be sorted.
    """
    ordered, values = promoted(plain(x1), plain(x2) if isinstance(x2, Handle) else scalar_tensor(x2))
    order = None if sorter is None else plain(sorter)
    return arrayed(ops.searchsorted(ordered, values, side=side, sorter=order))


@checked
def where(condition: object, x1: object = None, x2: object = None, /) -> Any:
    """Return elements of `x1` where the condition holds, else of `x2`; one of them may be a number.

    With the condition alone, return the indices where it holds, as `nonzero` does. Errors: A004 for one of the two.
    """
    if x1 is None and x2 is None:
        return nonzero(condition)
    require(x1 is not None and x2 is not None, "A004", "where: elements of both, or of none, are needed")
    dtype = result_type(x1, x2)
    chosen = [plain(x).to(dtype) if isinstance(x, Handle) else scalar_tensor(x, dtype=dtype) for x in (x1, x2)]
    return arrayed(ops.where(plain(condition), *chosen))


def _distinct(x: object) -> tuple[Any, Any, Any]:
    """Distinct elements, each element's index among them, and their counts.

    Complex ones are ordered by their real parts first, then by the imaginary ones.
    """
    tensor = plain(x)
    if not tensor.dtype.is_complex:
        return tensor.unique(return_inverse=True, return_counts=True)
    parts = ops.view_as_real(tensor.reshape(-1))
    rows, inverse, counts = parts.unique(return_inverse=True, return_counts=True, dim=0)
    return ops.view_as_complex(rows.contiguous()), inverse.reshape(tensor.shape), counts


@checked
def unique_all(x: object, /) -> UniqueAll:
    """Return the distinct elements in order, with all that is known of them. Each NaN is distinct."""
    values, inverse, counts = _distinct(x)
    order = inverse.reshape(-1).argsort(stable=True)
    first = order[counts.cumsum(0) - counts]
    return UniqueAll(*arrayed((values, first, inverse, counts)))


@checked
def unique_counts(x: object, /) -> UniqueCounts:
    """Return the distinct elements in order, and how often each occurs. Each NaN is distinct."""
    values, _, counts = _distinct(x)
    return UniqueCounts(*arrayed((values, counts)))


@checked
def unique_inverse(x: object, /) -> UniqueInverse:
    """Return the distinct elements in order, and each element's index among them. Each NaN is distinct."""
    values, inverse, _ = _distinct(x)
    return UniqueInverse(*arrayed((values, inverse)))


@checked
def unique_values(x: object, /) -> Array:
    """Return the distinct elements in order. Each NaN is distinct."""
    return arrayed(_distinct(x)[0])


@checked
def argsort(x: object, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Return the indices that sort along an axis; ties keep their order, NaN counts as the greatest."""
    return arrayed(plain(x).argsort(axis, descending, stable=stable))


@checked
def sort(x: object, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Return the elements sorted along an axis; NaN counts as the greatest."""
    return arrayed(plain(x).sort(axis, descending, stable=stable).values)
