"""Triangular systems, solved on the host in blocks: numpy has no call for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import matmul
from rushlight.ops.dims import Array, normal, same_size
from rushlight.ops.join import tril, triu
from rushlight.ops.linalg.matrix import (
    adjoint_of,
    host,
    in_precision,
    like,
    require_matrix,
    require_same_dtype,
    require_square,
)
from rushlight.ops.promote import broadcast, sum_to
from rushlight.ops.record import Gradients, Sample
from rushlight.support.errors import require

_BLOCK = 32  # below this a loop over rows is no slower than products of blocks

solve_triangular = host(
    "linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    "X of A X = B, or of X A = B unless `left`, for triangular A; the other triangle, and the diagonal if it is "
    "unitriangular, are not read. Zeros on the diagonal give infinities and NaN.",
    variants="function out",
)


@solve_triangular.meta
def solve_triangular_meta(A: TensorType, B: TensorType, upper: bool, left: bool, unitriangular: bool) -> TensorType:
    require_same_dtype("linalg.solve_triangular", A, B)
    require_square("linalg.solve_triangular", A)
    require_matrix("linalg.solve_triangular", B, "B")
    fits = same_size(A.shape[-1], B.shape[-2 if left else -1])
    require(fits, "S003", "linalg.solve_triangular: A and B have sizes that do not fit", A=A, B=B)
    return like(B, (*broadcast(A.shape[:-2], B.shape[:-2]), *B.shape[-2:]))


@solve_triangular.ref
def solve_triangular_ref(A: Array, B: Array, upper: bool, left: bool, unitriangular: bool) -> Array:
    def solve(a: Array, b: Array) -> Array:
        if not left:
            a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
        if upper == left:  # from the last row up: the same, with rows and columns in reverse
            a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), order="C")
        with np.errstate(all="ignore"):
            forward_substitution(a, x, unitriangular)
        x = x[..., ::-1, :] if upper == left else x
        return x if left else np.swapaxes(x, -1, -2)

    return np.ascontiguousarray(in_precision(solve, A, B))


def forward_substitution(a: Array, x: Array, unit: bool) -> None:
    """Overwrites `x` with the solution for lower triangular matrices."""
    size = a.shape[-1]
    if size > _BLOCK:
        half = size // 2
        forward_substitution(a[..., :half, :half], x[..., :half, :], unit)
        x[..., half:, :] -= a[..., half:, :half] @ x[..., :half, :]
        forward_substitution(a[..., half:, half:], x[..., half:, :], unit)
        return
    for row in range(size):
        if row:
            x[..., row, :] -= (a[..., row, None, :row] @ x[..., :row, :])[..., 0, :]
        if not unit:
            x[..., row, :] /= a[..., row, row, None]


@solve_triangular.vjp
def solve_triangular_vjp(
    g: Value, out: Value, A: Value, B: Value, upper: bool, left: bool, unitriangular: bool
) -> Gradients:
    grad = solve_triangular(adjoint_of(A), g, upper=not upper, left=left, unitriangular=unitriangular)
    product = -(matmul(grad, adjoint_of(out)) if left else matmul(adjoint_of(out), grad))
    if upper:
        product = triu(product, 1 if unitriangular else 0)
    else:
        product = tril(product, -1 if unitriangular else 0)
    return sum_to(product, A.shape), sum_to(grad, B.shape)


@solve_triangular.samples
def solve_triangular_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), normal(rng, 3, 2), upper=False, domain="dominant")
    yield Sample(normal(rng, 2, 1, 3, 3), normal(rng, 4, 2, 3), upper=True, left=False, domain="dominant")
    yield Sample(normal(rng, 3, 3), normal(rng, 2, 3, 1), upper=True, unitriangular=True, domain="dominant")
