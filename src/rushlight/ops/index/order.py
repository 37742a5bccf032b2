"""What orders elements, or depends on how many there are of a kind: places found by numpy, and sizes that values give.

A size that only values tell is *born*: the call has an attribute for it, which is None in eager calls and a symbol
without a hint where a program is traced. Values are gathered at the places that are found, so gradients follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import float64, int64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, cast
from rushlight.ir.type import CPU, TensorType
from rushlight.ops.dims import Array, At, wrap_dim
from rushlight.ops.index.ranking import ranked, stable_order
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import fail, require
from rushlight.sym import Size, ge, le, required

DENSE = 8  # integers are marked, not sorted, where so many times as many as there are would be marked at most
COUNTED = Fact.HOST | Fact.DATA_DEPENDENT | Fact.NONDIFFERENTIABLE

argsort = define(
    "argsort(Tensor input, int dim=-1, bool descending=False, Size start=0, Size? length=None) -> Tensor",
    "Where the elements stand once ordered along a dim, or those of so many ranks from `start` on; equal ones keep "
    "their order, NaN is the largest.",
    facts=Fact.HOST | Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="",
)
flatnonzero = define(
    "flatnonzero(Tensor input, *, unbacked count=None) -> Tensor",
    "The places of the elements of a vector that are not 0, in order.",
    facts=COUNTED,
    variants="",
)
distinct_values = define(
    "distinct_values(Tensor input, *, unbacked count=None) -> Tensor",
    "The elements that occur, in order; of the two zeros the first.",
    facts=COUNTED,
    dtypes="real",
    variants="",
)
distinct = define(
    "distinct(Tensor input, *, unbacked count=None) -> (Tensor values, Tensor inverse, Tensor counts)",
    "The elements that occur, in order, where in that each element of the input went, and how often each occurs.",
    facts=COUNTED,
    dtypes="real",
    variants="",
)
repeat_interleave_indices = define(
    "repeat_interleave_indices(Tensor repeats, *, unbacked count=None) -> Tensor",
    "Each place of a vector of numbers, as often as the number there says.",
    facts=COUNTED,
    dtypes="integral",
    variants="",
)
item = define(
    "item(Tensor input, *, unbacked_int value=None) -> Tensor",
    "The one element of a tensor as an integer, which is a size from then on.",
    facts=Fact.DATA_DEPENDENT | Fact.NONDIFFERENTIABLE,
    dtypes="integral",
    variants="",
)
as_number = define(
    "as_number(Tensor input) -> Tensor",
    "The one element of a tensor as a Python number is: in 64 bits, and weak among the dtypes of others.",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="float",
    variants="",
)


def comparable(array: Array) -> Array:
    """The elements in a dtype that numpy orders."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def unbacked_size(count: Size | None, op: str) -> Size:
    """A size that values give; V003 where there are none."""
    if count is None:
        fail("V003", f"{op}: the result's shape depends on values that this tensor does not have")
    return count


@argsort.meta
def argsort_meta(input: TensorType, dim: int, descending: bool, start: Size, length: Size | None) -> TensorType:
    along = wrap_dim(dim, input.ndim, "argsort")
    if not input.ndim:
        return TensorType((), int64, input.device)
    size = input.shape[along]
    count = size - start if length is None else length
    fits = required(ge(start, 0)) and required(ge(count, 0)) and required(le(start + count, size))
    require(fits, "I001", "argsort: there are no such ranks", start=start, length=length, size=size)
    return TensorType((*input.shape[:along], count, *input.shape[along + 1 :]), int64, input.device)


@argsort.ref
def argsort_ref(input: Array, dim: int, descending: bool, start: int, length: int | None) -> Array:
    if not input.ndim:
        return np.zeros((), np.int64)
    array = np.moveaxis(comparable(input), dim, -1)
    size = array.shape[-1]
    count = size - start if length is None else length
    return np.moveaxis(ranked(array, start, count, descending), -1, dim)


@argsort.samples
def argsort_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(0, 4, (3, 5)).astype(np.float32), 1)
    yield Sample(rng.integers(0, 4, (3, 5)), 0, True)
    yield Sample(rng.standard_normal((0,)).astype(np.float32), 0)
    yield Sample(np.array(3.0, np.float32), 0)
    yield Sample(rng.integers(0, 4, (3, 20)).astype(np.float32), 1, True, start=1, length=2)
    yield Sample(rng.integers(0, 4, (20, 3)), 0, start=7, length=1)


@flatnonzero.meta
def flatnonzero_meta(input: TensorType, count: Size | None) -> TensorType:
    require(input.ndim == 1, "S015", "flatnonzero: a vector is expected", input=input)
    return TensorType((unbacked_size(count, "nonzero"),), int64, input.device)


@flatnonzero.ref
def flatnonzero_ref(input: Array, count: Size | None) -> Array:
    return np.flatnonzero(comparable(input))


@flatnonzero.samples
def flatnonzero_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(0, 2, 7).astype(np.bool_))
    yield Sample(rng.integers(0, 3, 5))
    yield Sample(np.zeros(0, np.float32))


