"""Softmax and its logarithms: the largest element is taken off first, so nothing overflows.

16-bit floats are computed in float32 and rounded once. Gradients are operators of their own: each is one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import DType
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, Dims, compute_array, convert, normal, widened, wrap_dim, wrap_dims
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.complex import abs_, conjugate, real_of
from rushlight.ops.pointwise.elementary import exp, log
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import DEFAULT_FLOAT
from rushlight.ops.record import Sample, define
from rushlight.ops.reduce.minmax import amax_or_lowest
from rushlight.ops.reduce.reduction import restored, sum_
from rushlight.ops.view.reorder import squeeze
from rushlight.ops.view.reshape import contiguous


def _entered(input: Value, dtype: DType | None) -> Value:
    """The input in the dtype in which its softmax is computed, and the dtype of the result."""
    return widened(input if dtype is None else convert(input, dtype))


def _reference(input: Array, dtype: DType | None) -> tuple[Array, np.dtype[Any]]:
    result = dtype.numpy if dtype else input.dtype
    return compute_array(input.astype(result)), result


softmax = define(
    "softmax(Tensor input, int dim, *, DType? dtype=None) -> Tensor",
    "exp(input) divided by its sum along a dim.",
    dtypes="float",
    variants="function method out",
)


@softmax.decompose
def softmax_decompose(input: Value, dim: int, dtype: DType | None) -> Value:
    dim = wrap_dim(dim, input.ndim, "softmax")
    x = _entered(input, dtype)
    weights = exp(x - amax_or_lowest(x, dim, True))
    # A division a row and not an element: those take longer than all the rest of a row that lies in the cache.
    return contiguous(convert(weights * (1.0 / sum_(weights, dim, True)), dtype or input.dtype))


@softmax.ref
def softmax_ref(input: Array, dim: int, dtype: DType | None) -> Array:
    x, result = _reference(input, dtype)
    with np.errstate(all="ignore"):
        weights = np.exp(x - np.max(x, dim, keepdims=True)) if x.ndim else np.ones_like(x)
        return (
            np.asarray(weights / np.sum(weights, dim if x.ndim else None, keepdims=True))
            .astype(result)
            .reshape(x.shape)
        )


@softmax.vjp(types=("input",))
def softmax_vjp(g: Value, out: Value, input: TensorType, dim: int) -> Value:
    return convert(softmax_backward(g, out, dim), input.dtype)


@softmax.samples
def softmax_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 3, 5) * 100, 0)
    yield Sample(normal(rng, 2, 3, 4), -2)
    yield Sample(np.array([[0.0, -np.inf], [1.0, 2.0]], np.float32), 1)


softmax_backward = define(
    "softmax_backward(Tensor grad, Tensor output, int dim) -> Tensor",
    "The gradient of softmax from its output.",
    dtypes="float",
    variants="function",
)


@softmax_backward.decompose
def softmax_backward_decompose(grad: Value, output: Value, dim: int) -> Value:
    g, y = widened(grad), widened(output)
    return convert(y * (g - sum_(g * y, dim, True)), grad.dtype)


@softmax_backward.ref
def softmax_backward_ref(grad: Array, output: Array, dim: int) -> Array:
    g, y = compute_array(grad), compute_array(output)
    return (y * (g - np.sum(g * y, dim, keepdims=True))).astype(grad.dtype)


@softmax_backward.samples
def softmax_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), softmax_ref(normal(rng, 3, 5), 1, None), 1)


safe_softmax = define(
    "safe_softmax(Tensor input, int dim) -> Tensor",
    "softmax along a dim; rows of nothing but -inf become 0, not NaN.",
    dtypes="float",
    variants="function",
)


@safe_softmax.decompose
def safe_softmax_decompose(input: Value, dim: int) -> Value:
    dim = wrap_dim(dim, input.ndim, "safe_softmax")
    x = widened(input)
    largest = amax_or_lowest(x, dim, True)
    empty = eq(largest, float("-inf"))
    weights = exp(x - where(empty, 0.0, largest))
    return convert(weights * (1.0 / where(empty, 1.0, sum_(weights, dim, True))), input.dtype)


@safe_softmax.ref
def safe_softmax_ref(input: Array, dim: int) -> Array:
    empty = np.all(compute_array(input) == -np.inf, dim if input.ndim else None, keepdims=True)
    return np.where(empty, np.zeros((), input.dtype), softmax_ref(input, dim, None))


@safe_softmax.vjp(types=("input",))
def safe_softmax_vjp(g: Value, out: Value, input: TensorType, dim: int) -> Value:
    return convert(softmax_backward(g, out, dim), input.dtype)


@safe_softmax.samples
def safe_softmax_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), -2)
    yield Sample(np.array([[-np.inf, -np.inf], [-np.inf, 2.0]], np.float32), 1)


log_softmax = define(
    "log_softmax(Tensor input, int dim, *, DType? dtype=None) -> Tensor",
    "The logarithm of softmax along a dim.",
    dtypes="float",
    variants="function method out",
)


@log_softmax.decompose
def log_softmax_decompose(input: Value, dim: int, dtype: DType | None) -> Value:
    dim = wrap_dim(dim, input.ndim, "log_softmax")
    x = _entered(input, dtype)
    shifted = x - amax_or_lowest(x, dim, True)
    return contiguous(convert(shifted - log(sum_(exp(shifted), dim, True)), dtype or input.dtype))


@log_softmax.ref
def log_softmax_ref(input: Array, dim: int, dtype: DType | None) -> Array:
    x, result = _reference(input, dtype)
    with np.errstate(all="ignore"):
        shifted = x - np.max(x, dim, keepdims=True)
        return (shifted - np.log(np.sum(np.exp(shifted), dim, keepdims=True))).astype(result)


@log_softmax.vjp(types=("input",))
def log_softmax_vjp(g: Value, out: Value, input: TensorType, dim: int) -> Value:
    return convert(log_softmax_backward(g, out, dim), input.dtype)


@log_softmax.samples
def log_softmax_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 3, 5) * 100, 0)
    yield Sample(normal(rng, 2, 3, 4), -2)


log_softmax_backward = define(
    "log_softmax_backward(Tensor grad, Tensor output, int dim) -> Tensor",
    "The gradient of log_softmax from its output.",
    dtypes="float",
    variants="function",
)


@log_softmax_backward.decompose
def log_softmax_backward_decompose(grad: Value, output: Value, dim: int) -> Value:
    g, y = widened(grad), widened(output)
    return convert(g - exp(y) * sum_(g, dim, True), grad.dtype)


@log_softmax_backward.ref
def log_softmax_backward_ref(grad: Array, output: Array, dim: int) -> Array:
    g, y = compute_array(grad), compute_array(output)
    return (g - np.exp(y) * np.sum(g, dim, keepdims=True)).astype(grad.dtype)


@log_softmax_backward.samples
def log_softmax_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), log_softmax_ref(normal(rng, 3, 5), 1, None), 1)


logsumexp = define(
    "logsumexp(Tensor input, int[] dim, bool keepdim=False) -> Tensor",
    "The logarithm of the sum of exponentials.",
    dtypes="all",
    variants="function method out",
)


@logsumexp.decompose
def logsumexp_decompose(input: Value, dim: Dims, keepdim: bool) -> Value:
    dims = wrap_dims(dim, input.ndim, "logsumexp")
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        input = convert(input, DEFAULT_FLOAT)
    x = widened(input)
    top = amax_or_lowest(real_of(x), dims, True)
    # An infinite largest element is not taken off: inf - inf would be NaN.
    top = where(eq(abs_(top), float("inf")), 0.0, top)
    result = log(sum_(exp(x - top), dims, True)) + top
    result = result if keepdim else squeeze(result, dims)
    return convert(result, input.dtype)


@logsumexp.ref
def logsumexp_ref(input: Array, dim: Dims, keepdim: bool) -> Array:
    if input.dtype.kind in "biu":
        input = input.astype(DEFAULT_FLOAT.numpy)
    x, axes = compute_array(input), wrap_dims(dim, input.ndim, "logsumexp")
    with np.errstate(all="ignore"):
        top = np.max(np.real(x), axes, keepdims=True)
        top = np.where(np.isinf(top), 0, top).astype(top.dtype)
        result = np.log(np.sum(np.exp(x - top), axes, keepdims=True)) + top
    return np.asarray(result if keepdim else np.squeeze(result, axes)).astype(input.dtype)


@logsumexp.vjp
def logsumexp_vjp(g: Value, out: Value, input: Value, dim: Dims, keepdim: bool) -> Value:
    total = restored(out, input.shape, dim, keepdim, "logsumexp")
    return restored(g, input.shape, dim, keepdim, "logsumexp") * exp(conjugate(input - total))


@logsumexp.samples
def logsumexp_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), 1)
    yield Sample(normal(rng, 3, 5) * 100, 0, True)
    yield Sample(normal(rng, 2, 3, 4), (0, 2))
