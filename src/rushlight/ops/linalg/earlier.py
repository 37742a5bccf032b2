"""Names that PyTorch had before `linalg`, with the conventions of then, in terms of `linalg`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import filled
from rushlight.ops.dims import Array, convert, normal, same_shape
from rushlight.ops.join import tril, triu
from rushlight.ops.linalg.eigen import spread, svd_ref
from rushlight.ops.linalg.eigen import svd as linalg_svd
from rushlight.ops.linalg.factor import cholesky as linalg_cholesky
from rushlight.ops.linalg.factor import cholesky_ref, qr_ref
from rushlight.ops.linalg.factor import qr as linalg_qr
from rushlight.ops.linalg.function import (
    householder_product,
    householder_product_ref,
    pseudo_inverse,
    pseudo_inverse_ref,
)
from rushlight.ops.linalg.lu import (
    lu_solve,
    lu_solve_ref,
    permutation_matrix,
    permutation_of_ref,
)
from rushlight.ops.linalg.matrix import (
    adjoint_array,
    adjoint_of,
    host,
    identity_like,
    in_precision,
    require_matrix,
    require_same_dtype,
    require_square,
)
from rushlight.ops.linalg.solve import det as linalg_det
from rushlight.ops.linalg.solve import det_ref, inv, inv_ref, slogdet_ref
from rushlight.ops.linalg.solve import slogdet as linalg_slogdet
from rushlight.ops.linalg.triangular import solve_triangular, solve_triangular_ref
from rushlight.ops.promote import broadcast
from rushlight.ops.record import Sample
from rushlight.ops.view.part import slice_
from rushlight.ops.view.reorder import expand, mT
from rushlight.support.errors import require
from rushlight.sym import minimum

det = host("det(Tensor input) -> Tensor", "The determinants of square matrices.", variants="function method")


@det.decompose
def det_decompose(input: Value) -> Value:
    return linalg_det(input)


@det.ref
def det_reference(input: Array) -> Array:
    return det_ref(input)


@det.samples
def det_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")


slogdet = host(
    "slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet)",
    "The signs of determinants, and the logarithms of their magnitudes.",
    variants="function method",
)


@slogdet.decompose
def slogdet_decompose(input: Value) -> tuple[Value, Value]:
    return linalg_slogdet(input)


@slogdet.ref
def slogdet_reference(input: Array) -> tuple[Array, Array]:
    return slogdet_ref(input)


@slogdet.samples
def slogdet_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")


inverse = host("inverse(Tensor input) -> Tensor", "The inverse of square matrices.", variants="function method out")


@inverse.decompose
def inverse_decompose(input: Value) -> Value:
    return inv(input)


@inverse.ref
def inverse_ref(input: Array) -> Array:
    return inv_ref(input)


@inverse.samples
def inverse_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")


pinverse = host(
    "pinverse(Tensor input, float rcond=1e-15) -> Tensor",
    "The Moore-Penrose inverse; singular values up to `rcond` times the largest count as 0.",
)
pinverse.variants = frozenset(("function", "method"))


@pinverse.decompose
def pinverse_decompose(input: Value, rcond: float) -> Value:
    return pseudo_inverse(input, None, rcond, False)


@pinverse.ref
def pinverse_ref(input: Array, rcond: float) -> Array:
    return pseudo_inverse_ref(input, None, np.asarray(rcond), False)


@pinverse.samples
def pinverse_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4, 3), domain="full_rank")


cholesky = host(
    "cholesky(Tensor input, bool upper=False) -> Tensor",
    "The Cholesky factor of Hermitian positive-definite matrices.",
    variants="function method out",
)


@cholesky.decompose
def cholesky_decompose(input: Value, upper: bool) -> Value:
    return linalg_cholesky(input, upper=upper)


@cholesky.ref
def cholesky_reference(input: Array, upper: bool) -> Array:
    return cholesky_ref(input, upper)


@cholesky.samples
def cholesky_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="definite")


cholesky_solve = host(
    "cholesky_solve(Tensor input, Tensor input2, bool upper=False) -> Tensor",
    "X of A X = input, by the Cholesky factor of A.",
    variants="function method out",
)


@cholesky_solve.decompose
def cholesky_solve_decompose(input: Value, input2: Value, upper: bool) -> Value:
    factor = TensorType(input2.shape, input2.dtype)
    require_square("cholesky_solve", factor, "input2")
    right = TensorType(input.shape, input.dtype)
    require_matrix("cholesky_solve", right, "input")
    require_same_dtype("cholesky_solve", right, factor)
    lower = adjoint_of(input2) if upper else input2
    first = solve_triangular(lower, input, upper=False)
    return solve_triangular(adjoint_of(lower), first, upper=True)


@cholesky_solve.ref
def cholesky_solve_ref(input: Array, input2: Array, upper: bool) -> Array:
    def solved(b: Array, factor: Array) -> Array:
        lower = adjoint_array(factor) if upper else factor
        first = solve_triangular_ref(lower, b, False, True, False)
        return solve_triangular_ref(adjoint_array(lower), first, True, True, False)

    return in_precision(solved, input, input2)


@cholesky_solve.samples
def cholesky_solve_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 2), normal(rng, 2, 3, 3), domain="dominant")


cholesky_inverse = host(
    "cholesky_inverse(Tensor input, bool upper=False) -> Tensor",
    "The inverse of A, by its Cholesky factor.",
    variants="function method out",
)


@cholesky_inverse.decompose
def cholesky_inverse_decompose(input: Value, upper: bool) -> Value:
    require_square("cholesky_inverse", TensorType(input.shape, input.dtype), "input")
    return cholesky_solve(identity_like(input, input.shape[-1]), input, upper)


@cholesky_inverse.ref
def cholesky_inverse_ref(input: Array, upper: bool) -> Array:
    return cholesky_solve_ref(np.eye(input.shape[-1]).astype(input.dtype), input, upper)


@cholesky_inverse.samples
def cholesky_inverse_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 3), True, domain="dominant")


qr = host(
    "qr(Tensor input, bool some=True) -> (Tensor Q, Tensor R)",
    "A unitary and an upper triangular matrix whose product is the input; square Q unless `some`.",
    variants="function method",
)


@qr.decompose
def qr_decompose(input: Value, some: bool) -> tuple[Value, Value]:
    return linalg_qr(input, "reduced" if some else "complete")


@qr.ref
def qr_reference(input: Array, some: bool) -> tuple[Array, Array]:
    return qr_ref(input, "reduced" if some else "complete")


@qr.samples
def qr_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4, 3), domain="full_rank")


svd = host(
    "svd(Tensor input, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    "Singular values and vectors; V is not conjugated, and zeros stand for vectors that are not computed.",
    variants="function method",
)


@svd.decompose
def svd_decompose(input: Value, some: bool, compute_uv: bool) -> tuple[Value, Value, Value]:
    u, s, vh = linalg_svd(input, not some and compute_uv)
    if compute_uv:
        return u, s, adjoint_of(vh)
    m, n = input.shape[-2:]
    return filled(input, (*input.shape[:-2], m, m), 0), s, filled(input, (*input.shape[:-2], n, n), 0)


@svd.ref
def svd_reference(input: Array, some: bool, compute_uv: bool) -> tuple[Array, Array, Array]:
    u, s, vh = svd_ref(input, not some, None)
    if compute_uv:
        return u, s, adjoint_array(vh)
    m, n = input.shape[-2:]
    batch = input.shape[:-2]
    return np.zeros((*batch, m, m), input.dtype), s, np.zeros((*batch, n, n), input.dtype)


@svd.samples
def svd_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(spread(rng, 3), domain="spread")
    yield Sample(spread(rng, 3), True, False, domain="spread")


triangular_solve = host(
    "triangular_solve(Tensor b, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) "
    "-> (Tensor solution, Tensor cloned_coefficient)",
    "X of A X = b for triangular A, or of its transpose, and a copy of A.",
    variants="function method",
)


@triangular_solve.decompose
def triangular_solve_decompose(
    b: Value, A: Value, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Value, Value]:
    batch = broadcast(A.shape[:-2], b.shape[:-2])
    copied = expand(A, (*batch, *A.shape[-2:])) * 1
    matrix = mT(A) if transpose else A
    return solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular), copied


@triangular_solve.ref
def triangular_solve_ref(b: Array, A: Array, upper: bool, transpose: bool, unitriangular: bool) -> tuple[Array, Array]:
    matrix = np.swapaxes(A, -1, -2) if transpose else A
    batch = np.broadcast_shapes(A.shape[:-2], b.shape[:-2])
    copied = np.broadcast_to(A, (*batch, *A.shape[-2:])).copy()
    return solve_triangular_ref(matrix, b, upper != transpose, True, unitriangular), copied


@triangular_solve.samples
def triangular_solve_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 2), normal(rng, 2, 3, 3), True, True, domain="dominant")


orgqr = host(
    "orgqr(Tensor input, Tensor tau) -> Tensor",
    "Another name of linalg.householder_product.",
    variants="function method",
)


@orgqr.decompose
def orgqr_decompose(input: Value, tau: Value) -> Value:
    return householder_product(input, tau)


@orgqr.ref
def orgqr_ref(input: Array, tau: Array) -> Array:
    return householder_product_ref(input, tau)


@orgqr.samples
def orgqr_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4, 3), normal(rng, 3), domain="spread")


solve_by_lu = host(
    "lu_solve(Tensor b, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    "X of A X = b, by the factors of A.",
    variants="function method out",
)


@solve_by_lu.decompose
def solve_by_lu_decompose(b: Value, LU_data: Value, LU_pivots: Value) -> Value:
    return lu_solve(LU_data, LU_pivots, b)


@solve_by_lu.ref
def solve_by_lu_ref(b: Array, LU_data: Array, LU_pivots: Array) -> Array:
    return lu_solve_ref(LU_data, LU_pivots, b, True, False)


@solve_by_lu.samples
def solve_by_lu_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 2), normal(rng, 3, 3), np.array([3, 2, 3], np.int32), domain="dominant")


lu_unpack = host(
    "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) "
    "-> (Tensor P, Tensor L, Tensor U)",
    "P, L and U of factors in one matrix; what is not unpacked is empty.",
    variants="function",
)


@lu_unpack.decompose
def lu_unpack_decompose(
    LU_data: Value, LU_pivots: Value, unpack_data: bool, unpack_pivots: bool
) -> tuple[Value, Value, Value]:
    require_matrix("lu_unpack", TensorType(LU_data.shape, LU_data.dtype), "LU_data")
    m, n = LU_data.shape[-2:]
    k = minimum(m, n)
    fits = same_shape(LU_pivots.shape, (*LU_data.shape[:-2], k))
    require(fits, "S014", "lu_unpack: the pivots do not fit LU_data", LU_data=LU_data.shape, LU_pivots=LU_pivots.shape)
    nothing = filled(LU_data, (0,), 0)
    permutation = convert(permutation_matrix(LU_pivots, m), LU_data.dtype) if unpack_pivots else nothing
    if not unpack_data:
        return permutation, nothing, nothing
    lower = tril(slice_(LU_data, -1, 0, k), -1) + slice_(identity_like(LU_data, m), -1, 0, k)
    return permutation, lower, triu(slice_(LU_data, -2, 0, k))


@lu_unpack.ref
def lu_unpack_ref(
    LU_data: Array, LU_pivots: Array, unpack_data: bool, unpack_pivots: bool
) -> tuple[Array, Array, Array]:
    m, n = LU_data.shape[-2:]
    k, nothing = min(m, n), np.zeros(0, LU_data.dtype)
    order = permutation_of_ref(LU_pivots, m)
    permutation = (np.arange(m)[:, None] == order[..., None, :]).astype(LU_data.dtype) if unpack_pivots else nothing
    if not unpack_data:
        return permutation, nothing, nothing
    lower = np.tril(LU_data[..., :k], -1) + np.eye(m, k).astype(LU_data.dtype)
    return permutation, lower.astype(LU_data.dtype), np.triu(LU_data[..., :k, :])


@lu_unpack.samples
def lu_unpack_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4, 3), np.array([3, 2, 3], np.int32), domain="spread")
