"""Norms of vectors and matrices, condition numbers, ranks and pseudo-inverses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import element_type, fixed_integers, required_tensor
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import written
from rushlight.eager.tensor import Tensor
from rushlight.eager.tracing import TracedNumber
from rushlight.ir.dtype import DType, Kind, float64, real_dtype
from rushlight.ops.dims import wrap_dim
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "pinv", "vector_norm"]

_PINV = OPERATORS["pseudo_inverse"]
INFINITY = float("inf")


def _in_dtype(tensor: Tensor, dtype: DType | None, op: str) -> Tensor:
    if dtype is None:
        floating = tensor.dtype.kind >= Kind.FLOAT
        require(floating, "D001", f"{op}: the dtype must be floating-point or complex", input=tensor)
        return tensor
    fits = dtype.is_floating_point or dtype.is_complex
    require(fits, "D001", f"{op}: dtype must be floating-point or complex", dtype=dtype)
    require(
        dtype.is_complex == tensor.is_complex(),
        "D001",
        f"{op}: dtype must be complex as the input is, or not",
        dtype=dtype,
    )
    require(
        dtype.itemsize >= tensor.dtype.itemsize, "D001", f"{op}: dtype must not be narrower than the input", dtype=dtype
    )
    return tensor.to(dtype)


@checked
def vector_norm(
    x: object, ord: float = 2, dim: object = None, keepdim: bool = False, *, dtype: object = None, out: object = None
) -> Tensor:
    """Return the `ord`-norm of elements, along dims or of all."""
    tensor = _in_dtype(required_tensor(x), element_type(dtype), "linalg.vector_norm")
    order = _number(ord, "linalg.vector_norm")
    dims = fixed_integers(dim)
    if order < 0 or order == INFINITY:
        _require_elements(tensor, dims)
    magnitude = tensor.abs() if tensor.is_complex() else tensor
    return written(ops.linalg_vector_norm(magnitude, order, dims, keepdim), out)


def _require_elements(tensor: Tensor, dims: Sequence[int] | None) -> None:
    chosen = range(tensor.ndim) if not dims else [wrap_dim(dim, tensor.ndim, "linalg.vector_norm") for dim in dims]
    empty = any(tensor.shape[dim] == 0 for dim in chosen) if tensor.ndim else False
    require(not empty, "S004", "linalg.vector_norm: this norm of no elements is not defined", input=tensor)


def _number(order: Any, op: str) -> float:
    number = order.item() if isinstance(order, TracedNumber) else order
    numeric = isinstance(number, (int, float)) and not isinstance(number, bool)
    require(numeric, "A001", f"{op}: the order is a number", ord=order)
    return float(number)


@checked
def matrix_norm(
    A: object,
    ord: object = "fro",
    dim: object = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: object = None,
    out: object = None,
) -> Tensor:
    """Return a norm of matrices in two dims: 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2."""
    tensor = _in_dtype(required_tensor(A), element_type(dtype), "linalg.matrix_norm")
    dims = fixed_integers(dim)
    require(dims is not None and len(dims) == 2, "A004", "linalg.matrix_norm: dim must be two dims", dim=dim)
    require(tensor.ndim >= 2, "S002", "linalg.matrix_norm: the input must have at least 2 dims", input=tensor)
    rows, columns = [wrap_dim(axis, tensor.ndim, "linalg.matrix_norm") for axis in dims or ()]
    require(rows != columns, "A004", "linalg.matrix_norm: the two dims must differ", dim=dim)
    return written(_matrix_norm(tensor, ord, (rows, columns), keepdim), out)


def _matrix_norm(tensor: Tensor, order: object, dims: tuple[int, int], keepdim: bool) -> Tensor:
    magnitude = tensor.abs() if tensor.is_complex() else tensor
    if order == "fro":
        return ops.linalg_vector_norm(magnitude, 2, dims, keepdim)
    if order in ("nuc", 2, -2):
        return _spectral_norm(tensor, order, dims, keepdim)
    number = 0.0 if isinstance(order, str) else _number(order, "linalg.matrix_norm")
    valid = abs(number) in (1, INFINITY)
    require(valid, "A004", f"linalg.matrix_norm: the order {order!r} is not supported", ord=order)
    summed, chosen = dims if abs(number) == 1 else dims[::-1]
    if not keepdim and chosen > summed:
        chosen -= 1
    sums = ops.linalg_vector_norm(magnitude, 1, (summed,), keepdim)
    return _extreme(sums, chosen, keepdim, number > 0)


def _extreme(values: Tensor, dim: int, keepdim: bool, largest: bool) -> Tensor:
    """The largest value, 0 of none as in PyTorch, or the smallest."""
    if values.shape[dim] == 0:
        require(largest, "S004", "linalg.matrix_norm: this norm of an empty matrix is not defined", values=values)
        return values.sum(dim, keepdim)
    return values.amax(dim, keepdim) if largest else values.amin(dim, keepdim)


def _spectral_norm(tensor: Tensor, order: object, dims: tuple[int, int], keepdim: bool) -> Tensor:
    values = ops.linalg_svdvals(tensor.movedim(dims, (-2, -1)))
    if order == "nuc":
        norm = values.sum(-1)
    else:
        norm = _extreme(values, -1, False, order == 2)
    for dim in sorted(dims) if keepdim else ():
        norm = norm.unsqueeze(dim)
    return norm


@checked
def norm(
    A: object, ord: Any = None, dim: object = None, keepdim: bool = False, *, out: object = None, dtype: Any = None
) -> Tensor:
    """Return a norm of all elements, or with `ord` or `dim` of vectors (one dim) or matrices (two)."""
    tensor = required_tensor(A)
    dims = fixed_integers(dim)
    if dims is not None:
        require(len(dims) in (1, 2) or ord is None, "A004", "linalg.norm: dim must be one dim or two", dim=dim)
    elif ord is not None:
        require(tensor.ndim in (1, 2), "S002", "linalg.norm: with ord and no dim, 1 or 2 dims are needed", input=tensor)
    if ord is not None and (len(dims) == 2 if dims is not None else tensor.ndim == 2):
        return matrix_norm(tensor, ord, dims or (-2, -1), keepdim, dtype=dtype, out=out)
    if isinstance(ord, str):
        fail("A004", f"linalg.norm: the order {ord!r} is of matrices", dim=dim)
    return vector_norm(tensor, 2 if ord is None else ord, dims, keepdim, dtype=dtype, out=out)


@autocasts("float32")
@checked
def cond(A: object, p: object = None, *, out: object = None) -> Tensor:
    """Return the condition numbers of matrices: the norm times that of the inverse, or a ratio of singular values."""
    tensor = required_tensor(A)
    require(tensor.ndim >= 2, "S002", "linalg.cond: the input must have at least 2 dims", A=tensor)
    valid = p in (None, "fro", "nuc", 1, -1, 2, -2, INFINITY, -INFINITY)
    require(valid, "A004", f"linalg.cond: the order {p!r} is not supported", p=p)
    if p in (None, 2, -2):
        values = ops.linalg_svdvals(tensor)
        first, last = values.select(-1, 0), values.select(-1, values.shape[-1] - 1)
        return written(last / first if p == -2 else first / last, out)
    square = tensor.shape[-1] == tensor.shape[-2]
    require(square, "S002", "linalg.cond: for this norm the matrices must be square", A=tensor)
    if tensor.numel() == 0:
        real = ops.zeros(tensor.shape[:-2], dtype=real_dtype(tensor.dtype))
        return written(real, out)
    inverse, info = ops.linalg_inv_ex(tensor)
    product = matrix_norm(tensor, p) * matrix_norm(inverse, p)
    return written(ops.where(info > 0, INFINITY, product), out)


@autocasts("float32")
@checked
def matrix_rank(
    A: object,
    tol: object = None,
    hermitian: bool = False,
    *,
    atol: object = None,
    rtol: object = None,
    out: object = None,
) -> Tensor:
    """Return how many singular values, or eigenvalues, are above max(atol, rtol * the largest)."""
    tensor = required_tensor(A)
    require(tensor.ndim >= 2, "S002", "linalg.matrix_rank: the input must have at least 2 dims", A=tensor)
    if tol is not None:
        atol, rtol = tol, 0.0
    values = ops.linalg_eigvalsh(tensor).abs() if hermitian else ops.linalg_svdvals(tensor)
    if 0 in tensor.shape[-2:]:
        return written(values.sum(-1).to(ops.zeros(0).long().dtype), out)
    for given in (atol, rtol):
        is_complex = isinstance(given, Tensor) and given.is_complex()
        require(not is_complex, "D001", "linalg.matrix_rank: tolerances are real", tolerance=given)
    relative = _relative(tensor, atol, rtol)
    threshold = values.amax(-1, True) * _column(relative)
    if atol is not None:
        threshold = ops.maximum(threshold, _column(atol) * ops.ones_like(threshold))
    return written((values > threshold).sum(-1), out)


def _column(tolerance: object) -> Any:
    return tolerance.unsqueeze(-1) if isinstance(tolerance, Tensor) else tolerance


def _relative(tensor: Tensor, atol: Any, rtol: Any) -> Any:
    if rtol is not None:
        return rtol
    eps = 2.0**-52 if real_dtype(tensor.dtype) is float64 else 2.0**-23
    default = eps * max(tensor.shape[-2:])
    if isinstance(atol, Tensor):
        return ops.where(atol > 0, 0.0, default)
    return 0.0 if atol is not None and atol > 0 else default


@checked
def pinv(
    A: object,
    rcond: object = None,
    hermitian: bool = False,
    *,
    atol: object = None,
    rtol: object = None,
    out: object = None,
) -> Tensor:
    """Return the Moore-Penrose inverses; singular values up to max(atol, rtol * the largest) count as 0."""
    tensor = required_tensor(A)
    require(rcond is None or rtol is None, "A004", "linalg.pinv: rcond is the earlier name of rtol: give one")
    for given in (atol, rtol, rcond):
        is_complex = isinstance(given, Tensor) and given.is_complex()
        require(not is_complex, "D001", "linalg.pinv: tolerances are real", tolerance=given)
    return written(_PINV(tensor, atol, rtol if rcond is None else rcond, bool(hermitian)), out)
