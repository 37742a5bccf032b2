"""The places of a triangle of a matrix, row after row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import DType, int64
from rushlight.ir.scalar import LANES, Scalar, cast, constant, index, reduce, select
from rushlight.ir.type import CPU, Device, TensorType
from rushlight.ops.create import CREATION
from rushlight.ops.dims import Array, At
from rushlight.ops.record import Sample, define
from rushlight.support.errors import require
from rushlight.sym import Size, axis_symbol, floordiv, ge, maximum, minimum, required

tril_indices = define(
    "tril_indices(Size row, Size col, Offset offset=0, *, DType? dtype=None, Device? device=None) -> Tensor",
    "The rows and the columns of the elements on and below a diagonal, row after row.",
    variants="function",
    facts=CREATION,
)
triu_indices = define(
    "triu_indices(Size row, Size col, Offset offset=0, *, DType? dtype=None, Device? device=None) -> Tensor",
    "The rows and the columns of the elements on and above a diagonal, row after row.",
    variants="function",
    facts=CREATION,
)


def _filled(longest: Size, col: Size) -> Size:
    """How many elements rows of 1, 2, ... `longest` elements have when cut to `col` columns."""
    longest = maximum(longest, 0)
    cut = minimum(longest, col)
    return floordiv(cut * (cut + 1), 2) + col * (longest - cut)


def _before(row: Size, col: Size, offset: Size) -> Size:
    """How many elements on and below a diagonal the first `row` rows have."""
    return _filled(row + offset, col) - _filled(offset, col)


def _checked(row: Size, col: Size, dtype: DType | None, op: str) -> DType:
    for size in (row, col):
        require(required(ge(size, 0)), "S007", f"{op}: a size is negative", row=row, col=col)
    dtype_ = dtype or int64
    require(dtype_.is_integer, "D001", f"{op}: indices must be integers", dtype=dtype_)
    return dtype_


def _place(at: Size, row: Size, col: Size, offset: Size) -> tuple[Scalar, Scalar]:
    """(Row, column) of an element of a lower triangle: rows before it are those that end at or before its number."""
    k = axis_symbol(row, "k")
    over = index(_before(k + 1, col, offset)) <= index(at)
    length = index(maximum(minimum(k + 1 + offset, col), 0))
    nothing = constant(0, int64)
    rows = reduce("sum", (k,), select(over, constant(1, int64), nothing), LANES)
    return rows, index(at) - reduce("sum", (k,), select(over, length, nothing), LANES)


@tril_indices.meta
def tril_indices_meta(row: Size, col: Size, offset: int, dtype: DType | None, device: Device | None) -> TensorType:
    return TensorType((2, _before(row, col, offset)), _checked(row, col, dtype, "tril_indices"), device or CPU)


@tril_indices.ref
def tril_indices_ref(row: int, col: int, offset: int, dtype: DType | None, device: Device | None) -> Array:
    return np.array(np.tril_indices(row, offset, col)).astype((dtype or int64).numpy)


@tril_indices.lower
def tril_indices_lower(at: At, row: Size, col: Size, offset: int, dtype: DType | None, device: Device | None) -> Scalar:
    rows, columns = _place(at[1], row, col, offset)
    return cast(select(index(at[0]).equals(index(0)), rows, columns), dtype or int64)


@tril_indices.samples
def tril_indices_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(4, 4, -1)
    yield Sample(3, 5, 1)
    yield Sample(5, 2)
    yield Sample(4, 3, -2, dtype=int64)
    yield Sample(2, 3, 7)
    yield Sample(2, 3, -4)


@triu_indices.meta
def triu_indices_meta(row: Size, col: Size, offset: int, dtype: DType | None, device: Device | None) -> TensorType:
    count = _before(row, col, col - row - offset)
    return TensorType((2, count), _checked(row, col, dtype, "triu_indices"), device or CPU)


@triu_indices.ref
def triu_indices_ref(row: int, col: int, offset: int, dtype: DType | None, device: Device | None) -> Array:
    return np.array(np.triu_indices(row, offset, col)).astype((dtype or int64).numpy)


@triu_indices.lower
def triu_indices_lower(at: At, row: Size, col: Size, offset: int, dtype: DType | None, device: Device | None) -> Scalar:
    # The matrix turned by half a turn has the lower triangle, from its end. Rows below the diagonal's end have nothing.
    row = minimum(row, maximum(col - offset, 0))
    turned = col - row - offset
    rows, columns = _place(_before(row, col, turned) - 1 - at[1], row, col, turned)
    last_row, last_column = index(row) - index(1), index(col) - index(1)
    return cast(select(index(at[0]).equals(index(0)), last_row - rows, last_column - columns), dtype or int64)


@triu_indices.samples
def triu_indices_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(4, 4, 1)
    yield Sample(3, 5)
    yield Sample(5, 2, -1)
    yield Sample(3, 4, -7)
    yield Sample(2, 3, 4)
