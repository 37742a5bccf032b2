"""What operators on batches of matrices share: checks of types, adjoints, and the precision of host calls.

LAPACK is called through numpy. Matrices of up to `SMALL` rows are factored in float64, whatever their dtype: there the
call costs more than the arithmetic, and the results are rounded once. Larger ones are in float32 if they fit it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType, real_dtype
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import filled
from rushlight.ops.dims import Array, convert, same_size
from rushlight.ops.join import tril
from rushlight.ops.pointwise.complex import conjugate, real_of
from rushlight.ops.record import Fact, Operator, define
from rushlight.ops.view.part import diagonal, diagonal_backward
from rushlight.ops.view.reorder import mT
from rushlight.support.errors import fail, require
from rushlight.sym import Size

SMALL = 320
LAPACK: Any = np.linalg  # whose options are plain strings to us


def host(
    schema: str, doc: str, *, variants: str = "", facts: Fact = Fact.NONE, autocast: str | None = "float32"
) -> Operator:
    """An operator that LAPACK or a loop of ours computes on the host, or a composite of such."""
    return define(
        schema, doc, facts=Fact.HOST | Fact.REFUSING | facts, dtypes="inexact", autocast=autocast, variants=variants
    )


def require_matrix(op: str, type_: TensorType, name: str = "A") -> None:
    """S002 for fewer than 2 dims."""
    require(type_.ndim >= 2, "S002", f"{op}: {name} must have at least 2 dims", tensor=type_, hint=_BATCHES)


def require_square(op: str, type_: TensorType, name: str = "A") -> None:
    """As `require_matrix`, and S002 where rows and columns differ in number."""
    require_matrix(op, type_, name)
    square = same_size(type_.shape[-2], type_.shape[-1])
    require(square, "S002", f"{op}: {name} must be a square matrix, or a batch of them", tensor=type_)


_BATCHES = "give a matrix, or a batch of matrices"


def require_same_dtype(op: str, a: TensorType, b: TensorType) -> None:
    """D002 where two operands differ in dtype."""
    require(a.dtype is b.dtype, "D002", f"{op}: operands differ in dtype", a=a, b=b)


def like(type_: TensorType, shape: tuple[Size, ...], dtype: DType | None = None) -> TensorType:
    """A dense type of another shape, or dtype, on the same device."""
    return TensorType(shape, dtype or type_.dtype, type_.device)


def real_like(type_: TensorType, shape: tuple[Size, ...]) -> TensorType:
    """`like`, of the dtype of real parts."""
    return TensorType(shape, real_dtype(type_.dtype), type_.device)


# On arrays.


def in_precision(function: Callable[..., object], *arrays: Array) -> Any:
    """What a function of matrices gives: computed in float32 or wider, and rounded back."""
    first = arrays[0]
    rows = max([min(array.shape[-2:]) for array in arrays if array.ndim > 1], default=0)
    bits = first.dtype.itemsize * 8 // (2 if first.dtype.kind == "c" else 1)
    width = 64 if bits > 32 or rows <= SMALL else 32
    if width == bits:
        return function(*arrays)
    result = function(*[_in_bits(array, width) for array in arrays])
    if isinstance(result, tuple):
        return tuple([_like_first(part, first) for part in result])
    return _like_first(result, first)


def converged(op: str, function: Callable[..., object], *arrays: Array) -> Any:
    """What LAPACK gives; R007 where its iteration does not converge, or where a matrix is not finite."""
    if not np.isfinite(arrays[0].astype(np.float64) if arrays[0].dtype.kind == "V" else arrays[0]).all():
        fail(
            "R007", f"{op}: the matrix has NaN or infinities in it", hint="look for the first value that is not finite"
        )
    try:
        return in_precision(function, *arrays)
    except np.linalg.LinAlgError:
        fail("R007", f"{op}: the algorithm did not converge", hint="the matrix may have many equal eigenvalues")


def _in_bits(array: Array, bits: int) -> Array:
    if array.dtype.kind == "c":
        return array.astype(f"c{bits // 4}")
    return array.astype(f"f{bits // 8}") if array.dtype.kind in "fV" else array


def _like_first(array: object, first: Array) -> Array:
    result = np.asarray(array)
    if result.dtype.kind not in "fc":
        return result
    real = first.dtype if first.dtype.kind != "c" else np.real(np.zeros(1, first.dtype)).dtype
    with np.errstate(all="ignore"):
        return result.astype(np.result_type(real, np.complex64) if result.dtype.kind == "c" else real)


def adjoint_array(array: Array) -> Array:
    """The conjugate transpose of matrices."""
    return np.conj(np.swapaxes(array, -1, -2))


# On values.


def adjoint_of(value: Value) -> Value:
    """The conjugate transpose of matrices."""
    return mT(conjugate(value))


def on_diagonal(value: Value, rows: Size | None = None, columns: Size | None = None) -> Value:
    """Square matrices, or matrices of these sizes, with vectors on the main diagonal and zeros elsewhere."""
    size = value.shape[-1]
    shape = (*value.shape[:-1], size if rows is None else rows, size if columns is None else columns)
    return diagonal_backward(value, shape, 0, len(shape) - 2, len(shape) - 1)


def diagonal_of(value: Value) -> Value:
    """The main diagonals of matrices."""
    return diagonal(value, 0, -2, -1)


def hermitian_of_lower(value: Value) -> Value:
    """Hermitian matrices of which `value` has the lower triangles; the diagonals' real parts count."""
    strict = tril(value, -1)
    return strict + adjoint_of(strict) + on_diagonal(convert(real_of(diagonal_of(value)), value.dtype))


def identity_like(value: Value, size: Size) -> Value:
    """The identity of a size, in the dtype and on the device of a value."""
    return on_diagonal(filled(value, (size,), 1))
