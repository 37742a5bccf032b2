"""Least squares, factorisations under their plain names, and equations between tensors."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, fixed_integers, required_tensor
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import with_out, written
from rushlight.eager.composite.low_rank import chain_product
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import float64, int64, real_dtype
from rushlight.linalg.norms import pinv
from rushlight.support.errors import require

__all__ = ["ldl_factor", "lstsq", "lu", "lu_factor", "multi_dot", "tensorinv", "tensorsolve", "vander"]


class Factors(NamedTuple):
    """The results of `lu_factor`."""

    LU: Tensor
    pivots: Tensor


class Unpacked(NamedTuple):
    """The results of `lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


class Symmetric(NamedTuple):
    """The results of `ldl_factor`."""

    LD: Tensor
    pivots: Tensor


class LeastSquares(NamedTuple):
    """The results of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@checked
def lu_factor(A: object, *, pivot: bool = True, out: object = None) -> Factors:
    """Return the factors of A = P L U in one matrix, and the rows exchanged; R007 where a pivot is 0."""
    packed, pivots, _ = ops.linalg_lu_factor_ex(required_tensor(A), pivot=pivot, check_errors=True)
    return Factors(*written((packed, pivots), out))


@checked
def lu(A: object, *, pivot: bool = True, out: object = None) -> Unpacked:
    """Return P, L and U of A = P L U; an empty P unless `pivot`."""
    packed, pivots, _ = ops.linalg_lu_factor_ex(required_tensor(A), pivot=pivot)
    return Unpacked(*written(tuple(ops.lu_unpack(packed, pivots, True, pivot)), out))


@checked
def ldl_factor(A: object, *, hermitian: bool = False, out: object = None) -> Symmetric:
    """Return the factors of symmetric, or Hermitian, A = L D L^T in one matrix, and the rows exchanged."""
    packed, pivots, _ = ops.linalg_ldl_factor_ex(required_tensor(A), hermitian=hermitian, check_errors=True)
    return Symmetric(*written((packed, pivots), out))


@autocasts("float32")
@with_out
def lstsq(A: object, B: object, rcond: object = None, *, driver: object = None) -> LeastSquares:
    """Return X of the least |A X - B|, the squares of what is left, the ranks and the singular values.

    Drivers differ in what they compute besides: 'gelsy' the ranks alone, 'gelss' and 'gelsd' everything, and 'gels',
    which takes A to have full rank, the residuals. What is not computed is empty.
    """
    a, b = required_tensor(A), required_tensor(B)
    require(driver in (None, "gels", "gelsy", "gelsd", "gelss"), "A004", f"linalg.lstsq: there is no driver {driver!r}")
    require(a.ndim >= 2, "S002", "linalg.lstsq: A must have at least 2 dims", A=a)
    require(b.ndim >= 1, "S002", "linalg.lstsq: B must have at least 1 dim", B=b)
    require(a.dtype is b.dtype, "D002", "linalg.lstsq: operands differ in dtype", A=a, B=b)
    close = b.ndim in (a.ndim - 1, a.ndim)
    require(close, "S002", "linalg.lstsq: B must have as many dims as A, or one less", A=a, B=b)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and tuple(b.shape) == tuple(a.shape[:-1]))
    right = b.unsqueeze(-1) if vector else b
    m, n = a.shape[-2:]
    require(right.shape[-2] == m, "S003", "linalg.lstsq: A and B differ in rows", A=a, B=b)
    eps = 2.0**-52 if real_dtype(a.dtype) is float64 else 2.0**-23
    relative = eps * max(m, n) if rcond is None else rcond
    name = driver or "gelsy"
    solution = pinv(a, rtol=0.0 if name == "gels" else relative) @ right
    real = real_dtype(a.dtype)
    nothing, ranks = ops.zeros(0, dtype=real), ops.zeros(0, dtype=int64)
    values = nothing
    if name != "gels":
        singular_values = ops.linalg_svdvals(a.detach())
        largest = singular_values.amax(-1, True) if 0 not in a.shape[-2:] else singular_values
        ranks = (singular_values > largest * relative).sum(-1)
        values = singular_values if name in ("gelsd", "gelss") else nothing
    residuals = nothing
    if m > n and name != "gelsy" and (name == "gels" or bool((ranks == n).all())):
        rest = a @ solution - right
        residuals = (rest.abs() ** 2 if rest.is_complex() else rest * rest).sum(-2)
    return LeastSquares(solution.squeeze(-1) if vector else solution, residuals, ranks, values)


@checked
def multi_dot(tensors: Any, *, out: object = None) -> Tensor:
    """Return the product of several matrices, in the order of least work; the ends may be vectors."""
    parts = [required_tensor(tensor) for tensor in tensors]
    require(len(parts) >= 2, "A004", "linalg.multi_dot: at least two tensors are needed")
    for position, part in enumerate(parts):
        ends = position in (0, len(parts) - 1)
        fits = part.ndim == 2 or (ends and part.ndim == 1)
        require(fits, "S002", "linalg.multi_dot: the tensors are matrices, and at the ends vectors", tensor=part)
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = parts[0].unsqueeze(0) if first else parts[0]
    parts[-1] = parts[-1].unsqueeze(-1) if last else parts[-1]
    product = chain_product(parts, "linalg.multi_dot")
    product = product.squeeze(-1) if last else product
    return written(product.squeeze(0) if first else product, out)


@autocasts("float32")
@checked
def tensorinv(A: object, ind: object = 2, *, out: object = None) -> Tensor:
    """Return the inverse for `tensordot` over the first `ind` dims."""
    tensor, count = required_tensor(A), fixed_integer(ind)
    require(count > 0, "A004", "linalg.tensorinv: ind must be positive", ind=ind)
    first, last = tuple(tensor.shape[:count]), tuple(tensor.shape[count:])
    rows, columns = prod(first), prod(last)
    require(rows == columns, "S003", "linalg.tensorinv: the first dims and the others differ in size", A=tensor)
    return written(ops.linalg_inv(tensor.reshape(rows, columns)).reshape(*last, *first), out)


@autocasts("float32")
@checked
def tensorsolve(A: object, B: object, dims: object = None, *, out: object = None) -> Tensor:
    """Return X of tensordot(A, X, X.ndim) = B, `dims` of A moved to the end first."""
    a, b = required_tensor(A), required_tensor(B)
    moved = fixed_integers(dims)
    if moved is not None:
        a = a.movedim(moved, tuple(range(a.ndim - len(moved), a.ndim)))
    shape = tuple(a.shape[b.ndim :])
    size = prod(tuple(b.shape))
    # As in PyTorch the first dims may be others than B's: what counts is how many elements they have.
    fits = size == prod(shape) == prod(tuple(a.shape[: b.ndim]))
    require(fits, "S003", "linalg.tensorsolve: A does not fit B", A=a, B=b)
    return written(ops.linalg_solve(a.reshape(size, size), b.reshape(size)).reshape(shape), out)


@checked
def vander(x: object, *, N: object = None) -> Tensor:
    """Return the powers 0 to N - 1 of elements, in rows; N is by default the number of elements."""
    tensor = required_tensor(x)
    require(tensor.ndim or N is not None, "S002", "linalg.vander: an input without dims needs N", x=tensor)
    count = tensor.shape[-1] if N is None else fixed_integer(N)
    require(count > 1, "A004", "linalg.vander: N must be greater than 1", N=N)
    tensor = tensor if tensor.ndim else tensor.reshape(1)
    powers = [ops.ones_like(tensor)]
    for _ in range(int(count) - 1):
        powers.append(powers[-1] * tensor)
    return ops.stack(powers, -1)
