"""Products with sparse matrices: values times gathered rows, added up at their rows."""

from __future__ import annotations

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fail, required_tensor
from rushlight.eager.creation import arange, zeros
from rushlight.eager.sparse.tensor import SparseTensor, sparse
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require


def join(left: Tensor, right: Tensor) -> tuple[Any, Any]:
    """Where elements of two vectors are equal: for each pair the place in the left one and in the right one."""
    order = right.argsort()
    ordered = right[order]
    first = ops.searchsorted(ordered, left.contiguous())
    counts = ops.searchsorted(ordered, left.contiguous(), right=True) - first
    chosen = arange(left.shape[0]).repeat_interleave(counts)
    begun = ops.cumsum(counts, 0) - counts
    within = arange(chosen.shape[0]) - begun[chosen]
    return chosen, order[first[chosen] + within]


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product of two tensors, of which one is sparse: dense, or sparse where both are."""
    for one in (a, b):
        plain = not isinstance(required_tensor(one), SparseTensor) or one.dense_dim() == 0
        require(plain and one.ndim <= 2, "A006", "matmul: sparse matrices and vectors are supported", input=one)
    fits = a.ndim == 2 and b.ndim >= 1 and a.shape[1] == b.shape[0]
    require(fits, "S003", "matmul: inner sizes differ", a=a, b=b)
    require(a.dtype is b.dtype, "D002", "matmul: operands differ in dtype", a=a, b=b)
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return _sparse_product(a, b)
    if isinstance(b, SparseTensor):
        return multiply(b.t(), a.t()).t()
    if not isinstance(a, SparseTensor):
        fail("A001", "matmul: a sparse tensor is expected", a=a, b=b)
    return _product(a, b) if b.ndim == 2 else _product(a, b.unsqueeze(1)).squeeze(1)


def _product(a: SparseTensor, b: Tensor) -> Tensor:
    rows, columns = a.places
    terms = ops.index_select(b, 0, columns) * a.kept.unsqueeze(1)
    return ops.index_add(zeros(a.shape[0], b.shape[1], dtype=b.dtype), 0, rows, terms)


def _sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    require(b.ndim == 2, "S002", "matmul: two sparse matrices are expected", a=a, b=b)
    first, second = join(a.places[1], b.places[0])
    places = ops.stack((a.places[0][first], b.places[1][second]))
    product = sparse(places, a.kept[first] * b.kept[second], (a.shape[0], b.shape[1])).coalesce()
    return product.to_sparse(layout=a.layout)
