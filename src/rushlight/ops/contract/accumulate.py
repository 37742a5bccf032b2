"""Products that are added to a tensor: matrix times vector, outer products, sums of batches of products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import DType, bool_
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import exact_product, require_batches, require_vector, scaled_sum
from rushlight.ops.dims import Array, compute_array, normal, same_shape
from rushlight.ops.promote import broadcast
from rushlight.ops.record import Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.view.reorder import unsqueeze
from rushlight.support.errors import require

_VARIANTS = "function method inplace out"

addmv = define(
    "addmv(Tensor input, Tensor mat, Tensor vec, *, float beta=1, float alpha=1) -> Tensor",
    "beta * input + alpha * (mat @ vec).",
    dtypes="number",
    variants=_VARIANTS,
)


def _check(op: str, input: Value, product: Value, dtype: DType) -> None:
    """S009 where the input does not broadcast to the product, D002 unless it has the factors' dtype."""
    fits = input.ndim <= product.ndim and same_shape(broadcast(input.shape, product.shape), product.shape)
    require(fits, "S009", f"{op}: the input does not fit the product", input=input.shape, product=product.shape)
    require(input.dtype is dtype, "D002", f"{op}: dtypes differ", input=input.dtype, product=dtype)


@addmv.decompose
def addmv_decompose(input: Value, mat: Value, vec: Value, beta: float, alpha: float) -> Value:
    require_vector("addmv", mat, vec)
    product = exact_product(mat, vec)
    _check("addmv", input, product, mat.dtype)
    return scaled_sum(input, product, beta, alpha, mat.dtype)


@addmv.ref
def addmv_ref(input: Array, mat: Array, vec: Array, beta: float, alpha: float) -> Array:
    return _added(input, np.matmul(compute_array(mat), compute_array(vec)), beta, alpha)


def _added(input: Array, product: Array, beta: float, alpha: float) -> Array:
    return np.asarray(product * alpha + (beta * compute_array(input) if beta else 0)).astype(input.dtype)


@addmv.samples
def addmv_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3), normal(rng, 3, 5), normal(rng, 5), beta=0.5, alpha=2)


addbmm = define(
    "addbmm(Tensor input, Tensor batch1, Tensor batch2, *, float beta=1, float alpha=1) -> Tensor",
    "beta * input + alpha * the sum of batch1 @ batch2 over the batch.",
    autocast="lower",
    dtypes="number",
    variants=_VARIANTS,
)


@addbmm.decompose
def addbmm_decompose(input: Value, batch1: Value, batch2: Value, beta: float, alpha: float) -> Value:
    require_batches("addbmm", batch1, batch2)
    products = exact_product(batch1, batch2)
    product = sum_(products, (0,), False, dtype=products.dtype)
    _check("addbmm", input, product, batch1.dtype)
    return scaled_sum(input, product, beta, alpha, batch1.dtype)


@addbmm.ref
def addbmm_ref(input: Array, batch1: Array, batch2: Array, beta: float, alpha: float) -> Array:
    return _added(input, np.matmul(compute_array(batch1), compute_array(batch2)).sum(0), beta, alpha)


@addbmm.samples
def addbmm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4), normal(rng, 2, 3, 5), normal(rng, 2, 5, 4), beta=0.5, alpha=2)


addr = define(
    "addr(Tensor input, Tensor vec1, Tensor vec2, *, float beta=1, float alpha=1) -> Tensor",
    "beta * input + alpha * the outer product of two vectors; of bools the products are `and`, the sum is `or`.",
    variants=_VARIANTS,
)


@addr.decompose
def addr_decompose(input: Value, vec1: Value, vec2: Value, beta: float, alpha: float) -> Value:
    vectors = vec1.ndim == 1 and vec2.ndim == 1
    require(vectors, "S002", "addr: vec1 and vec2 have 1 dim", vec1=vec1.shape, vec2=vec2.shape)
    left, right = unsqueeze(vec1, -1), unsqueeze(vec2, 0)
    if vec1.dtype is bool_ and vec2.dtype is bool_ and input.dtype is bool_:
        product = left & right & bool(alpha)
        _check("addr", input, product, bool_)
        return input | product if beta else product
    product = left * right
    fits = input.ndim <= 2 and same_shape(broadcast(input.shape, product.shape), product.shape)
    require(fits, "S009", "addr: the input does not fit the product", input=input.shape, product=product.shape)
    return scaled_sum(input, product, beta, alpha, product.dtype)


@addr.ref
def addr_ref(input: Array, vec1: Array, vec2: Array, beta: float, alpha: float) -> Array:
    if input.dtype == np.bool_:
        return (input & bool(beta)) | (np.outer(vec1, vec2) & bool(alpha))
    return _added(input, np.outer(compute_array(vec1), compute_array(vec2)), beta, alpha)


@addr.samples
def addr_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4), normal(rng, 3), normal(rng, 4), beta=0.5, alpha=2)
