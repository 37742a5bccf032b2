"""Factorisations of matrices by LAPACK: Cholesky and QR. Derivatives by Murray (2016) and Walter (2012)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import int32
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import matmul
from rushlight.ops.create import zeros_of
from rushlight.ops.dims import Array, normal
from rushlight.ops.join import cat, tril, triu
from rushlight.ops.linalg.matrix import (
    LAPACK,
    adjoint_array,
    adjoint_of,
    hermitian_of_lower,
    host,
    in_precision,
    like,
    require_matrix,
    require_square,
)
from rushlight.ops.linalg.triangular import solve_triangular
from rushlight.ops.record import Sample
from rushlight.ops.view.part import slice_
from rushlight.support.errors import fail, require
from rushlight.sym import Size, le, minimum, statically_known

Pair = tuple[Value | None, Value | None]

cholesky_ex = host(
    "linalg_cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    "The Cholesky factor of Hermitian positive-definite matrices, and for each the order of the leading minor that is "
    "not positive-definite, or 0. With `check_errors` that is error R007.",
    variants="function",
)


@cholesky_ex.meta
def cholesky_ex_meta(A: TensorType, upper: bool, check_errors: bool) -> tuple[TensorType, TensorType]:
    require_square("linalg.cholesky", A)
    return like(A, A.shape), like(A, A.shape[:-2], int32)


@cholesky_ex.ref
def cholesky_ex_ref(A: Array, upper: bool, check_errors: bool) -> tuple[Array, Array]:
    factor, info = in_precision(_cholesky, adjoint_array(A) if upper else A)
    if check_errors:
        require_info("linalg.cholesky", info, "the leading minor of order {} is not positive-definite")
    return (adjoint_array(factor) if upper else factor), info


def _cholesky(array: Array) -> tuple[Array, Array]:
    """Factors, and orders of leading minors that are not positive-definite, where they end."""
    info = np.zeros(array.shape[:-2], np.int32)
    try:
        return np.linalg.cholesky(array), info
    except np.linalg.LinAlgError:
        factors = np.tril(array).copy()
        for index in np.ndindex(info.shape):
            info[index] = _cholesky_in_steps(factors[index])
        return factors, info


def _cholesky_in_steps(matrix: Array) -> int:
    """Overwrites a lower triangle with its factor, as far as that goes: the order of the minor that fails, or 0."""
    for step in range(len(matrix)):
        pivot = matrix[step, step].real - np.sum(np.abs(matrix[step, :step]) ** 2)
        if not pivot > 0:
            return step + 1
        matrix[step, step] = np.sqrt(pivot)
        rest = matrix[step + 1 :, step] - matrix[step + 1 :, :step] @ matrix[step, :step].conj()
        matrix[step + 1 :, step] = rest / matrix[step, step]
    return 0


def require_info(op: str, info: Array, reason: str) -> None:
    """R007 where LAPACK's `info` of a matrix is positive; `reason` has a place for it."""
    failed = np.argwhere(info > 0)
    if len(failed):
        position = tuple([int(index) for index in failed[0]])
        which = f" of batch element {position[0] if len(position) == 1 else position}" if position else ""
        fail("R007", f"{op}: the matrix{which} cannot be factored: {reason.format(int(info[position]))}")


@cholesky_ex.vjp
def cholesky_ex_vjp(g: Pair, L: Value, upper: bool) -> Value | None:
    if g[0] is None:
        return None
    grad, factor = (adjoint_of(g[0]), adjoint_of(L)) if upper else (g[0], L)
    inner = tril(matmul(adjoint_of(factor), grad))
    inner = inner + adjoint_of(tril(inner, -1))
    left = solve_triangular(adjoint_of(factor), inner, upper=True)
    return solve_triangular(factor, left, upper=False, left=False) * 0.5


@cholesky_ex.samples
def cholesky_ex_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 3, 3)):
        yield Sample(normal(rng, *shape), domain="definite")
    yield Sample(normal(rng, 3, 3), upper=True, domain="definite")


cholesky = host(
    "linalg_cholesky(Tensor A, *, bool upper=False) -> Tensor",
    "The Cholesky factor of Hermitian positive-definite matrices; error R007 for others.",
    variants="function out",
)


@cholesky.decompose
def cholesky_decompose(A: Value, upper: bool) -> Value:
    return cholesky_ex(A, upper=upper, check_errors=True)[0]


@cholesky.ref
def cholesky_ref(A: Array, upper: bool) -> Array:
    return cholesky_ex_ref(A, upper, True)[0]


@cholesky.samples
def cholesky_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 3), upper=True, domain="definite")


qr = host(
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    "A unitary and an upper triangular matrix whose product is A. The mode is 'reduced', 'complete', or 'r' for R "
    "alone and an empty Q.",
    variants="function",
)


@qr.meta
def qr_meta(A: TensorType, mode: str) -> tuple[TensorType, TensorType]:
    require_matrix("linalg.qr", A)
    require(
        mode in ("reduced", "complete", "r"), "A004", f"linalg.qr: the mode {mode!r} is not one of reduced, complete, r"
    )
    m, n = A.shape[-2:]
    inner = m if mode == "complete" else minimum(m, n)
    left = like(A, (0,)) if mode == "r" else like(A, (*A.shape[:-1], inner))
    return left, like(A, (*A.shape[:-2], inner, n))


@qr.ref
def qr_ref(A: Array, mode: str) -> tuple[Array, Array]:
    if mode == "r":
        return np.zeros(0, A.dtype), in_precision(lambda a: LAPACK.qr(a, mode="r"), A)
    return in_precision(lambda a: tuple(LAPACK.qr(a, mode=mode)), A)


@qr.vjp
def qr_vjp(g: Pair, Q: Value, R: Value, A: Value, mode: str) -> Value | None:
    m, n = A.shape[-2:]
    require(mode != "r", "G018", "linalg.qr: the derivative needs Q, which the mode 'r' does not compute")
    determined = mode == "reduced" or statically_known(le(m, n))
    require(determined, "G018", "linalg.qr: the mode 'complete' has no derivative where rows outnumber columns")
    left, right = g
    inner = minimum(m, n)
    if right is None:
        right = zeros_of(R, R.shape)
    # The first columns are factored, and the others, if there are any, multiplied by the adjoint of Q.
    further = _columns(right, inner, n)
    gained = matmul(_columns(A, inner, n), adjoint_of(further))
    left = gained if left is None else left + gained
    first = _square_qr_vjp(left, _columns(right, 0, inner), Q, _columns(R, 0, inner))
    return cat((first, matmul(Q, further)), -1)


def _columns(value: Value, start: Size, end: Size) -> Value:
    return slice_(value, -1, start, end)


def _square_qr_vjp(left: Value, right: Value, q: Value, r: Value) -> Value:
    inner = matmul(right, adjoint_of(r)) - matmul(adjoint_of(q), left)
    gradient = left + matmul(q, hermitian_of_lower(adjoint_of(triu(inner))))
    return solve_triangular(adjoint_of(r), gradient, upper=False, left=False)


@qr.samples
def qr_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4, 3), domain="full_rank")
    yield Sample(normal(rng, 2, 3, 5), domain="full_rank")
    yield Sample(normal(rng, 2, 4, 4), "complete", domain="full_rank")
