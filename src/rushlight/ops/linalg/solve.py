"""Linear systems, inverses and determinants, by LAPACK's LU factorisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from rushlight.ir.dtype import int32
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import matmul
from rushlight.ops.dims import Array, convert, normal, same_shape, same_size
from rushlight.ops.linalg.factor import require_info
from rushlight.ops.linalg.lu import lu_in_place
from rushlight.ops.linalg.matrix import (
    adjoint_of,
    host,
    identity_like,
    in_precision,
    like,
    real_like,
    require_same_dtype,
    require_square,
)
from rushlight.ops.number.parts import imag_
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.elementary import log
from rushlight.ops.promote import broadcast, sum_to
from rushlight.ops.record import Gradients, Sample
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.view.reorder import expand, mT, squeeze, unsqueeze
from rushlight.support.errors import require

_SINGULAR = "it is singular; element {} of U's diagonal is 0"
Pair = tuple[Value | None, Value | None]

solve_matrix = host(
    "solve_matrix(Tensor A, Tensor B, bool check_errors, str op) -> (Tensor result, Tensor info)",
    "X of A X = B for batches of matrices, and which pivot of each A is 0, or 0.",
)


@solve_matrix.meta
def solve_matrix_meta(A: TensorType, B: TensorType, check_errors: bool, op: str) -> tuple[TensorType, TensorType]:
    require_same_dtype(op, A, B)
    require_square(op, A)
    require(B.ndim >= 2, "S002", f"{op}: B must have at least 2 dims", B=B)
    require(same_size(A.shape[-1], B.shape[-2]), "S003", f"{op}: A and B differ in rows", A=A, B=B)
    batch = broadcast(A.shape[:-2], B.shape[:-2])
    return like(A, (*batch, *B.shape[-2:])), like(A, A.shape[:-2], int32)


@solve_matrix.ref
def solve_matrix_ref(A: Array, B: Array, check_errors: bool, op: str) -> tuple[Array, Array]:
    solution, info = in_precision(_guarded(np.linalg.solve), A, B)
    if check_errors:
        require_info(op, info, _SINGULAR)
    return solution, info


def _guarded(function: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
    """A function of matrices for all but singular ones, and which pivot of these is 0."""

    def guarded(a: Array, *more: Array) -> tuple[Array, Array]:
        info = np.zeros(a.shape[:-2], np.int32)
        try:
            with np.errstate(all="ignore"):
                return function(a, *more), info
        except np.linalg.LinAlgError:
            info = lu_in_place(a.copy(), True)[1]
        usable = np.where((info > 0)[..., None, None], np.eye(a.shape[-1], dtype=a.dtype), a)
        result = function(usable, *more)
        singular = np.broadcast_to((info > 0)[..., None, None], result.shape)
        return np.where(singular, np.nan, result).astype(result.dtype), info

    return guarded


@solve_matrix.vjp
def solve_matrix_vjp(g: Pair, result: Value, A: Value, B: Value, check_errors: bool, op: str) -> Gradients:
    if g[0] is None:
        return None, None
    grad = solve_matrix(adjoint_of(A), g[0], check_errors, op)[0]
    return sum_to(-matmul(grad, adjoint_of(result)), A.shape), sum_to(grad, B.shape)


@solve_matrix.samples
def solve_matrix_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), normal(rng, 3, 2), True, "solve", domain="dominant")
    yield Sample(normal(rng, 2, 1, 3, 3), normal(rng, 4, 3, 1), False, "solve", domain="dominant")


solve_ex = host(
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    "X of A X = B, or of X A = B unless `left`, for matrices or vectors B, and which pivot of each A is 0, or 0.",
    variants="function",
)


@solve_ex.decompose
def solve_ex_decompose(A: Value, B: Value, left: bool, check_errors: bool) -> tuple[Value, Value]:
    return _solved(A, B, left, check_errors, "linalg.solve_ex" if not check_errors else "linalg.solve")


def _solved(a: Value, b: Value, left: bool, check_errors: bool, op: str) -> tuple[Value, Value]:
    vector = is_vector_for(a, b)
    require(left or not vector, "A004", f"{op}: a vector B is solved for on the left only", B=b.shape)
    b = unsqueeze(b, -1) if vector else b
    if not left:
        a, b = mT(a), mT(b)
    solution, info = solve_matrix(a, b, check_errors, op)
    solution = solution if left else mT(solution)
    return squeeze(solution, -1) if vector else solution, info


def is_vector_for(a: Value, b: Value) -> bool:
    """Whether B is a vector, or a batch of vectors, one for each matrix A."""
    return b.ndim == 1 or (b.ndim == a.ndim - 1 and same_shape(b.shape, a.shape[:-1]))


@solve_ex.ref
def solve_ex_ref(A: Array, B: Array, left: bool, check_errors: bool) -> tuple[Array, Array]:
    vector = B.ndim == 1 or B.shape == A.shape[:-1]
    b = B[..., None] if vector else B
    if not left:
        solution, info = solve_matrix_ref(np.swapaxes(A, -1, -2), np.swapaxes(b, -1, -2), check_errors, "solve")
        return np.swapaxes(solution, -1, -2), info
    solution, info = solve_matrix_ref(A, b, check_errors, "solve")
    return solution[..., 0] if vector else solution, info


@solve_ex.samples
def solve_ex_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 3), normal(rng, 2, 3), domain="dominant")


solve = host(
    "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    "X of A X = B, or of X A = B unless `left`; error R007 where A is singular.",
    variants="function out",
)


@solve.decompose
def solve_decompose(A: Value, B: Value, left: bool) -> Value:
    return _solved(A, B, left, True, "linalg.solve")[0]


@solve.ref
def solve_ref(A: Array, B: Array, left: bool) -> Array:
    return solve_ex_ref(A, B, left, True)[0]


@solve.samples
def solve_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), normal(rng, 2, 3), left=False, domain="dominant")


inv_ex = host(
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    "The inverse of square matrices, and which pivot of each is 0, or 0. With `check_errors` that is error R007.",
    variants="function",
)


@inv_ex.meta
def inv_ex_meta(A: TensorType, check_errors: bool) -> tuple[TensorType, TensorType]:
    require_square("linalg.inv", A)
    return like(A, A.shape), like(A, A.shape[:-2], int32)


@inv_ex.ref
def inv_ex_ref(A: Array, check_errors: bool) -> tuple[Array, Array]:
    inverse, info = in_precision(_guarded(np.linalg.inv), A)
    if check_errors:
        require_info("linalg.inv", info, _SINGULAR)
    return inverse, info


@inv_ex.vjp
def inv_ex_vjp(g: Pair, inverse: Value) -> Value | None:
    adjoint = adjoint_of(inverse)
    return None if g[0] is None else -matmul(adjoint, matmul(g[0], adjoint))


@inv_ex.samples
def inv_ex_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")
    yield Sample(normal(rng, 2, 3, 3), check_errors=True, domain="dominant")


inv = host(
    "linalg_inv(Tensor A) -> Tensor",
    "The inverse of square matrices; error R007 where one is singular.",
    variants="function out",
)


@inv.decompose
def inv_decompose(A: Value) -> Value:
    return inv_ex(A, check_errors=True)[0]


@inv.ref
def inv_ref(A: Array) -> Array:
    return inv_ex_ref(A, True)[0]


@inv.samples
def inv_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")


det = host("linalg_det(Tensor A) -> Tensor", "The determinants of square matrices.", variants="function out")


@det.meta
def det_meta(A: TensorType) -> TensorType:
    require_square("linalg.det", A)
    return like(A, A.shape[:-2])


@det.ref
def det_ref(A: Array) -> Array:
    with np.errstate(all="ignore"):
        return in_precision(np.linalg.det, A)


@det.vjp
def det_vjp(g: Value, A: Value) -> Value:
    return unsqueeze(unsqueeze(g, -1), -1) * conjugate(cofactors(A))


@det.samples
def det_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")
    yield Sample(normal(rng, 2, 4, 4), domain="dominant")


cofactors = host(
    "cofactors(Tensor A) -> Tensor",
    "The derivatives of the determinant by each element, which singular matrices have too.",
)


@cofactors.meta
def cofactors_meta(A: TensorType) -> TensorType:
    require_square("linalg.det", A)
    return like(A, A.shape)


@cofactors.ref
def cofactors_ref(A: Array) -> Array:
    return in_precision(_cofactors, A)


def _cofactors(array: Array) -> Array:
    """By singular values: of A = U S V they are det(U V) conj(U) S' conj(V), S' of products of the others."""
    if not np.isfinite(array).all():
        return np.full_like(array, np.nan)
    u, s, vh = np.linalg.svd(array)
    size = s.shape[-1]
    others = np.broadcast_to(s[..., None, :], (*s.shape, size)).copy()
    others[..., np.arange(size), np.arange(size)] = 1
    products = np.prod(others, -1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return sign[..., None, None] * ((u.conj() * products[..., None, :]) @ vh.conj())


@cofactors.vjp
def cofactors_vjp(g: Value, out: Value, A: Value) -> Value:
    # Of an invertible matrix; for others the second derivative is NaN or infinite.
    adjoint = mT(conjugate(g))
    inner = unsqueeze(sum_(out * conjugate(g), (-1, -2), True), 0)
    inner = squeeze(inner, 0) * out - matmul(out, matmul(adjoint, out))
    return conjugate(inner / unsqueeze(unsqueeze(det(A), -1), -1))


@cofactors.samples
def cofactors_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")


slogdet = host(
    "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    "The signs of determinants, and the logarithms of their magnitudes.",
    variants="function",
)


@slogdet.meta
def slogdet_meta(A: TensorType) -> tuple[TensorType, TensorType]:
    require_square("linalg.slogdet", A)
    return like(A, A.shape[:-2]), real_like(A, A.shape[:-2])


@slogdet.ref
def slogdet_ref(A: Array) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        return in_precision(lambda a: tuple(np.linalg.slogdet(a)), A)


@slogdet.vjp
def slogdet_vjp(g: Pair, sign: Value, A: Value) -> Value | None:
    on_sign, on_log = g
    scale: Value | None = None if on_log is None else convert(on_log, A.dtype)
    if on_sign is not None and A.dtype.is_complex:
        turning = imag_(conjugate(on_sign) * sign) * 1j
        scale = -turning if scale is None else scale - turning
    if scale is None:
        return None
    size = A.shape[-1]
    right = unsqueeze(unsqueeze(scale, -1), -1) * expand(identity_like(A, size), (*A.shape[:-2], size, size))
    return solve_matrix(adjoint_of(A), right, False, "linalg.slogdet")[0]


@slogdet.samples
def slogdet_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")
    yield Sample(-normal(rng, 2, 3, 3), domain="dominant")


logdet = host("logdet(Tensor input) -> Tensor", "The logarithms of determinants; NaN of negative ones.")
logdet.variants = frozenset(("function", "method"))


@logdet.decompose
def logdet_decompose(input: Value) -> Value:
    sign, magnitude = slogdet(input)
    return log(sign) + magnitude


@logdet.ref
def logdet_ref(input: Array) -> Array:
    sign, magnitude = slogdet_ref(input)
    with np.errstate(all="ignore"):
        return np.asarray(np.log(sign) + magnitude).astype(input.dtype)


@logdet.samples
def logdet_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="definite")