@distinct_values.meta
def distinct_values_meta(input: TensorType, count: Size | None) -> TensorType:
    return TensorType((unbacked_size(count, "unique"),), input.dtype, input.device)


@distinct_values.ref
def distinct_values_ref(input: Array, count: Size | None) -> Array:
    least = _least_of_dense(input)
    if least is not None:
        return _as_values(np.flatnonzero(np.bincount(_places_from(input, least))), input, least)
    values = np.unique(comparable(input), equal_nan=False).astype(input.dtype)
    zeros = np.flatnonzero(values == 0)
    if zeros.size and input.dtype.kind not in "biu":  # which of the two it is, depends on how numpy sorts
        values[zeros] = input.reshape(-1)[np.argmax(input.reshape(-1) == 0)]
    return values


def _least_of_dense(input: Array) -> Any:
    """The least of integers that lie close enough together to be counted rather than sorted; else None."""
    if input.dtype.kind not in "iu" or not input.size:
        return None
    least = input.min()
    return least if int(input.max()) - int(least) < DENSE * input.size else None


def _places_from(input: Array, least: Any) -> Array:
    """How far each integer is from the least."""
    wide = input if input.dtype.itemsize == 8 else input.astype(np.int64)
    return (wide - wide.dtype.type(least)).astype(np.int64).reshape(-1)


def _as_values(places: Array, input: Array, least: Any) -> Array:
    """The integers that are so far from the least."""
    wide = input.dtype if input.dtype.itemsize == 8 else np.dtype(np.int64)
    return (places.astype(wide) + wide.type(least)).astype(input.dtype)


@distinct_values.samples
def distinct_values_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(0, 4, (3, 5)))
    yield Sample(np.array([np.nan, 1.0, 0.0, -0.0, np.nan, 1.0], np.float32))
    yield Sample(np.zeros(0, np.int64))


@distinct.meta
def distinct_meta(input: TensorType, count: Size | None) -> tuple[TensorType, TensorType, TensorType]:
    sizes = (unbacked_size(count, "unique"),)
    values = TensorType(sizes, input.dtype, input.device)
    return values, TensorType(input.shape, int64, input.device), TensorType(sizes, int64, input.device)


@distinct.ref
def distinct_ref(input: Array, count: Size | None) -> tuple[Array, Array, Array]:
    least = _least_of_dense(input)
    if least is not None:
        places = _places_from(input, least)
        occurrences = np.bincount(places)
        found = np.flatnonzero(occurrences)
        number = np.empty(occurrences.shape, np.int64)
        number[found] = np.arange(found.size)
        return _as_values(found, input, least), number[places].reshape(input.shape), occurrences[found]
    flat = comparable(input).reshape(-1)
    order = stable_order(flat)
    ascending = flat[order]
    first = np.ones(flat.shape, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    inverse = np.empty(flat.shape, np.int64)
    inverse[order] = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    return ascending[starts].astype(input.dtype), inverse.reshape(input.shape), np.diff(starts, append=flat.size)


@distinct.samples
def distinct_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(0, 4, (3, 5)))
    yield Sample(rng.integers(0, 3, 6).astype(np.float32))
    yield Sample(np.array([np.nan, 1.0, np.nan, 1.0], np.float32))
    yield Sample(np.zeros(0, np.int64))


@repeat_interleave_indices.meta
def repeat_interleave_indices_meta(repeats: TensorType, count: Size | None) -> TensorType:
    require(repeats.ndim == 1, "S015", "repeat_interleave: the repeats must be a vector", repeats=repeats)
    return TensorType((unbacked_size(count, "repeat_interleave"),), int64, repeats.device)


@repeat_interleave_indices.ref
def repeat_interleave_indices_ref(repeats: Array, count: Size | None) -> Array:
    require(not (repeats.astype(np.int64) < 0).any(), "A002", "repeat_interleave: a number of repeats is negative")
    return np.repeat(np.arange(len(repeats)), repeats.astype(np.int64))


@repeat_interleave_indices.samples
def repeat_interleave_indices_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(0, 4, 5))
    yield Sample(np.zeros(0, np.int64))


@item.meta
def item_meta(input: TensorType, value: Size | None) -> TensorType:
    require(input.ndim == 0, "S015", "item: the tensor has several elements, or none", tensor=input)
    return TensorType((), int64, CPU)


@item.ref
def item_ref(input: Array, value: Size | None) -> Array:
    return np.asarray(input).astype(np.int64)


@item.lower
def item_lower(at: At, input: Operand, value: Size | None) -> Scalar:
    return cast(input[()], int64)


@item.samples
def item_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(0, 9, ()))
    yield Sample(np.array(True))


@as_number.meta
def as_number_meta(input: TensorType) -> TensorType:
    require(input.ndim == 0, "S015", "item: the tensor has several elements, or none", tensor=input)
    return TensorType((), float64, CPU, weak=True)


@as_number.ref
def as_number_ref(input: Array) -> Array:
    return np.asarray(input).astype(np.float64)


@as_number.lower
def as_number_lower(at: At, input: Operand) -> Scalar:
    return cast(input[()], float64)


@as_number.samples
def as_number_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.standard_normal(()).astype(np.float32))
