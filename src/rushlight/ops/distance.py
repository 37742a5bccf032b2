"""Distances and similarities of vectors, computed in float32 or wider."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import Kind, int64, real_dtype, uint64
from rushlight.ir.value import Value
from rushlight.ops.dims import (
    Array,
    compute_array,
    convert,
    normal,
    same_size,
    widened,
    wrap_dim,
)
from rushlight.ops.index.read import index_select
from rushlight.ops.pointwise.complex import real_of
from rushlight.ops.pointwise.rounding import maximum, minimum
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import DEFAULT_FLOAT, broadcast, promote_dtypes
from rushlight.ops.record import FAMILIES, Sample, define
from rushlight.ops.reduce.moment import vector_norm, vector_norm_ref
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.triangle import triu_indices
from rushlight.ops.view.part import select
from rushlight.ops.view.reorder import expand, unsqueeze
from rushlight.support.errors import require

MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")

cdist = define(
    "cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
    "The p-norm distance of each row of x1 (*, m, d) to each row of x2 (*, n, d): (*, m, n). Differences are computed "
    "as they are in every mode, so that near rows keep their digits.",
    dtypes="float",
    autocast="float32",
    variants="function",
)
pdist = define(
    "pdist(Tensor input, float p=2.0) -> Tensor",
    "The p-norm distances of all pairs of rows of a matrix, each pair once, row after row.",
    dtypes="float",
    variants="function",
)
pairwise_distance = define(
    "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
    "The p-norm of x1 - x2 + eps along the last dim.",
    dtypes="number",
    variants="function",
)
cosine_similarity = define(
    "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    "The cosine of the angle between vectors along a dim; lengths count as at least eps.",
    dtypes="float",
    variants="function",
)


def _pair(x1: Value, x2: Value, op: str, dtypes: str = "float") -> tuple[Value, Value]:
    """Both operands in one dtype."""
    dtype = promote_dtypes(x1.dtype, x2.dtype)
    require(
        dtype.kind in FAMILIES[dtypes], "D001", f"{op}: operands must be of dtypes {dtypes}", x1=x1.dtype, x2=x2.dtype
    )
    return convert(x1, dtype), convert(x2, dtype)


@cdist.decompose
def cdist_decompose(x1: Value, x2: Value, p: float, compute_mode: str | None) -> Value:
    matrices = x1.ndim >= 2 and x2.ndim >= 2
    require(matrices, "S002", "cdist: both operands need at least 2 dims", x1=x1.shape, x2=x2.shape)
    fits = same_size(x1.shape[-1], x2.shape[-1])
    require(fits, "S003", "cdist: rows differ in size", x1=x1.shape, x2=x2.shape)
    require(p >= 0, "A002", "cdist: p must not be negative", p=p)
    valid = compute_mode is None or compute_mode in MODES
    require(valid, "A002", f"cdist: compute_mode is one of {', '.join(MODES)}", compute_mode=compute_mode)
    broadcast(x1.shape[:-2], x2.shape[:-2])
    x1, x2 = _pair(x1, x2, "cdist")
    difference = unsqueeze(widened(x1), -2) - unsqueeze(widened(x2), -3)
    return convert(_distance(difference, p, False), x1.dtype)


def _distance(difference: Value, p: float, keepdim: bool) -> Value:
    """The norm along the last dim; 0 where that has no elements."""
    size = difference.shape[-1]
    if isinstance(size, int) and size == 0:
        return real_of(sum_(difference, -1, keepdim))
    return vector_norm(difference, p, (-1,), keepdim)


@cdist.ref
def cdist_ref(x1: Array, x2: Array, p: float, compute_mode: str | None) -> Array:
    difference = compute_array(x1)[..., :, None, :] - compute_array(x2)[..., None, :, :]
    return _distance_array(difference, p, False).astype(np.result_type(x1, x2))


def _distance_array(difference: Array, p: float, keepdim: bool) -> Array:
    if not difference.shape[-1]:
        return np.real(np.sum(difference, -1, keepdims=keepdim))
    return vector_norm_ref(difference, p, (-1,), keepdim, None)


@cdist.samples
def cdist_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 4, 3), normal(rng, 5, 3))
    yield Sample(normal(rng, 4, 3), normal(rng, 5, 3), 1.0)
    yield Sample(normal(rng, 4, 3), normal(rng, 2, 3), 3.0, None)


@pdist.decompose
def pdist_decompose(input: Value, p: float) -> Value:
    require(input.ndim == 2, "S002", "pdist: the input is a matrix", input=input.shape)
    require(p >= 0, "A002", "pdist: p must not be negative", p=p)
    rows = input.shape[0]
    attrs = {"row": rows, "col": rows, "offset": 1, "dtype": None, "device": input.device}
    pairs = input.apply(triu_indices, (), attrs)
    first, second = [index_select(widened(input), 0, select(pairs, 0, side)) for side in (0, 1)]
    return convert(_distance(first - second, p, False), input.dtype)


@pdist.ref
def pdist_ref(input: Array, p: float) -> Array:
    x = compute_array(input)
    first, second = np.triu_indices(len(x), 1)
    return _distance_array(x[first] - x[second], p, False).astype(input.dtype)


@pdist.samples
def pdist_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 5, 3))
    yield Sample(normal(rng, 4, 2), 1.0)


@pairwise_distance.decompose
def pairwise_distance_decompose(x1: Value, x2: Value, p: float, eps: float, keepdim: bool) -> Value:
    broadcast(x1.shape, x2.shape)
    x1, x2 = _pair(x1, x2, "pairwise_distance", "number")
    require(x1.ndim or x2.ndim, "S002", "pairwise_distance: a vector is needed", x1=x1.shape, x2=x2.shape)
    if x1.dtype.kind is Kind.INT:
        difference, result = _integer_difference(x1, x2), DEFAULT_FLOAT
    else:
        difference, result = widened(x1) - widened(x2), real_dtype(x1.dtype)
    return convert(_distance(difference + eps, p, keepdim), result)


def _integer_difference(x1: Value, x2: Value) -> Value:
    """x1 - x2 as a float, rounded once: no difference of integers wraps, since its magnitude is one of uint64."""
    if x1.dtype is not uint64:
        x1, x2 = convert(x1, int64), convert(x2, int64)
    magnitude = convert(convert(maximum(x1, x2) - minimum(x1, x2), uint64), DEFAULT_FLOAT)
    return where(x1 < x2, -magnitude, magnitude)


@pairwise_distance.ref
def pairwise_distance_ref(x1: Array, x2: Array, p: float, eps: float, keepdim: bool) -> Array:
    result = np.real(np.zeros((), np.result_type(x1, x2))).dtype
    if result.kind in "iu":
        result = DEFAULT_FLOAT.numpy
        difference: Array = (x1.astype(object) - x2.astype(object)).astype(result)
    else:
        difference = compute_array(x1) - compute_array(x2)
    difference = difference + difference.dtype.type(eps)
    return _distance_array(difference, p, keepdim).astype(result)


@pairwise_distance.samples
def pairwise_distance_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5))
    yield Sample(normal(rng, 2, 3, 5), normal(rng, 5), 1.0, keepdim=True)


@cosine_similarity.decompose
def cosine_similarity_decompose(x1: Value, x2: Value, dim: int, eps: float) -> Value:
    x1, x2 = _pair(x1, x2, "cosine_similarity")
    shape = broadcast(x1.shape, x2.shape)
    position = wrap_dim(dim, len(shape), "cosine_similarity")
    dims = (position,) if shape else ()
    one, other = expand(widened(x1), shape), expand(widened(x2), shape)
    lengths = [maximum(vector_norm(x, 2.0, dims, True), eps) for x in (one, other)]
    return convert(sum_((one / lengths[0]) * (other / lengths[1]), dims), x1.dtype)


@cosine_similarity.ref
def cosine_similarity_ref(x1: Array, x2: Array, dim: int, eps: float) -> Array:
    one, other = np.broadcast_arrays(compute_array(x1), compute_array(x2))
    axes = (dim,) if one.ndim else ()
    lengths = [np.maximum(np.sqrt(np.sum(x * x, axes, keepdims=True)), x.dtype.type(eps)) for x in (one, other)]
    return np.asarray(np.sum(one / lengths[0] * (other / lengths[1]), axes)).astype(np.result_type(x1, x2))


@cosine_similarity.samples
def cosine_similarity_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5))
    yield Sample(normal(rng, 2, 3, 4), normal(rng, 3, 1), -1)
