"""The linear algebra extension of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rushlight import linalg as systems
from rushlight.compat.array_api.array import Array, arrayed, plain
from rushlight.compat.array_api.dtypes import promoted, sum_dtype
from rushlight.compat.functions import broadcast_shapes
from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.composite.low_rank import tensordot as _tensordot
from rushlight.eager.handle import Handle
from rushlight.ir.dtype import DType
from rushlight.support.errors import require

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

Axes = int | tuple[int, ...] | None


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """The determinant's sign, or phase, and the logarithm of its magnitude."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, descending singular values, right singular vectors as rows."""

    U: Array
    S: Array
    Vh: Array


@checked
def cholesky(x: object, /, *, upper: bool = False) -> Array:
    """Return Cholesky factors of positive-definite matrices: lower, or upper, triangles."""
    return arrayed(systems.cholesky(plain(x), upper=upper))


@checked
def cross(x1: object, x2: object, /, *, axis: int = -1) -> Array:
    """Return cross products of vectors of three elements along an axis."""
    one, other = promoted(plain(x1), plain(x2))
    shape = tuple(broadcast_shapes(tuple(one.shape), tuple(other.shape)))
    return arrayed(systems.cross(ops.broadcast_to(one, shape), ops.broadcast_to(other, shape), dim=axis))


@checked
def det(x: object, /) -> Array:
    """Return determinants."""
    return arrayed(systems.det(plain(x)))


@checked
def diagonal(x: object, /, *, offset: int = 0) -> Array:
    """Return diagonals of the matrices in the last two dims, as a view."""
    return arrayed(systems.diagonal(plain(x), offset=offset))


@checked
def eigh(x: object, /) -> EighResult:
    """Return eigenvalues and eigenvectors of symmetric, or Hermitian, matrices."""
    return EighResult(*arrayed(systems.eigh(plain(x))))


@checked
def eigvalsh(x: object, /) -> Array:
    """Return eigenvalues of symmetric, or Hermitian, matrices in ascending order."""
    return arrayed(systems.eigvalsh(plain(x)))


@checked
def inv(x: object, /) -> Array:
    """Return inverses of matrices."""
    return arrayed(systems.inv(plain(x)))


@checked
def matmul(x1: object, x2: object, /) -> Array:
    """Return matrix products of the last two dims, batched over the others."""
    return arrayed(ops.matmul(*promoted(plain(x1), plain(x2))))


@checked
def matrix_norm(x: object, /, *, keepdims: bool = False, ord: object = "fro") -> Array:
    """Return norms of matrices: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf."""
    return arrayed(systems.matrix_norm(plain(x), ord, keepdim=keepdims))


@checked
def matrix_power(x: object, n: int, /) -> Array:
    """Return matrices multiplied n times with themselves; negative numbers invert them first."""
    return arrayed(systems.matrix_power(plain(x), n))


@checked
def matrix_rank(x: object, /, *, rtol: object = None) -> Array:
    """Return how many singular values are greater than `rtol` times the largest."""
    return arrayed(systems.matrix_rank(plain(x), rtol=plain(rtol) if isinstance(rtol, Handle) else rtol))


@checked
def matrix_transpose(x: object, /) -> Array:
    """Return transposes of the matrices in the last two dims, as a view."""
    return arrayed(plain(x).mT)


@checked
def outer(x1: object, x2: object, /) -> Array:
    """Return the products of all pairs of elements of two vectors."""
    return arrayed(ops.outer(*promoted(plain(x1), plain(x2))))


@checked
def pinv(x: object, /, *, rtol: object = None) -> Array:
    """Return Moore-Penrose inverses; singular values up to `rtol` times the largest count as 0."""
    return arrayed(systems.pinv(plain(x), rtol=plain(rtol) if isinstance(rtol, Handle) else rtol))


@checked
def qr(x: object, /, *, mode: str = "reduced") -> QRResult:
    """Return QR factors, "reduced" or "complete"."""
    return QRResult(*arrayed(systems.qr(plain(x), mode)))


@checked
def slogdet(x: object, /) -> SlogdetResult:
    """Return signs and logarithms of the magnitudes of determinants."""
    return SlogdetResult(*arrayed(systems.slogdet(plain(x))))


@checked
def solve(x1: object, x2: object, /) -> Array:
    """Return solutions of systems of equations; `x2` is one vector, or matrices of columns."""
    matrix, right = promoted(plain(x1), plain(x2))
    if right.ndim == 1:
        return arrayed(systems.solve(matrix, right.unsqueeze(-1)).squeeze(-1))
    return arrayed(systems.solve(matrix, right))


@checked
def svd(x: object, /, *, full_matrices: bool = True) -> SVDResult:
    """Return singular value decompositions."""
    return SVDResult(*arrayed(systems.svd(plain(x), full_matrices)))


@checked
def svdvals(x: object, /) -> Array:
    """Return singular values in descending order."""
    return arrayed(systems.svdvals(plain(x)))


@checked
def tensordot(x1: object, x2: object, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """Return sums of products over so many last axes of one and first of the other, or over named ones."""
    pairs = axes if isinstance(axes, int) else [list(side) for side in axes]
    return arrayed(_tensordot(*promoted(plain(x1), plain(x2)), dims=pairs))


@checked
def trace(x: object, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """Return sums of the diagonals of the matrices in the last two dims."""
    source = systems.diagonal(plain(x), offset=offset)
    return arrayed(ops.sum(source, -1, dtype=dtype or sum_dtype(source.dtype)))


@checked
def vecdot(x1: object, x2: object, /, *, axis: int = -1) -> Array:
    """Return sums of products along an axis, the first operand's conjugate taken. The axis counts from the end.

    Errors: S003 for operands of other sizes there, also of size 1.
    """
    one, other = promoted(plain(x1), plain(x2))
    dims = min(one.ndim, other.ndim)
    fits = -dims <= axis < dims and one.shape[axis] == other.shape[axis]
    require(fits, "S003", "vecdot: the sizes of the axis differ", x1=one, x2=other, axis=axis)
    return arrayed(ops.linalg_vecdot(one, other, dim=axis))


@checked
def vector_norm(x: object, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Return norms of the vectors along axes, by default of all elements."""
    if axis == ():
        return arrayed(systems.vector_norm(plain(x).unsqueeze(-1), ord, -1))
    return arrayed(systems.vector_norm(plain(x), ord, axis, keepdims))
