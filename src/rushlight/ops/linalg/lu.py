"""LU factorisations, by a right-looking elimination in blocks: numpy keeps LAPACK's to itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import int32
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import matmul
from rushlight.ops.create import arange
from rushlight.ops.dims import Array, convert, normal, same_shape, same_size
from rushlight.ops.join import cat, tril, triu
from rushlight.ops.linalg.factor import require_info
from rushlight.ops.linalg.matrix import (
    adjoint_array,
    adjoint_of,
    host,
    identity_like,
    in_precision,
    like,
    require_matrix,
    require_same_dtype,
    require_square,
)
from rushlight.ops.linalg.triangular import solve_triangular
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.record import Fact, Sample
from rushlight.ops.view.part import slice_
from rushlight.ops.view.reorder import mT, unsqueeze
from rushlight.support.errors import require
from rushlight.sym import Size, minimum

_PANEL = 32  # columns that are eliminated one by one before the rest is updated by one product
Triple = tuple[Value | None, Value | None, Value | None]

lu_factor_ex = host(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) "
    "-> (Tensor LU, Tensor pivots, Tensor info)",
    "The factors of A = P L U in one matrix, the rows that were exchanged (from 1), and which pivot is 0, or 0.",
    variants="function",
)


@lu_factor_ex.meta
def lu_factor_ex_meta(A: TensorType, pivot: bool, check_errors: bool) -> tuple[TensorType, TensorType, TensorType]:
    require_matrix("linalg.lu_factor", A)
    batch = A.shape[:-2]
    return like(A, A.shape), like(A, (*batch, minimum(*A.shape[-2:])), int32), like(A, batch, int32)


@lu_factor_ex.ref
def lu_factor_ex_ref(A: Array, pivot: bool, check_errors: bool) -> tuple[Array, Array, Array]:
    def factored(array: Array) -> tuple[Array, Array, Array]:
        packed = array.copy()
        pivots, info = lu_in_place(packed, pivot)
        return packed, pivots, info

    packed, pivots, info = in_precision(factored, A)
    if check_errors:
        require_info("linalg.lu_factor", info, "element {} of U's diagonal is 0")
    return packed, pivots, info


def lu_in_place(array: Array, pivot: bool) -> tuple[Array, Array]:
    """Overwrites matrices with their factors: the rows that were exchanged, from 1, and the first pivots that are 0."""
    m, n = array.shape[-2:]
    batch = array.reshape((-1, m, n)) if array.size else np.zeros((int(np.prod(array.shape[:-2])), m, n))
    count = min(m, n)
    pivots = np.broadcast_to(np.arange(1, count + 1, dtype=np.int32), (len(batch), count)).copy()
    info = np.zeros(len(batch), np.int32)
    with np.errstate(all="ignore"):
        for matrix, exchanged, position in zip(batch, pivots, range(len(batch)), strict=True):
            info[position] = _eliminate(matrix, exchanged, pivot)
    return pivots.reshape((*array.shape[:-2], count)), info.reshape(array.shape[:-2])


def _size(column: Array) -> Array:
    """What pivots are chosen by, as in LAPACK: of complex numbers the sum of the parts' magnitudes."""
    return np.abs(np.real(column)) + np.abs(np.imag(column)) if column.dtype.kind == "c" else np.abs(column)


def _eliminate(matrix: Array, pivots: Array, pivot: bool) -> int:
    failed = 0
    for start in range(0, len(pivots), _PANEL):
        stop = min(start + _PANEL, len(pivots))
        for step in range(start, stop):
            if pivot:
                row = step + int(np.argmax(_size(matrix[step:, step])))
                pivots[step] = row + 1
                if row != step:
                    matrix[[step, row]] = matrix[[row, step]]
            if matrix[step, step] == 0:
                failed = failed or step + 1
                if pivot:
                    continue
            below = matrix[step + 1 :, step]
            below /= matrix[step, step]
            matrix[step + 1 :, step + 1 : stop] -= np.outer(below, matrix[step, step + 1 : stop])
        panel, rest = slice(start, stop), slice(stop, None)
        for step in range(start + 1, stop):
            matrix[step, rest] -= matrix[step, start:step] @ matrix[start:step, rest]
        matrix[rest, rest] -= matrix[rest, panel] @ matrix[panel, rest]
    return failed


@lu_factor_ex.vjp
def lu_factor_ex_vjp(g: Triple, LU: Value, pivots: Value, A: Value) -> Value | None:
    packed = g[0]
    if packed is None:
        return None
    m, n = A.shape[-2:]
    k = minimum(m, n)
    square = _part(packed, (0, k), (0, k))
    lower, upper = unit_lower(_part(LU, (0, k), (0, k))), triu(_part(LU, (0, k), (0, k)))
    # Rows below the square are L's, and columns to its right are U's: of these both one part is empty.
    left = solve_triangular(adjoint_of(upper), _part(packed, (k, m), (0, k)), upper=False, left=False)
    right = solve_triangular(adjoint_of(lower), _part(packed, (0, k), (k, n)), upper=True, unitriangular=True)
    on_lower = tril(square, -1) - matmul(right, adjoint_of(_part(LU, (0, k), (k, n))))
    on_upper = triu(square) - matmul(adjoint_of(_part(LU, (k, m), (0, k))), left)
    inner = tril(matmul(adjoint_of(lower), on_lower), -1) + triu(matmul(on_upper, adjoint_of(upper)))
    inner = solve_triangular(adjoint_of(lower), inner, upper=True, unitriangular=True)
    inner = solve_triangular(adjoint_of(upper), inner, upper=False, left=False)
    corner = _part(packed, (k, m), (k, n))
    whole = cat((cat((inner, right), -1), cat((left, corner), -1)), -2)
    return matmul(convert(permutation_matrix(pivots, m), A.dtype), whole)


