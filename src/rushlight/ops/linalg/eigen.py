"""Eigenvalues and singular values by LAPACK. Derivatives by Giles (2008), and Wan and Zhang (2019) for complex ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import complex64, complex128, float64, real_dtype
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import matmul
from rushlight.ops.dims import Array, convert, normal
from rushlight.ops.linalg.matrix import (
    LAPACK,
    adjoint_of,
    converged,
    diagonal_of,
    host,
    identity_like,
    like,
    on_diagonal,
    real_like,
    require_matrix,
    require_square,
)
from rushlight.ops.linalg.solve import solve_matrix
from rushlight.ops.number.parts import imag_
from rushlight.ops.pointwise.comparison import ne
from rushlight.ops.pointwise.complex import conjugate, real_of
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Sample
from rushlight.ops.view.part import slice_
from rushlight.ops.view.reorder import unsqueeze
from rushlight.support.errors import require
from rushlight.sym import Size, minimum

Pair = tuple[Value | None, Value | None]
Triple = tuple[Value | None, Value | None, Value | None]


def _require_triangle(UPLO: str) -> None:
    require(UPLO.upper() in ("L", "U"), "A004", f"linalg.eigh: UPLO is 'L' or 'U', not {UPLO!r}")


def _difference(values: Value) -> tuple[Value, Value]:
    """(l_j - l_i with 1 on the diagonal, the off-diagonal mask) of eigenvalues l."""
    size = values.shape[-1]
    off = ne(identity_like(convert(real_of(values), real_dtype(values.dtype)), size), 1)
    gaps = unsqueeze(values, -2) - unsqueeze(values, -1)
    return where(off, gaps, 1.0), off


eigh = host(
    "linalg_eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    "The eigenvalues of Hermitian matrices, ascending, and their eigenvectors as columns; one triangle is read.",
    variants="function",
)


@eigh.meta
def eigh_meta(A: TensorType, UPLO: str) -> tuple[TensorType, TensorType]:
    require_square("linalg.eigh", A)
    _require_triangle(UPLO)
    return real_like(A, A.shape[:-1]), like(A, A.shape)


@eigh.ref
def eigh_ref(A: Array, UPLO: str) -> tuple[Array, Array]:
    side = UPLO.upper()
    return converged("linalg.eigh", lambda a: tuple(LAPACK.eigh(a, UPLO=side)), A)


@eigh.vjp
def eigh_vjp(g: Pair, eigenvalues: Value, eigenvectors: Value) -> Value | None:
    on_values, on_vectors = g
    dtype, vectors = eigenvectors.dtype, eigenvectors
    if on_vectors is None:
        if on_values is None:
            return None
        return matmul(vectors * unsqueeze(convert(on_values, dtype), -2), adjoint_of(vectors))
    gaps, off = _difference(eigenvalues)
    inner = where(off, _skew(matmul(adjoint_of(vectors), on_vectors)) * 0.5 / convert(gaps, dtype), 0.0)
    if on_values is not None:
        inner = inner + on_diagonal(convert(on_values, dtype))
    return matmul(vectors, matmul(inner, adjoint_of(vectors)))


@eigh.samples
def eigh_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(spread(rng, 3), domain="hermitian")
    yield Sample(spread(rng, 2, 4), "U", domain="hermitian")


def spread(rng: np.random.Generator, *shape: int) -> Array:
    """Symmetric float32 matrices whose eigenvalues lie apart."""
    noise = rng.standard_normal((*shape, shape[-1])) * 0.2
    return (noise + np.swapaxes(noise, -1, -2) + np.diag(np.arange(1.0, shape[-1] + 1))).astype(np.float32)


eigvalsh = host(
    "linalg_eigvalsh(Tensor A, str UPLO='L') -> Tensor",
    "The eigenvalues of Hermitian matrices, ascending; one triangle is read.",
    variants="function out",
)


@eigvalsh.meta
def eigvalsh_meta(A: TensorType, UPLO: str) -> TensorType:
    require_square("linalg.eigvalsh", A)
    _require_triangle(UPLO)
    return real_like(A, A.shape[:-1])


@eigvalsh.ref
def eigvalsh_ref(A: Array, UPLO: str) -> Array:
    return converged("linalg.eigvalsh", lambda a: LAPACK.eigvalsh(a, UPLO=UPLO.upper()), A)


@eigvalsh.vjp
def eigvalsh_vjp(g: Value, A: Value, UPLO: str) -> Value | None:
    values, vectors = eigh(A, UPLO)
    return eigh_vjp((g, None), values, vectors)


@eigvalsh.samples
def eigvalsh_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(spread(rng, 3), domain="hermitian")


eig = host(
    "linalg_eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)",
    "The complex eigenvalues of square matrices, and eigenvectors of length 1 as columns.",
    variants="function",
)


def _complex_like(type_: TensorType, shape: tuple[Size, ...]) -> TensorType:
    return like(type_, shape, complex128 if real_dtype(type_.dtype) is float64 else complex64)


@eig.meta
def eig_meta(A: TensorType) -> tuple[TensorType, TensorType]:
    require_square("linalg.eig", A)
    return _complex_like(A, A.shape[:-1]), _complex_like(A, A.shape)


@eig.ref
def eig_ref(A: Array) -> tuple[Array, Array]:
    def complex_pair(a: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eig(a)
        return values.astype(np.result_type(values, np.complex64)), vectors.astype(np.result_type(values, np.complex64))

    return converged("linalg.eig", complex_pair, A)


@eig.vjp
def eig_vjp(g: Pair, eigenvalues: Value, eigenvectors: Value, A: Value) -> Value | None:
    on_values, on_vectors = g
    vectors, adjoint = eigenvectors, adjoint_of(eigenvectors)
    if on_vectors is None:
        if on_values is None:
            return None
        inner = unsqueeze(on_values, -1) * adjoint
    else:
        gaps, off = _difference(eigenvalues)
        product = matmul(adjoint, on_vectors)
        lengths = convert(real_of(diagonal_of(product)), product.dtype)
        product = product - matmul(adjoint, vectors) * unsqueeze(lengths, -2)
        middle = where(off, product / conjugate(gaps), 0.0)
        if on_values is not None:
            middle = middle + on_diagonal(on_values)
        inner = matmul(middle, adjoint)
    gradient = solve_matrix(adjoint, inner, False, "linalg.eig")[0]
    return gradient if A.dtype.is_complex else convert(real_of(gradient), A.dtype)


@eig.samples
def eig_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(spread(rng, 3) + 0.1 * normal(rng, 3, 3), domain="spread")


eigvals = host(
    "linalg_eigvals(Tensor A) -> Tensor", "The complex eigenvalues of square matrices.", variants="function out"
)


@eigvals.meta
def eigvals_meta(A: TensorType) -> TensorType:
    require_square("linalg.eigvals", A)
    return _complex_like(A, A.shape[:-1])


@eigvals.ref
def eigvals_ref(A: Array) -> Array:
    def values_of(a: Array) -> Array:
        values = np.linalg.eigvals(a)
        return values.astype(np.result_type(values, np.complex64))

    return converged("linalg.eigvals", values_of, A)


@eigvals.vjp
def eigvals_vjp(g: Value, A: Value) -> Value | None:
    values, vectors = eig(A)
    return eig_vjp((g, None), values, vectors, A)


@eigvals.samples
def eigvals_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(spread(rng, 3) + 0.1 * normal(rng, 3, 3), domain="spread")


svd = host(
    "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    "The singular values of matrices, descending, and their left and right vectors.",
    variants="function",
)


def _require_no_driver(driver: str | None, op: str) -> None:
    # As in PyTorch, where drivers are a matter of cuSOLVER alone.
    require(driver is None, "A004", f"{op}: a driver can be chosen on CUDA alone", driver=driver)


@svd.meta
def svd_meta(A: TensorType, full_matrices: bool, driver: str | None) -> tuple[TensorType, TensorType, TensorType]:
    require_matrix("linalg.svd", A)
    _require_no_driver(driver, "linalg.svd")
    m, n = A.shape[-2:]
    batch, k = A.shape[:-2], minimum(m, n)
    columns, rows = (m, n) if full_matrices else (k, k)
    return like(A, (*batch, m, columns)), real_like(A, (*batch, k)), like(A, (*batch, rows, n))


@svd.ref
def svd_ref(A: Array, full_matrices: bool, driver: str | None) -> tuple[Array, Array, Array]:
    return converged("linalg.svd", lambda a: tuple(np.linalg.svd(a, full_matrices=full_matrices)), A)


@svd.vjp
def svd_vjp(g: Triple, U: Value, S: Value, Vh: Value) -> Value | None:
    on_u, on_s, on_vh = g
    k, dtype = S.shape[-1], U.dtype
    u, vh = slice_(U, -1, 0, k), slice_(Vh, -2, 0, k)
    s = convert(S, dtype)
    if on_u is None and on_vh is None:
        return None if on_s is None else matmul(u * unsqueeze(convert(on_s, dtype), -2), vh)
    gaps, off = _difference(S * S)
    gaps = convert(gaps, dtype)
    inner: Any = None if on_s is None else on_diagonal(convert(on_s, dtype))
    if on_u is not None:
        on_u = slice_(on_u, -1, 0, k)
        turned = _skew(matmul(adjoint_of(u), on_u))
        part = where(off, turned / gaps, 0.0) * unsqueeze(s, -2)
        if dtype.is_complex:
            part = part + on_diagonal(imag_(diagonal_of(turned)) * 1j / (s * 2))
        inner = part if inner is None else inner + part
    if on_vh is not None:
        on_vh = slice_(on_vh, -2, 0, k)
        part = unsqueeze(s, -1) * where(off, _skew(matmul(vh, adjoint_of(on_vh))) / gaps, 0.0)
        inner = part if inner is None else inner + part
    gradient = matmul(u, matmul(inner, vh))
    if on_u is not None:  # what of the gradient lies outside the columns of U
        scaled = on_u / unsqueeze(s, -2)
        gradient = gradient + matmul(scaled - matmul(u, matmul(adjoint_of(u), scaled)), vh)
    if on_vh is not None:
        scaled = on_vh / unsqueeze(s, -1)
        gradient = gradient + matmul(u, scaled - matmul(matmul(scaled, adjoint_of(vh)), vh))
    return gradient


def _skew(value: Value) -> Value:
    return value - adjoint_of(value)


@svd.samples
def svd_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(spread(rng, 3), False, domain="spread")
    yield Sample(spread(rng, 2, 4)[..., :3], False, domain="spread")
    yield Sample(spread(rng, 4)[:3] * 2, False, domain="spread")
    yield Sample(spread(rng, 4), domain="spread")


svdvals = host(
    "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
    "The singular values of matrices, descending.",
    variants="function out",
)


@svdvals.meta
def svdvals_meta(A: TensorType, driver: str | None) -> TensorType:
    require_matrix("linalg.svdvals", A)
    _require_no_driver(driver, "linalg.svdvals")
    return real_like(A, (*A.shape[:-2], minimum(*A.shape[-2:])))


@svdvals.ref
def svdvals_ref(A: Array, driver: str | None) -> Array:
    return converged("linalg.svdvals", lambda a: np.linalg.svd(a, compute_uv=False), A)


@svdvals.vjp
def svdvals_vjp(g: Value, A: Value) -> Value | None:
    u, s, vh = svd(A, False)
    return svd_vjp((None, g, None), u, s, vh)


@svdvals.samples
def svdvals_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(spread(rng, 2, 4)[..., :3], domain="spread")
