"""Sparse tensors by coordinates (COO), compressed rows (CSR) or columns (CSC), as `torch.sparse`.

>>> import rushlight as rl
>>> adjacency = rl.sparse_coo_tensor([[0, 1, 1], [1, 0, 2]], [1.0, 1.0, 2.0], (3, 3))
>>> rl.sparse.mm(adjacency, rl.ones(3, 1)).flatten()
tensor([1., 3., 0.])
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NoReturn, Self

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, fixed_integers, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.creation import arange, full, zeros
from rushlight.eager.sparse.making import sparse_coo_tensor
from rushlight.eager.sparse.product import multiply
from rushlight.eager.sparse.rules import sparse_addmm, sparse_sum
from rushlight.eager.sparse.tensor import SparseTensor, sparse
from rushlight.eager.storage.formats import StorageLayout, sparse_coo
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8
from rushlight.ops import OPERATORS
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = [
    "BFloat16Tensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "addmm",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]


def _sparse(name: str, value: Any) -> SparseTensor:
    if not isinstance(required_tensor(value), SparseTensor):
        fail("A001", f"{name}: a sparse tensor is expected", input=value)
    return value


@checked
def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """Return the product of a sparse matrix and a dense one, dense; of two sparse ones, sparse.

    With `reduce`, sum, mean, amax or amin, the terms of each element are reduced so; a mean is divided by their number.
    Errors: S003, D002.
    """
    if reduce in (None, "sum"):
        return multiply(mat1, mat2)
    require(reduce in ("mean", "amax", "amin"), "A002", "sparse.mm: reduce is sum, mean, amax or amin", given=reduce)
    matrix = _sparse("sparse.mm", mat1)
    fits = mat2.ndim == 2 and matrix.ndim == 2 and matrix.shape[1] == mat2.shape[0]
    require(fits, "S003", "sparse.mm: inner sizes differ", mat1=mat1, mat2=mat2)
    rows, columns = matrix.places
    terms = ops.index_select(mat2, 0, columns) * matrix.kept.unsqueeze(1)
    begun = zeros(matrix.shape[0], mat2.shape[1], dtype=mat2.dtype)
    places = rows.unsqueeze(1).expand(terms.shape)
    return ops.scatter_reduce(begun, 0, places, terms, reduce, include_self=False)


spmm = dsmm = mm


@checked
def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Return `beta * mat + alpha * (mat1 @ mat2)` of a sparse `mat1`."""
    return sparse_addmm(mat, mat1, mat2, beta, alpha)


@checked
def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> SparseTensor:
    """Return `beta * input + alpha * (mat1 @ mat2)` at the places of a sparse input alone."""
    at = _sparse("sparse.sampled_addmm", input)
    fits = mat1.ndim == mat2.ndim == 2 and mat1.shape[1] == mat2.shape[0]
    fits = fits and tuple(at.shape) == (mat1.shape[0], mat2.shape[1])
    require(fits, "S003", "sparse.sampled_addmm: sizes differ", input=input, mat1=mat1, mat2=mat2)
    rows, columns = at.places
    products = ops.sum(mat1[rows] * mat2.t()[columns], -1)
    return at.with_values(at.kept * beta + products * alpha)


@checked
def sum(input: Tensor, dim: Any = None, dtype: object = None) -> Tensor:
    """Return the sum of all elements, dense; or along dims, sparse as far as sparse dims are left."""
    return sparse_sum(_sparse("sparse.sum", input), fixed_integers(dim), dtype=dtype)


@checked
def softmax(input: Tensor, dim: int, *, dtype: object = None) -> SparseTensor:
    """Return the softmax along a dim over stored elements: those that are not stored count as negative infinity."""
    return _softmax("softmax", input, dim, dtype)


@checked
def log_softmax(input: Tensor, dim: int, *, dtype: object = None) -> SparseTensor:
    """Return the logarithm of `softmax`."""
    return _softmax("log_softmax", input, dim, dtype)