def _part(value: Value, rows: tuple[Size, Size], columns: tuple[Size, Size]) -> Value:
    return slice_(slice_(value, -2, *rows), -1, *columns)


def unit_lower(packed: Value) -> Value:
    """The lower triangles of square matrices, with ones on the diagonal."""
    return tril(packed, -1) + identity_like(packed, packed.shape[-1])


@lu_factor_ex.samples
def lu_factor_ex_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="full_rank")
    yield Sample(normal(rng, 2, 3, 5), domain="full_rank")
    yield Sample(normal(rng, 4, 2), pivot=False, domain="full_rank")


permutation_of = host(
    "permutation_of(Tensor pivots, Size size) -> Tensor",
    "The rows of a matrix in the order to which exchanges, one after the other, bring them.",
    facts=Fact.NONDIFFERENTIABLE,
)
permutation_of.dtypes = "all"


@permutation_of.meta
def permutation_of_meta(pivots: TensorType, size: Size) -> TensorType:
    require(pivots.dtype is int32, "D001", "lu_unpack: the pivots must be int32", pivots=pivots)
    require(pivots.ndim, "S002", "lu_unpack: the pivots must have at least 1 dim", pivots=pivots)
    return like(pivots, (*pivots.shape[:-1], size), int32)


@permutation_of.ref
def permutation_of_ref(pivots: Array, size: int) -> Array:
    rows = pivots.reshape((int(np.prod(pivots.shape[:-1])), pivots.shape[-1]))
    require(rows.shape[-1] <= size, "S014", "lu_unpack: more pivots than rows", pivots=pivots.shape, rows=size)
    permutation = np.broadcast_to(np.arange(size, dtype=np.int32), (len(rows), size)).copy()
    for order, exchanged in zip(permutation, rows, strict=True):
        for step, row in enumerate(exchanged):
            require(
                0 < row <= size, "I001", "lu_unpack: a pivot is not the number of a row, counted from 1", pivot=int(row)
            )
            order[[step, row - 1]] = order[[row - 1, step]]
    return permutation.reshape((*pivots.shape[:-1], size))


@permutation_of.samples
def permutation_of_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.array([[3, 2, 3], [1, 2, 3]], np.int32), 3)


def permutation_matrix(pivots: Value, size: Size) -> Value:
    """Bool matrices P of A = P L U."""
    order = permutation_of(pivots, size)
    rows = pivots.apply(arange, (), {"start": 0, "end": size, "step": 1, "dtype": int32, "device": pivots.device})
    return eq(unsqueeze(rows, 1), unsqueeze(order, -2))


lu_solve = host(
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    "X of A X = B, or of X A = B unless `left`, by the factors of A, or of its adjoint.",
    variants="function out",
)


@lu_solve.decompose
def lu_solve_decompose(LU: Value, pivots: Value, B: Value, left: bool, adjoint: bool) -> Value:
    packed = TensorType(LU.shape, LU.dtype, LU.device)
    require_square("linalg.lu_solve", packed, "LU")
    require_same_dtype("linalg.lu_solve", packed, TensorType(B.shape, B.dtype, B.device))
    require(pivots.dtype is int32, "D001", "linalg.lu_solve: the pivots must be int32", pivots=pivots.dtype)
    fits = same_shape(pivots.shape, LU.shape[:-1])
    require(fits, "S014", "linalg.lu_solve: the pivots do not fit LU", LU=LU.shape, pivots=pivots.shape)
    require(B.ndim >= 2, "S002", "linalg.lu_solve: B must have at least 2 dims", B=B.shape)
    same = same_size(LU.shape[-1], B.shape[-2 if left else -1])
    require(same, "S003", "linalg.lu_solve: LU and B have sizes that do not fit", LU=LU.shape, B=B.shape)
    permutation = convert(permutation_matrix(pivots, LU.shape[-1]), LU.dtype)
    if left != adjoint:
        return _solved_by_lower_first(LU, permutation, B, left)
    first = solve_triangular(adjoint_of(LU) if adjoint else LU, B, upper=not adjoint, left=left)
    second = solve_triangular(adjoint_of(LU) if adjoint else LU, first, upper=adjoint, left=left, unitriangular=True)
    return matmul(permutation, second) if left else matmul(second, mT(permutation))


def _solved_by_lower_first(packed: Value, permutation: Value, b: Value, left: bool) -> Value:
    """P L U X = B, or X (P L U)^H = B."""
    factors = packed if left else adjoint_of(packed)
    moved = matmul(mT(permutation), b) if left else matmul(b, permutation)
    first = solve_triangular(factors, moved, upper=not left, left=left, unitriangular=True)
    return solve_triangular(factors, first, upper=left, left=left)


@lu_solve.ref
def lu_solve_ref(LU: Array, pivots: Array, B: Array, left: bool, adjoint: bool) -> Array:
    size = LU.shape[-1]
    order = permutation_of_ref(pivots, size)
    permutation = np.arange(size)[:, None] == order[..., None, :]

    def solve(packed: Array, b: Array) -> Array:
        a = permutation @ (np.tril(packed, -1) + np.eye(size, dtype=packed.dtype)) @ np.triu(packed)
        a = adjoint_array(a) if adjoint else a
        if left:
            return np.linalg.solve(a, b)
        return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)

    return in_precision(solve, LU, B)


@lu_solve.samples
def lu_solve_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for left, adjoint in ((True, False), (False, False), (True, True), (False, True)):
        yield Sample(
            normal(rng, 2, 3, 3),
            np.array([[3, 2, 3], [1, 3, 3]], np.int32),
            normal(rng, 2, 3, 3),
            left=left,
            adjoint=adjoint,
            domain="dominant",
        )
