"""Functions of matrices: exponentials, powers, pseudo-inverses, products of Householder reflectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import matmul
from rushlight.ops.create import zeros_of
from rushlight.ops.dims import Array, normal, same_size
from rushlight.ops.join import cat, tril, triu
from rushlight.ops.linalg.matrix import (
    LAPACK,
    adjoint_array,
    adjoint_of,
    converged,
    host,
    identity_like,
    in_precision,
    like,
    on_diagonal,
    require_matrix,
    require_square,
)
from rushlight.ops.linalg.solve import inv
from rushlight.ops.linalg.triangular import solve_triangular
from rushlight.ops.promote import broadcast
from rushlight.ops.record import Fact, Gradients, Sample
from rushlight.ops.view.part import slice_
from rushlight.ops.view.reorder import unsqueeze
from rushlight.support.errors import require
from rushlight.sym import minimum

# Coefficients of the Padé approximant of degree 13 to the exponential, and the norm up to which it is exact in float64
# (Higham, "The scaling and squaring method for the matrix exponential revisited", 2005).
_PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
_LARGEST_NORM = 5.371920351148152

matrix_exp = host(
    "matrix_exp(Tensor input) -> Tensor",
    "The exponentials of square matrices, by scaling, a Padé approximant and squaring.",
    variants="function method",
    autocast=None,
)


@matrix_exp.meta
def matrix_exp_meta(input: TensorType) -> TensorType:
    require_square("linalg.matrix_exp", input, "input")
    return like(input, input.shape)


@matrix_exp.ref
def matrix_exp_ref(input: Array) -> Array:
    with np.errstate(all="ignore"):
        return in_precision(_exponential, input)


def _exponential(array: Array) -> Array:
    norms = np.max(np.sum(np.abs(array), -2), -1, initial=0)
    usable = np.isfinite(norms)
    powers = np.ceil(np.log2(np.maximum(norms / _LARGEST_NORM, 1), where=usable, out=np.zeros_like(norms))).astype(int)
    safe = np.where(usable[..., None, None], array, 0)
    x = safe * (0.5 ** powers[..., None, None]).astype(norms.dtype)
    one = np.eye(array.shape[-1], dtype=array.dtype)
    b = [norms.dtype.type(coefficient) for coefficient in _PADE]
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    quotient = np.linalg.solve(even - odd, even + odd)
    for step in range(int(powers.max(initial=0))):
        again = powers > step
        quotient[again] = quotient[again] @ quotient[again]
    return np.where(usable[..., None, None], quotient, np.nan).astype(array.dtype)


@matrix_exp.vjp
def matrix_exp_vjp(g: Value, input: Value) -> Value:
    # The derivative in a direction is a block of the exponential of a matrix of four blocks (Mathias, 1996).
    adjoint, size = adjoint_of(input), input.shape[-1]
    upper, lower = cat((adjoint, g), -1), cat((zeros_of(adjoint, adjoint.shape), adjoint), -1)
    whole = matrix_exp(cat((upper, lower), -2))
    return slice_(slice_(whole, -2, 0, size), -1, size, size + size)


@matrix_exp.samples
def matrix_exp_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 3), domain="dominant")
    yield Sample(normal(rng, 2, 3, 3), domain="hermitian")


matrix_power = host(
    "matrix_power(Tensor input, int n) -> Tensor",
    "The n-th powers of square matrices; negative ones are of the inverse.",
    variants="function method out",
    autocast="lower",
)
matrix_power.dtypes = "number"


@matrix_power.decompose
def matrix_power_decompose(input: Value, n: int) -> Value:
    require_square("linalg.matrix_power", TensorType(input.shape, input.dtype), "input")
    if n == 0:
        # Zeros made of the input, so that its gradient is 0 and not absent.
        return identity_like(input, input.shape[-1]) + triu(tril(input, -1))
    if n < 0:
        input, n = inv(input), -n
    power: Value | None = None
    square = input
    while True:
        if n & 1:
            power = square if power is None else matmul(power, square)
        n >>= 1
        if not n:
            assert power is not None
            return power if power is not input else input * 1
        square = matmul(square, square)


@matrix_power.ref
def matrix_power_ref(input: Array, n: int) -> Array:
    if input.dtype.kind in "iu":
        return np.linalg.matrix_power(input, n)
    return in_precision(lambda a: np.linalg.matrix_power(a, n), input)


@matrix_power.samples
def matrix_power_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (3, -2, 0):
        yield Sample(normal(rng, 2, 3, 3), n, domain="dominant")


pseudo_inverse = host(
    "pseudo_inverse(Tensor A, Tensor? atol, Tensor? rtol, bool hermitian) -> Tensor",
    "The Moore-Penrose inverses of matrices, of which singular values up to max(atol, rtol * the largest) count as 0.",
)


@pseudo_inverse.meta
def pseudo_inverse_meta(A: TensorType, atol: TensorType | None, rtol: TensorType | None, hermitian: bool) -> TensorType:
    (require_square if hermitian else require_matrix)("linalg.pinv", A)
    batch = broadcast(A.shape[:-2], *[tolerance.shape for tolerance in (atol, rtol) if tolerance is not None])
    return like(A, (*batch, A.shape[-1], A.shape[-2]))


@pseudo_inverse.ref
def pseudo_inverse_ref(A: Array, atol: Array | None, rtol: Array | None, hermitian: bool) -> Array:
    default = tolerance_of(A)
    absolute = np.asarray(0.0 if atol is None else atol, np.float64)
    if rtol is None:
        relative = np.where(absolute > 0, 0.0, default)
    else:
        relative = np.asarray(rtol, np.float64)

    def inverted(a: Array) -> Array:
        if 0 in a.shape[-2:]:
            return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
        if hermitian:
            values, vectors = LAPACK.eigh(a)
            u, s, v = vectors, np.abs(values), vectors * np.sign(values)[..., None, :]
        else:
            u, s, vh = LAPACK.svd(a, full_matrices=False)
            v = adjoint_array(vh)
        least = np.maximum(absolute, relative * s.max(-1))[..., None]
        kept = s > least
        inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(s.dtype)
        return (v * inverse[..., None, :]) @ adjoint_array(u)

    return converged("linalg.pinv", inverted, A)


def tolerance_of(array: Array) -> float:
    """The default relative tolerance: the dtype's epsilon times the larger number of rows and columns."""
    bits = array.dtype.itemsize * (4 if array.dtype.kind == "c" else 8)
    return float(np.finfo(np.float64 if bits == 64 else np.float32).eps) * max(array.shape[-2:])