def _softmax(name: str, input: Tensor, dim: int, dtype: Any) -> SparseTensor:
    at = _sparse(f"sparse.{name}", input).coalesce()
    values = at.kept if dtype is None else at.kept.to(dtype)
    along, count = wrap_dim(fixed_integer(dim), at.ndim, name), at.sparse_dim()
    if along >= count:
        function = ops.softmax if name == "softmax" else ops.log_softmax
        return at.with_values(function(values, along - count + 1))
    others = [row for position, row in enumerate(at.places) if position != along]
    sizes = [size for position, size in enumerate(at.shape[:count]) if position != along]
    keys: Tensor = zeros(values.shape[0], dtype=int64)
    for row, size in zip(others, sizes, strict=True):
        keys = keys * size + row
    groups, group, _ = OPERATORS["distinct"](keys)
    shape = (groups.shape[0], *values.shape[1:])
    spread = group.reshape((-1,) + (1,) * (values.ndim - 1)).expand(values.shape)
    lowest = full(shape, float("-inf"), dtype=values.dtype)
    highest = ops.scatter_reduce(lowest, 0, spread, values.detach(), "amax")
    shifted = values - highest[group]
    powers = ops.exp(shifted)
    totals = ops.index_add(zeros(shape, dtype=values.dtype), 0, group, powers)[group]
    return at.with_values(powers / totals if name == "softmax" else shifted - ops.log(totals))


@checked
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: StorageLayout | None = None) -> SparseTensor:
    """Return a sparse matrix with the rows of `diagonals` on its diagonals.

    `offsets` says how far each is above the main one. An element stands in the column of its place in the row, as in
    SciPy.
    """
    rows = diagonals if required_tensor(diagonals).ndim == 2 else diagonals.unsqueeze(0)
    distances = required_tensor(offsets).reshape(-1).tolist()
    require(len(distances) == rows.shape[0], "S014", "spdiags: one offset for each diagonal", offsets=offsets)
    require(len(set(distances)) == len(distances), "A002", "spdiags: an offset occurs twice", offsets=offsets)
    height, width = [fixed_integer(size) for size in shape]
    places: list[Any] = [zeros(2, 0, dtype=int64)]
    values: list[Any] = [rows[:0].reshape(-1)]
    for row, distance in zip(rows, distances, strict=True):
        low, high = max(0, distance), max(min(width, height + distance, rows.shape[1]), max(0, distance))
        columns = arange(low, high)
        places.append(ops.stack((columns - distance, columns)))
        values.append(row[low:high])
    matrix = sparse(ops.cat(places, 1), ops.cat(values), (height, width))
    return matrix if layout in (None, sparse_coo) else matrix.to_sparse(layout=layout)


def spsolve(input: object, other: object, *, left: bool = True) -> NoReturn:
    """Refused with A006: sparse systems are not solved."""
    fail("A006", "sparse.spsolve: sparse systems are not solved", hint="rl.linalg.solve(x.to_dense(), b)")


class check_sparse_tensor_invariants:  # noqa: N801 - PyTorch's name
    """A scope or decorator in which new sparse tensors are checked, as they always are."""

    def __init__(self, enable: bool = True) -> None:
        self.enabled = enable

    @staticmethod
    def is_enabled() -> bool:
        """True."""
        return True

    @staticmethod
    def enable() -> None:
        """Nothing changes."""

    @staticmethod
    def disable() -> None:
        """Nothing changes: checks stay."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def __call__(self, function: Any) -> Tensor:
        """The function itself."""
        return function


class _Constructor:
    """PyTorch's older constructors: of indices, values and a size."""

    def __init__(self, dtype: DType) -> None:
        self._dtype = dtype

    def __call__(self, *args: Any) -> SparseTensor:
        """A sparse tensor of coordinates, `FloatTensor(indices, values, size)`, or an empty one of sizes."""
        if len(args) >= 2 and not isinstance(args[0], int):
            return sparse_coo_tensor(*args, dtype=self._dtype)
        sizes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return sparse_coo_tensor(size=tuple(sizes), dtype=self._dtype)


FloatTensor, DoubleTensor, HalfTensor = _Constructor(float32), _Constructor(float64), _Constructor(float16)
BFloat16Tensor, ByteTensor, CharTensor = _Constructor(bfloat16), _Constructor(uint8), _Constructor(int8)
ShortTensor, IntTensor, LongTensor = _Constructor(int16), _Constructor(int32), _Constructor(int64)


def __getattr__(name: str) -> Tensor:
    raise absent_name(__name__, name, __all__)
