"""Factorisations of symmetric and Hermitian matrices as L D L^T, D having blocks of one and two rows.

The pivoting is Bunch and Kaufman's, as LAPACK's `sytf2` and `hetf2` for the lower triangle have it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import int32
from rushlight.ir.type import TensorType
from rushlight.ops.dims import Array, normal, same_shape, same_size
from rushlight.ops.linalg.factor import require_info
from rushlight.ops.linalg.matrix import host, in_precision, like, require_matrix, require_same_dtype, require_square
from rushlight.ops.promote import broadcast
from rushlight.ops.record import Fact, Sample
from rushlight.support.errors import require

_ALPHA = (1 + 17**0.5) / 8  # bounds the growth of elements alike for blocks of one and two rows

ldl_factor_ex = host(
    "linalg_ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) "
    "-> (Tensor LD, Tensor pivots, Tensor info)",
    "The factors of symmetric, or Hermitian, A = L D L^T in one matrix; the rows that were exchanged, from 1 and "
    "negative for blocks of two; and which block of D is 0, or 0. The lower triangle is read.",
    variants="function",
    facts=Fact.NONDIFFERENTIABLE,
)


@ldl_factor_ex.meta
def ldl_factor_ex_meta(A: TensorType, hermitian: bool, check_errors: bool) -> tuple[TensorType, TensorType, TensorType]:
    require_square("linalg.ldl_factor", A)
    return like(A, A.shape), like(A, A.shape[:-1], int32), like(A, A.shape[:-2], int32)


@ldl_factor_ex.ref
def ldl_factor_ex_ref(A: Array, hermitian: bool, check_errors: bool) -> tuple[Array, Array, Array]:
    def factored(array: Array) -> tuple[Array, Array, Array]:
        packed = np.tril(array).copy()
        pivots, info = np.zeros(array.shape[:-1], np.int32), np.zeros(array.shape[:-2], np.int32)
        with np.errstate(all="ignore"):
            for index in np.ndindex(info.shape):
                info[index] = _factor(packed[index], pivots[index], hermitian)
        return packed, pivots, info

    packed, pivots, info = in_precision(factored, A)
    if check_errors:
        require_info("linalg.ldl_factor", info, "block {} of D is 0")
    return packed, pivots, info


def _size(values: Array) -> Array:
    return np.abs(np.real(values)) + np.abs(np.imag(values))


def _pivot(a: Array, k: int, hermitian: bool) -> tuple[int, int]:
    """The row that becomes the next pivot, and of how many rows the block is."""
    n = len(a)
    own = float(abs(np.real(a[k, k])) if hermitian else _size(a[k, k]))
    if k == n - 1:
        return k, 1
    column = _size(a[k + 1 :, k])
    row = k + 1 + int(np.argmax(column))
    largest = float(column[row - k - 1])
    if own >= _ALPHA * largest:
        return k, 1
    others = np.concatenate((_size(a[row, k:row]), _size(a[row + 1 :, row])))
    rest = float(others.max())
    if own >= _ALPHA * largest * (largest / rest):
        return k, 1
    diagonal = float(abs(np.real(a[row, row])) if hermitian else _size(a[row, row]))
    return (row, 1) if diagonal >= _ALPHA * rest else (row, 2)


def _factor(a: Array, pivots: Array, hermitian: bool) -> int:
    n, k, failed = len(a), 0, 0
    conjugate = np.conj if hermitian else np.asarray
    while k < n:
        if hermitian:
            a[k, k] = np.real(a[k, k])
        if max(_size(a[k:, k])) == 0 or np.isnan(a[k, k]):
            failed = failed or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        row, rows = _pivot(a, k, hermitian)
        _exchange(a, k, row, rows, hermitian)
        below = slice(k + rows, n)
        x = a[below, k : k + rows].copy()
        if rows == 1:
            pivots[k] = row + 1
            a[below, k] = x[:, 0] / a[k, k]
        else:
            pivots[k] = pivots[k + 1] = -(row + 1)
            a[below, k : k + 2] = np.linalg.solve(_block(a, k, hermitian).T, x.T).T
        a[below, below] -= np.tril(a[below, k : k + rows] @ conjugate(x).T)
        k += rows
    return failed


def _block(a: Array, k: int, hermitian: bool) -> Array:
    upper = np.conj(a[k + 1, k]) if hermitian else a[k + 1, k]
    return np.array([[a[k, k], upper], [a[k + 1, k], a[k + 1, k + 1]]], a.dtype)


def _exchange(a: Array, k: int, row: int, rows: int, hermitian: bool) -> None:
    """Exchanges the last row and column of the block at `k` with another, in the lower triangle."""
    own = k + rows - 1
    if row == own:
        return
    a[row + 1 :, [own, row]] = a[row + 1 :, [row, own]]
    column, line = a[own + 1 : row, own].copy(), a[row, own + 1 : row].copy()
    a[own + 1 : row, own] = np.conj(line) if hermitian else line
    a[row, own + 1 : row] = np.conj(column) if hermitian else column
    if hermitian:
        a[row, own] = np.conj(a[row, own])
    a[own, own], a[row, row] = a[row, row], a[own, own]
    if rows == 2:
        a[k + 1, k], a[row, k] = a[row, k], a[k + 1, k]


@ldl_factor_ex.samples
def ldl_factor_ex_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 4, 4), domain="hermitian")


ldl_solve = host(
    "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    "X of A X = B, by the factors of `ldl_factor`.",
    variants="function out",
    facts=Fact.NONDIFFERENTIABLE,
)


@ldl_solve.meta
def ldl_solve_meta(LD: TensorType, pivots: TensorType, B: TensorType, hermitian: bool) -> TensorType:
    require_square("linalg.ldl_solve", LD, "LD")
    require_matrix("linalg.ldl_solve", B, "B")
    require_same_dtype("linalg.ldl_solve", LD, B)
    require(pivots.dtype.is_integer, "D001", "linalg.ldl_solve: the pivots are integers", pivots=pivots)
    fits = same_shape(pivots.shape, LD.shape[:-1])
    require(fits, "S014", "linalg.ldl_solve: the pivots do not fit LD", LD=LD, pivots=pivots)
    same = same_size(LD.shape[-1], B.shape[-2])
    require(same, "S003", "linalg.ldl_solve: LD and B differ in rows", LD=LD, B=B)
    return like(B, (*broadcast(LD.shape[:-2], B.shape[:-2]), *B.shape[-2:]))


@ldl_solve.ref
def ldl_solve_ref(LD: Array, pivots: Array, B: Array, hermitian: bool) -> Array:
    inside = ((np.abs(pivots.astype(np.int64)) >= 1) & (np.abs(pivots.astype(np.int64)) <= LD.shape[-1])).all()
    require(inside, "I001", "linalg.ldl_solve: a pivot is not the number of a row, counted from 1")

    def solved(packed: Array, b: Array) -> Array:
        batch = np.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
        x = np.broadcast_to(b, (*batch, *b.shape[-2:])).copy()
        factors = np.broadcast_to(packed, (*batch, *packed.shape[-2:]))
        rows = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
        with np.errstate(all="ignore"):
            for index in np.ndindex(batch):
                _solve(factors[index], rows[index].astype(int), x[index], hermitian)
        return x

    return in_precision(solved, LD, B)


def _solve(a: Array, pivots: Array, x: Array, hermitian: bool) -> None:
    """Overwrites `x` with the solution: forward through L and D, then back through L's transpose."""
    n, k = len(a), 0
    steps: list[tuple[int, int]] = []
    while k < n:
        rows = 1 if pivots[k] > 0 or k == n - 1 else 2
        own, row = k + rows - 1, abs(pivots[k]) - 1
        x[[own, row]] = x[[row, own]]
        x[k + rows :] -= a[k + rows :, k : k + rows] @ x[k : k + rows]
        if rows == 1:
            x[k] = x[k] / (np.real(a[k, k]) if hermitian else a[k, k])
        else:
            x[k : k + 2] = np.linalg.solve(_block(a, k, hermitian), x[k : k + 2])
        steps.append((k, rows))
        k += rows
    for k, rows in reversed(steps):
        factor = a[k + rows :, k : k + rows].T
        x[k : k + rows] -= (np.conj(factor) if hermitian else factor) @ x[k + rows :]
        own, row = k + rows - 1, abs(pivots[k]) - 1
        x[[own, row]] = x[[row, own]]


@ldl_solve.samples
def ldl_solve_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), np.array([1, 3, 3], np.int32), normal(rng, 2, 3, 2), domain="dominant")