@pseudo_inverse.vjp
def pseudo_inverse_vjp(g: Value, out: Value, A: Value) -> Gradients:
    # Golub and Pereyra (1973); valid where the rank does not change.
    grad, inverse = adjoint_of(g), adjoint_of(out)
    first = matmul(grad, out)
    gained = matmul(first, inverse)
    whole = -adjoint_of(matmul(out, first)) + gained - matmul(matmul(A, out), gained)
    return whole + matmul(matmul(inverse, out), grad - matmul(first, A)), None, None


@pseudo_inverse.samples
def pseudo_inverse_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 4, 3), None, None, False, domain="full_rank")
    yield Sample(normal(rng, 2, 3, 4), 0.01, 1e-3, False, domain="full_rank")
    yield Sample(normal(rng, 3, 3), None, 1e-3, True, domain="definite")


householder_product = host(
    "linalg_householder_product(Tensor A, Tensor tau) -> Tensor",
    "The first columns of the product of Householder reflectors 1 - tau v v^H, v being a column of A below its 1.",
    variants="function out",
)


@householder_product.decompose
def householder_product_decompose(A: Value, tau: Value) -> Value:
    vectors, middle = _reflectors("linalg.householder_product", A, tau)
    m, n = A.shape[-2:]
    first = slice_(adjoint_of(vectors), -1, 0, n)
    return slice_(identity_like(A, m), -1, 0, n) - matmul(vectors, matmul(middle, first))


