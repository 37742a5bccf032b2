"""Products over dims, factors under their earlier names, low rank, and some of the eigenpairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, fixed_integers, flag, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import with_out, written
from rushlight.eager.handle import Handle
from rushlight.eager.random import randn
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

# Factorisations with several results.
geqrf, lu_unpack, qr = with_out(ops.geqrf), with_out(ops.lu_unpack), with_out(ops.qr)
svd, triangular_solve = with_out(ops.svd), with_out(ops.triangular_solve)


@with_out
def tensordot(a: Tensor, b: Tensor, dims: object = 2) -> Tensor:
    """Return the sums of products over dims of `a` and `b`.

    `dims` is how many of the last ones of `a` and the first ones of `b`, or a list of dims of each.
    """
    left, right = required_tensor(a), required_tensor(b)
    if isinstance(dims, Handle):
        given: Any = dims
        dims = given.tolist() if given.ndim else given.item()
    if isinstance(dims, (tuple, list)):
        require(len(dims) == 2, "A004", "tensordot: dims is a number, or a list of dims of each operand", dims=dims)
        first, second = [fixed_integers(side if isinstance(side, (tuple, list)) else (side,)) or () for side in dims]
        return OPERATORS["tensordot_dims"](left, right, first, second)
    count = fixed_integer(dims)
    fits = 0 <= count <= min(left.ndim, right.ndim)
    require(fits, "A004", "tensordot: there are not so many dims", dims=count, a=left, b=right)
    return OPERATORS["tensordot_dims"](left, right, tuple(range(left.ndim - count, left.ndim)), tuple(range(count)))


class LowRank(NamedTuple):
    """The results of `svd_lowrank` and `pca_lowrank`: the input is about U diag(S) V^H."""

    U: Any
    S: Any
    V: Any


@checked
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> LowRank:
    """Return the `q` largest singular values of A - M with their vectors, nearly (Halko et al. 2009, algorithm 5.1)."""
    matrix = required_tensor(A) if M is None else required_tensor(A) - M
    rank = 6 if q is None else fixed_integer(q)
    rounds = 2 if niter is None else fixed_integer(niter)
    require(matrix.ndim >= 2, "S002", "svd_lowrank: the input must have at least 2 dims", A=matrix)
    wide = matrix.shape[-2] < matrix.shape[-1]
    tall = adjoint(matrix) if wide else matrix
    basis = _range_of(tall, rank, rounds)
    u, s, vh = ops.linalg_svd(adjoint(basis) @ tall, full_matrices=False)
    outer, inner = basis @ u, adjoint(vh)
    return LowRank(inner, s, outer) if wide else LowRank(outer, s, inner)


def _range_of(tall: Tensor, rank: int, rounds: int) -> Tensor:
    """An orthonormal basis of about the range, from products with random vectors (algorithm 4.4)."""
    fits = 0 <= rank <= min(tall.shape[-2:]) and rounds >= 0
    require(fits, "A002", "q is at most the smaller size, and niter not negative", q=rank, niter=rounds, A=tall)
    drawn: Any = randn(tall.shape[-1], rank, dtype=tall.dtype, device=tall.device)
    basis = ops.linalg_qr(tall @ drawn)[0]
    for _ in range(rounds):
        basis = ops.linalg_qr(adjoint(tall) @ basis)[0]
        basis = ops.linalg_qr(tall @ basis)[0]
    return basis


@checked
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> LowRank:
    """Return the `q` first principal components of rows, nearly.

    `q` is by default 6, or the smaller size; with `center` each column loses its mean first.
    """
    matrix = required_tensor(A)
    require(matrix.ndim >= 2, "S002", "pca_lowrank: the input must have at least 2 dims", A=matrix)
    rank = min(6, *matrix.shape[-2:]) if q is None else fixed_integer(q)
    fits = 0 <= rank <= min(matrix.shape[-2:])
    require(fits, "A002", "pca_lowrank: q is 0 to the smaller size", q=rank, A=matrix)
    return svd_lowrank(matrix - matrix.mean(-2, True) if flag(center) else matrix, rank, niter)


@checked
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: object = None,
    ortho_iparams: object = None,
    ortho_fparams: object = None,
    ortho_bparams: object = None,
) -> tuple[Tensor, Tensor]:
    """Return the `k` largest, or smallest, eigenvalues of A x = e B x in order, and their vectors.

    A is symmetric and B positive definite. PyTorch approaches the eigenpairs from X by steps; here they are those of
    the factorisation as a whole, to which all numbers of steps, first guesses and preconditioners lead. A tracker,
    which would see the steps, is refused (A006).
    """
    matrix = required_tensor(A)
    square = matrix.ndim >= 2 and matrix.shape[-1] == matrix.shape[-2]
    require(square, "S002", "lobpcg: A must be a square matrix, or a batch of them", A=matrix)
    require(tracker is None, "A006", "lobpcg: there are no steps that a tracker could follow", tracker=tracker)
    methods = (None, "basic", "ortho")
    require(method in methods, "A002", "lobpcg: method is 'basic' or 'ortho'", method=method)
    count = fixed_integer(k) if k is not None else 1 if X is None else required_tensor(X).shape[-1]
    fits = count >= 1 and 3 * count <= matrix.shape[-1]
    require(fits, "A002", "lobpcg: A has at least three rows for each eigenpair", k=count, A=matrix)
    downwards = largest is None or flag(largest)
    matrix = (matrix + matrix.mT) / 2
    if B is None:
        values, vectors = ops.linalg_eigh(matrix)
    else:
        # With B = L L^T these are the eigenpairs of L^-1 A L^-T, whose vectors are L^T x.
        factor = ops.linalg_cholesky((required_tensor(B) + required_tensor(B).mT) / 2)
        left = ops.linalg_solve_triangular(factor, matrix, upper=False)
        values, vectors = ops.linalg_eigh(ops.linalg_solve_triangular(factor, left.mT, upper=False))
        vectors = ops.linalg_solve_triangular(factor.mT, vectors, upper=True)
    if not downwards:
        return values[..., :count], vectors[..., :count]
    return values[..., -count:].flip(-1), vectors[..., -count:].flip(-1)


@with_out
def chain_matmul(*matrices: Tensor) -> Tensor:
    """Return the product of matrices, in the order of least work."""
    parts = [required_tensor(matrix) for matrix in matrices]
    require(parts, "A003", "chain_matmul: at least one matrix is needed")
    for matrix in parts:
        require(matrix.ndim == 2, "S002", "chain_matmul: matrices are needed", matrix=matrix)
    return chain_product(parts, "chain_matmul")


def chain_product(parts: Sequence[Any], op: str) -> Any:
    """The product of matrices, in the order of least work."""
    for one, two in pairwise(parts):
        require(one.shape[1] == two.shape[0], "S003", f"{op}: inner sizes differ", a=one, b=two)
    splits = _splits([int(part.shape[0]) for part in parts] + [int(parts[-1].shape[1])])
    return _product(parts, splits, 0, len(parts))


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where each range of matrices is split, by dynamic programming over numbers of multiplications."""
    count = len(sizes) - 1
    cost = {(at, at + 1): 0 for at in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for start in range(count - length + 1):
            end = start + length
            work = {
                middle: cost[start, middle] + cost[middle, end] + sizes[start] * sizes[middle] * sizes[end]
                for middle in range(start + 1, end)
            }
            splits[start, end] = min(work, key=lambda middle: work[middle])
            cost[start, end] = work[splits[start, end]]
    return splits


def _product(parts: Sequence[object], splits: dict[tuple[int, int], int], start: int, end: int) -> Any:
    if end - start == 1:
        return parts[start]
    middle = splits[start, end]
    return _product(parts, splits, start, middle) @ _product(parts, splits, middle, end)


@checked
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> tuple[Tensor, ...]:
    """Return the factors of A = P L U in one matrix and the rows exchanged.

    With `get_infos` also which pivot is 0.
    """
    factors = tuple(ops.linalg_lu_factor_ex(required_tensor(A), pivot=flag(pivot)))
    factors = factors if flag(get_infos) else factors[:2]
    return written(factors, out)


@checked
def adjoint(input: Tensor) -> Tensor:
    """Return matrices with rows and columns exchanged, complex ones conjugated."""
    require(required_tensor(input).ndim >= 2, "S002", "adjoint: the input must have at least 2 dims", input=input)
    turned = ops.transpose(input, -2, -1)
    return ops.conj(turned) if input.is_complex() else turned


@checked
def conjugate_transpose(input: Tensor) -> Tensor:
    """Return a matrix with rows and columns exchanged, a complex one conjugated."""
    require(input.ndim in (0, 2), "S002", "H: the input must be a matrix", input=input, hint="use .mH for batches")
    turned = ops.transpose(input, 0, 1) if input.ndim else input
    return ops.conj(turned) if input.is_complex() else turned


@with_out
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """Return the products of all pairs of elements of two vectors: the earlier name of `outer`."""
    return ops.outer(input, vec2)
