"""Products: of vectors, outer ones, and over several dims at once. Each is in terms of matrix products."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from rushlight.ir.dtype import Kind, real_dtype
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import dot, matmul
from rushlight.ops.create import count_of
from rushlight.ops.dims import Array, compute_array, convert, normal, require_floating, same_size, wrap_dim
from rushlight.ops.index.ranged import not_negative
from rushlight.ops.join import roll
from rushlight.ops.linalg.matrix import adjoint_of
from rushlight.ops.number.parts import imag_
from rushlight.ops.pointwise.complex import abs_, conjugate, real_of
from rushlight.ops.pointwise.elementary import sqrt
from rushlight.ops.pointwise.rounding import clamp
from rushlight.ops.promote import broadcast, promote_dtypes, promote_float
from rushlight.ops.record import Sample, define
from rushlight.ops.reduce.moment import vector_norm
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.view.part import diagonal
from rushlight.ops.view.reorder import expand, permute, squeeze, unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, broadcast_sizes, eq, guard, maximum, product

kron = define(
    "kron(Tensor input, Tensor other) -> Tensor",
    "All products of two tensors' elements, in blocks: each element of the first times the whole second one.",
    variants="function method out",
)


@kron.decompose
def kron_decompose(input: Value, other: Value) -> Value:
    rank = max(input.ndim, other.ndim)
    a = reshape(input, (1,) * (rank - input.ndim) + tuple(input.shape))
    b = reshape(other, (1,) * (rank - other.ndim) + tuple(other.shape))
    sizes = [one * two for one, two in zip(a.shape, b.shape, strict=True)]
    for dim in range(rank):
        a, b = unsqueeze(a, 2 * dim + 1), unsqueeze(b, 2 * dim)
    return reshape(a * b, tuple(sizes))


@kron.ref
def kron_ref(input: Array, other: Array) -> Array:
    dtype = np.result_type(input, other)
    return np.asarray(np.kron(compute_array(input), compute_array(other))).astype(dtype)


@kron.samples
def kron_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), normal(rng, 4))
    yield Sample(normal(rng, 2), normal(rng, 2, 1, 3))


inner = define(
    "inner(Tensor input, Tensor other) -> Tensor",
    "The sums of products along the last dims of two tensors; a number times a tensor where one has no dims.",
    dtypes="number",
    autocast="lower",
    variants="function method out",
)


@inner.decompose
def inner_decompose(input: Value, other: Value) -> Value:
    if not input.ndim or not other.ndim:
        return input * other
    same = same_size(input.shape[-1], other.shape[-1])
    require(same, "S003", "inner: the last sizes differ", input=input.shape, other=other.shape)
    return tensordot(input, other, (input.ndim - 1,), (other.ndim - 1,))


@inner.ref
def inner_ref(input: Array, other: Array) -> Array:
    return np.asarray(np.inner(compute_array(input), compute_array(other))).astype(np.result_type(input, other))


@inner.samples
def inner_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), normal(rng, 4, 3))
    yield Sample(normal(rng, 3), normal(rng, 3))


vdot = define(
    "vdot(Tensor input, Tensor other) -> Tensor",
    "The inner product of two vectors, of which the first is conjugated.",
    dtypes="number",
    variants="function method out",
)


@vdot.decompose
def vdot_decompose(input: Value, other: Value) -> Value:
    return dot(conjugate(input), other)


@vdot.ref
def vdot_ref(input: Array, other: Array) -> Array:
    return np.asarray(np.vdot(compute_array(input), compute_array(other))).astype(input.dtype)


@vdot.samples
def vdot_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 5), normal(rng, 5))


tensordot = define(
    "tensordot_dims(Tensor input, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    "The sums of products over dims of two tensors, paired in order, of size 1 repeated; the other dims remain.",
    dtypes="number",
    autocast="lower",
    variants="",
)


@tensordot.decompose
def tensordot_decompose(input: Value, other: Value, dims_self: tuple[int, ...], dims_other: tuple[int, ...]) -> Value:
    require(
        len(dims_self) == len(dims_other),
        "A004",
        "tensordot: as many dims of both are needed",
        dims=(dims_self, dims_other),
    )
    left = _distinct(dims_self, input.ndim)
    right = _distinct(dims_other, other.ndim)
    for one, two in zip(left, right, strict=True):
        size = broadcast_sizes(input.shape[one], other.shape[two])
        input, other = _repeated(input, one, size), _repeated(other, two, size)
    rows = [dim for dim in range(input.ndim) if dim not in left]
    columns = [dim for dim in range(other.ndim) if dim not in right]
    count = product([input.shape[dim] for dim in left])
    a = reshape(permute(input, (*rows, *left)), (product(_sizes(input, rows)), count))
    b = reshape(permute(other, (*right, *columns)), (count, product(_sizes(other, columns))))
    return reshape(matmul(a, b), (*_sizes(input, rows), *_sizes(other, columns)))


def _repeated(value: Value, dim: int, size: Size) -> Value:
    """The value with a dim of size 1 expanded."""
    if value.shape[dim] is size:
        return value
    return expand(value, [size if at == dim else own for at, own in enumerate(value.shape)])


def _sizes(value: Value, dims: Sequence[int]) -> tuple[Size, ...]:
    return tuple([value.shape[dim] for dim in dims])


def _distinct(dims: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    wrapped = tuple([wrap_dim(dim, ndim, "tensordot") for dim in dims])
    require(len(set(wrapped)) == len(wrapped), "I006", f"tensordot: {dims} names a dim twice")
    return wrapped


@tensordot.ref
def tensordot_ref(input: Array, other: Array, dims_self: tuple[int, ...], dims_other: tuple[int, ...]) -> Array:
    left, right = compute_array(input), compute_array(other)
    for one, two in zip(dims_self, dims_other, strict=True):
        left = np.repeat(left, right.shape[two], one) if left.shape[one] == 1 else left
        right = np.repeat(right, left.shape[one], two) if right.shape[two] == 1 else right
    result = np.tensordot(left, right, (dims_self, dims_other))
    return np.asarray(result).astype(input.dtype)


@tensordot.samples
def tensordot_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), normal(rng, 4, 2, 5), (2, 0), (0, 1))
    yield Sample(normal(rng, 1, 3, 4), normal(rng, 1, 2, 5), (2, 0), (0, 1))


linalg_cross = define(
    "linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor",
    "The cross products of vectors of three elements along a dim.",
    dtypes="number",
    variants="function out",
)


@linalg_cross.decompose
def linalg_cross_decompose(input: Value, other: Value, dim: int) -> Value:
    same = input.ndim == other.ndim
    require(same, "S002", "linalg.cross: operands differ in their number of dims", a=input.shape, b=other.shape)
    along = wrap_dim(dim, input.ndim, "linalg.cross")
    three = input.ndim and same_size(input.shape[along], 3) and same_size(other.shape[along], 3)
    require(three, "S003", f"linalg.cross: dim {dim} must have 3 elements", a=input.shape, b=other.shape)
    shape = broadcast(input.shape, other.shape)
    a, b = expand(input, shape), expand(other, shape)
    left = roll(a, (-1,), (along,)) * roll(b, (-2,), (along,))
    return left - roll(a, (-2,), (along,)) * roll(b, (-1,), (along,))


@linalg_cross.ref
def linalg_cross_ref(input: Array, other: Array, dim: int) -> Array:
    a, b = np.broadcast_arrays(compute_array(input), compute_array(other))
    result = np.roll(a, -1, dim) * np.roll(b, -2, dim) - np.roll(a, -2, dim) * np.roll(b, -1, dim)
    return result.astype(np.result_type(input, other))


@linalg_cross.samples
def linalg_cross_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), normal(rng, 1, 3))


cross = define(
    "cross(Tensor input, Tensor other, int? dim=None) -> Tensor",
    "The cross products of vectors along a dim, by default the first one with three elements.",
    dtypes="number",
    variants="function method out",
)


@cross.decompose
def cross_decompose(input: Value, other: Value, dim: int | None) -> Value:
    if dim is None:
        dim = next((at for at, size in enumerate(input.shape) if guard(eq(size, 3))), None)
        require(dim is not None, "S003", "cross: no dim has 3 elements", input=input.shape)
    return linalg_cross(input, other, dim=dim)


@cross.ref
def cross_ref(input: Array, other: Array, dim: int | None) -> Array:
    return linalg_cross_ref(input, other, input.shape.index(3) if dim is None else dim)


@cross.samples
def cross_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), normal(rng, 2, 3), 1)


vecdot = define(
    "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    "The inner products of vectors along a dim; the first ones are conjugated.",
    dtypes="number",
    variants="function out",
    autocast="lower",
)


@vecdot.decompose
def vecdot_decompose(x: Value, y: Value, dim: int) -> Value:
    require(x.dtype is y.dtype, "D002", "linalg.vecdot: operands differ in dtype", x=x.dtype, y=y.dtype)
    return sum_(conjugate(x) * y, dim, dtype=x.dtype)


@vecdot.ref
def vecdot_ref(x: Array, y: Array, dim: int) -> Array:
    return np.asarray(np.sum(np.conj(compute_array(x)) * compute_array(y), dim)).astype(x.dtype)


@vecdot.samples
def vecdot_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), normal(rng, 3))


dist = define(
    "dist(Tensor input, Tensor other, float p=2) -> Tensor",
    "The `p`-norm of the difference of two tensors.",
    dtypes="inexact",
)


@dist.decompose
def dist_decompose(input: Value, other: Value, p: float) -> Value:
    difference = input - other
    return vector_norm(abs_(difference) if difference.dtype.is_complex else difference, p)


@dist.ref
def dist_ref(input: Array, other: Array, p: float) -> Array:
    difference = np.abs(compute_array(input) - compute_array(other))
    result = np.linalg.norm(difference.reshape(-1), p)
    return np.asarray(result).astype(np.real(np.zeros(1, input.dtype)).dtype)


@dist.samples
def dist_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), normal(rng, 3))


cov = define(
    "cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
    "The covariances of the rows of a matrix, whose columns are observations, counted and weighted as given.",
    dtypes="number",
)


@cov.decompose
def cov_decompose(input: Value, correction: int, fweights: Value | None, aweights: Value | None) -> Value:
    require(input.ndim <= 2, "S002", "cov: the input has at most 2 dims", input=input.shape)
    rows = input if input.ndim == 2 else reshape(input, (1, -1))
    wanted = rows.dtype if aweights is None else promote_dtypes(rows.dtype, aweights.dtype)
    rows = convert(rows, promote_float(TensorType(rows.shape, wanted)))
    weights = _weights(rows, fweights, aweights)
    if weights is None:
        count = rows.shape[1]
        centred = rows - sum_(rows, 1, True) / count_of(rows, count)
        divisor: Value | int = count_of(rows, maximum(count - correction, 0))
        result = matmul(centred, adjoint_of(centred)) / divisor
    else:
        total = sum_(weights)
        centred = rows - sum_(rows * weights, 1, True) / total
        lost: Value | float = correction
        if aweights is not None and correction:
            lost = sum_(weights * convert(aweights, weights.dtype)) / total * correction
        result = matmul(centred * weights, adjoint_of(centred)) / clamp(total - lost, 0)
    return squeeze(result, (0, 1))  # one variable has a variance without dims, as in PyTorch


def _weights(rows: Value, fweights: Value | None, aweights: Value | None) -> Value | None:
    given = [element for element in (fweights, aweights) if element is not None]
    for value in given:
        fits = value.ndim == 1 and same_size(value.shape[0], rows.shape[-1])
        require(fits, "S014", "cov: there is one weight for each column", weights=value.shape, input=rows.shape)
    if fweights is not None:
        require(fweights.dtype.kind is Kind.INT, "D001", "cov: fweights are integers", fweights=fweights.dtype)
    if aweights is not None:
        require_floating(TensorType(aweights.shape, aweights.dtype), "cov")
    weights: Value | None = None
    for value in given:
        wide = convert(not_negative(value), real_dtype(rows.dtype))
        weights = wide if weights is None else weights * wide
    return weights


@cov.ref
def cov_ref(input: Array, correction: int, fweights: Array | None, aweights: Array | None) -> Array:
    rows = compute_array(input)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = np.cov(rows, ddof=correction, fweights=fweights, aweights=aweights)
    return np.asarray(result).astype(input.dtype if input.dtype.kind in "fcV" else np.float32)


@cov.samples
def cov_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 5), domain="spread")
    yield Sample(normal(rng, 3, 4), correction=0, domain="spread")
    yield Sample(normal(rng, 1, 4), domain="spread")


corrcoef = define(
    "corrcoef(Tensor input) -> Tensor",
    "The correlations of the rows of a matrix, whose columns are observations.",
    dtypes="number",
)


@corrcoef.decompose
def corrcoef_decompose(input: Value) -> Value:
    result = cov(input)
    if not result.ndim:
        return result / result
    scale = sqrt(real_of(diagonal(result, 0, 0, 1)))
    result = result / unsqueeze(scale, 1) / unsqueeze(scale, 0)
    if not result.dtype.is_complex:
        return clamp(result, -1, 1)
    parts = [clamp(part, -1, 1) for part in (real_of(result), imag_(result))]
    return parts[0] + parts[1] * 1j


@corrcoef.ref
def corrcoef_ref(input: Array) -> Array:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = np.corrcoef(compute_array(input))
    return np.asarray(result).astype(input.dtype if input.dtype.kind in "fcV" else np.float32)


@corrcoef.samples
def corrcoef_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 5), domain="spread")