def _reflectors(op: str, packed: Value, tau: Value) -> tuple[Value, Value]:
    """V and T of the product of reflectors as 1 - V T V^H (Schreiber and Van Loan, 1989)."""
    type_ = TensorType(packed.shape, packed.dtype)
    require_matrix(op, type_)
    require(packed.dtype is tau.dtype, "D002", f"{op}: operands differ in dtype", A=packed.dtype, tau=tau.dtype)
    fits = tau.ndim == packed.ndim - 1
    require(fits, "S002", f"{op}: tau has one dim less than A", A=packed.shape, tau=tau.shape)
    m, n = packed.shape[-2:]
    k = tau.shape[-1]
    if isinstance(m, int) and isinstance(n, int) and isinstance(k, int):
        require(m >= n >= k, "S002", f"{op}: rows, columns and reflectors descend in number", A=packed.shape, tau=k)
    columns = slice_(packed, -1, 0, k)
    vectors = tril(columns, -1) + slice_(identity_like(packed, m), -1, 0, k)
    scaled = unsqueeze(tau, -1) * triu(matmul(adjoint_of(vectors), vectors), 1)
    middle = solve_triangular(scaled, on_diagonal(tau), upper=True, unitriangular=True)
    return vectors, middle


@householder_product.ref
def householder_product_ref(A: Array, tau: Array) -> Array:
    def product(a: Array, t: Array) -> Array:
        orthogonal = np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape).copy()
        for step in reversed(range(t.shape[-1])):
            below = a[..., step + 1 :, step]
            v = np.concatenate((np.zeros_like(a[..., :step, step]), np.ones_like(t[..., :1]), below), -1)
            orthogonal -= (t[..., step, None] * v)[..., None] * (v.conj()[..., None, :] @ orthogonal)
        return orthogonal

    return in_precision(product, A, tau)


@householder_product.samples
def householder_product_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 4, 3), normal(rng, 2, 2), domain="spread")


ormqr = host(
    "ormqr(Tensor input, Tensor tau, Tensor other, bool left=True, bool transpose=False) -> Tensor",
    "A matrix times the product of Householder reflectors, or its adjoint, from the left or the right.",
    variants="function method out",
)


@ormqr.decompose
def ormqr_decompose(input: Value, tau: Value, other: Value, left: bool, transpose: bool) -> Value:
    require_matrix("ormqr", TensorType(input.shape, input.dtype))
    require(other.ndim == input.ndim, "S002", "ormqr: operands differ in dims", input=input.shape, other=other.shape)
    fits = same_size(input.shape[-2], other.shape[-2 if left else -1])
    require(fits, "S003", "ormqr: input and other have sizes that do not fit", input=input.shape, other=other.shape)
    vectors, middle = _reflectors("ormqr", input, tau)
    middle = adjoint_of(middle) if transpose else middle
    if left:
        return other - matmul(vectors, matmul(middle, matmul(adjoint_of(vectors), other)))
    return other - matmul(matmul(matmul(other, vectors), middle), adjoint_of(vectors))


@ormqr.ref
def ormqr_ref(input: Array, tau: Array, other: Array, left: bool, transpose: bool) -> Array:
    def product(a: Array, t: Array, b: Array) -> Array:
        m = a.shape[-2]
        padded = np.concatenate((a, np.zeros((*a.shape[:-1], m - a.shape[-1]), a.dtype)), -1)
        q = householder_product_ref(padded, t)
        q = adjoint_array(q) if transpose else q
        return q @ b if left else b @ q

    return in_precision(product, input, tau, other)


@ormqr.samples
def ormqr_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 4, 3), normal(rng, 2, 2), normal(rng, 2, 5, 4), False, True, domain="spread")


geqrf = host(
    "geqrf(Tensor input) -> (Tensor a, Tensor tau)",
    "LAPACK's form of a QR factorisation: R above the Householder vectors, and the vectors' factors.",
    variants="function method",
    facts=Fact.NONDIFFERENTIABLE,
)


@geqrf.meta
def geqrf_meta(input: TensorType) -> tuple[TensorType, TensorType]:
    require_matrix("geqrf", input, "input")
    return like(input, input.shape), like(input, (*input.shape[:-2], minimum(*input.shape[-2:])))


@geqrf.ref
def geqrf_ref(input: Array) -> tuple[Array, Array]:
    def factored(array: Array) -> tuple[Array, Array]:
        h, tau = LAPACK.qr(array, mode="raw")
        return np.swapaxes(h, -1, -2).copy(), tau

    return in_precision(factored, input)


@geqrf.samples
def geqrf_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 4, 3), domain="full_rank")
