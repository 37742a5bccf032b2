"""Variances and norms: formulas of several passes, in the order that PyTorch documents, in float32 or wider."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import DType, complex128, float64, real_dtype
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import zeros_of
from rushlight.ops.dims import Array, Dims, compute_array, convert, normal, require_floating, widened, wrap_dims
from rushlight.ops.pointwise.arithmetic import sgn
from rushlight.ops.pointwise.comparison import eq, ne
from rushlight.ops.pointwise.complex import abs_, conjugate, real_of
from rushlight.ops.pointwise.elementary import sqrt
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Sample, define
from rushlight.ops.reduce.minmax import amax, amin
from rushlight.ops.reduce.reduction import corrected_mean, mean, restored, sum_
from rushlight.ops.view.reorder import squeeze
from rushlight.support.errors import fail, require


def centred_squares(input: Value, dim: Dims) -> tuple[Value, Value]:
    """(mean, squares of the distances from it), both broadcasting against the input, in two passes."""
    middle = mean(input, dim, True)
    return middle, squared_magnitude(input - middle)


def squared_magnitude(value: Value) -> Value:
    """The squares of elements; of complex ones those of their magnitudes, which are real."""
    return real_of(value * conjugate(value)) if value.dtype.is_complex else value * value


def _var_reference(input: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    x, axes = compute_array(input), wrap_dims(dim, input.ndim, "var")
    count = np.prod([x.shape[axis] for axis in axes], dtype=np.float64)
    with np.errstate(all="ignore"):
        offset = x - np.sum(x, axes, keepdims=True) / x.dtype.type(count)
        squares = np.real(offset * np.conj(offset))
        return np.sum(squares, axes, keepdims=keepdim) / squares.dtype.type(max(count - correction, 0))


var = define(
    "var(Tensor input, int[]? dim=None, *, float correction=1, bool keepdim=False) -> Tensor",
    "Variance: squared distances from the mean, summed and divided by their number less `correction`.",
    dtypes="inexact",
    variants="function",
)


@var.decompose
def var_decompose(input: Value, dim: Dims, correction: float, keepdim: bool) -> Value:
    require_floating(TensorType(input.shape, input.dtype), "var")
    dims = wrap_dims(dim, input.ndim, "var")
    _, squares = centred_squares(widened(input), dims)
    return convert(corrected_mean(squares, dims, keepdim, correction=correction), real_dtype(input.dtype))


@var.ref
def var_ref(input: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    return np.asarray(_var_reference(input, dim, correction, keepdim)).astype(np.real(input).dtype)


@var.samples
def var_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))
    yield Sample(normal(rng, 3, 5), 1, correction=0)
    yield Sample(normal(rng, 2, 3, 4), (0, 2), keepdim=True)
    yield Sample(normal(rng, 3, 5), 1, correction=1.5)


std = define(
    "std(Tensor input, int[]? dim=None, *, float correction=1, bool keepdim=False) -> Tensor",
    "Standard deviation: the square root of the variance.",
    dtypes="inexact",
    variants="function",
)


@std.decompose
def std_decompose(input: Value, dim: Dims, correction: float, keepdim: bool) -> Value:
    # Squares of large float32 numbers overflow although their root does not; PyTorch computes in float64 too.
    require_floating(TensorType(input.shape, input.dtype), "std")
    wide = convert(input, complex128 if input.dtype.is_complex else float64)
    return convert(sqrt(var(wide, dim, correction=correction, keepdim=keepdim)), real_dtype(input.dtype))


@std.ref
def std_ref(input: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    wide = input.astype(np.complex128 if input.dtype.kind == "c" else np.float64)
    return np.sqrt(_var_reference(wide, dim, correction, keepdim)).astype(np.real(input).dtype)


@std.samples
def std_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from var_samples(rng)


var_mean = define(
    "var_mean(Tensor input, int[]? dim=None, *, float correction=1, bool keepdim=False) -> (Tensor var, Tensor mean)",
    "Variance and mean.",
    dtypes="inexact",
    variants="",
)


@var_mean.decompose
def var_mean_decompose(input: Value, dim: Dims, correction: float, keepdim: bool) -> tuple[Value, Value]:
    require_floating(TensorType(input.shape, input.dtype), "var_mean")
    dims = wrap_dims(dim, input.ndim, "var_mean")
    middle, squares = centred_squares(widened(input), dims)
    spread = corrected_mean(squares, dims, keepdim, correction=correction)
    return convert(spread, real_dtype(input.dtype)), convert(middle if keepdim else squeeze(middle, dims), input.dtype)


@var_mean.ref
def var_mean_ref(input: Array, dim: Dims, correction: float, keepdim: bool) -> tuple[Array, Array]:
    axes = wrap_dims(dim, input.ndim, "var_mean")
    middle = np.mean(compute_array(input), axes, keepdims=keepdim)
    return var_ref(input, dim, correction, keepdim), np.asarray(middle).astype(input.dtype)


@var_mean.samples
def var_mean_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from var_samples(rng)


vector_norm = define(
    "linalg_vector_norm(Tensor input, float ord=2, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) "
    "-> Tensor",
    "The `ord`-norm of elements; inf and -inf are the largest and smallest magnitude, 0 counts those that are not 0.",
    dtypes="inexact",
    variants="function",
)


@vector_norm.decompose
def vector_norm_decompose(input: Value, ord: float, dim: Dims, keepdim: bool, dtype: DType | None) -> Value:
    fits = dtype is None or dtype.is_complex == input.dtype.is_complex
    require(fits, "D001", "linalg_vector_norm: the dtype is complex for complex elements, and only then", dtype=dtype)
    magnitude = abs_(widened(input if dtype is None else convert(input, dtype)))
    result = real_dtype(dtype or input.dtype)
    if ord == float("inf"):
        norm = amax(magnitude, () if dim is None else dim, keepdim)
    elif ord == float("-inf"):
        norm = amin(magnitude, () if dim is None else dim, keepdim)
    elif ord == 0:
        norm = sum_(convert(ne(magnitude, 0), magnitude.dtype), dim, keepdim)
    elif ord == 1:
        norm = sum_(magnitude, dim, keepdim)
    elif ord == 2:
        norm = sqrt(sum_(magnitude * magnitude, dim, keepdim))
    else:
        norm = sum_(magnitude ** float(ord), dim, keepdim) ** (1.0 / ord)
    return convert(norm, result)


@vector_norm.ref
def vector_norm_ref(input: Array, ord: float, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    result = dtype.numpy if dtype else input.dtype
    magnitude = np.abs(compute_array(input.astype(result)))
    axes = wrap_dims(dim, input.ndim, "norm")
    with np.errstate(all="ignore"):
        if np.isinf(ord):
            norm = (np.max if ord > 0 else np.min)(magnitude, axes, keepdims=keepdim)
        elif ord == 0:
            norm = np.sum(magnitude != 0, axes, keepdims=keepdim)
        else:
            norm = np.sum(magnitude**ord, axes, keepdims=keepdim) ** (1.0 / ord)
    return np.asarray(norm).astype(magnitude.dtype if input.dtype.kind == "c" else result)


@vector_norm.vjp
def vector_norm_vjp(g: Value, out: Value, input: Value, ord: float, dim: Dims, keepdim: bool) -> Value:
    real = real_dtype(input.dtype)
    g = convert(restored(g, input.shape, dim, keepdim, "norm"), real)
    total = convert(restored(out, input.shape, dim, keepdim, "norm"), real)
    if ord == 0:
        return convert(zeros_of(g, input.shape), input.dtype)
    if ord == 1:
        return g * sgn(input)
    if abs(ord) == float("inf"):
        hit = eq(abs_(input), total)
        return where(hit, sgn(input) * (g / sum_(hit, dim, True)), 0.0)
    is_zero = eq(total, 0)
    # A norm of 0 has no direction; PyTorch gives it the gradient 0.
    if ord == 2:
        return where(is_zero, 0.0, input * (g / where(is_zero, 1.0, total)))
    magnitude = abs_(input)
    ratio = magnitude / where(is_zero, 1.0, total)
    return where(is_zero | eq(magnitude, 0), 0.0, g * ratio ** (float(ord) - 1.0) * sgn(input))


@vector_norm.samples
def vector_norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))
    yield Sample(normal(rng, 3, 5), 1, 1)
    yield Sample(normal(rng, 3, 5), float("inf"), 0, True)
    yield Sample(normal(rng, 3, 5), float("-inf"), 1)
    yield Sample(normal(rng, 3, 5), 3.0, (0, 1))
    yield Sample(np.zeros((2, 3), np.float32), 0)


norm = define(
    "norm(Tensor input, static p='fro', int[]? dim=None, bool keepdim=False, DType? dtype=None) -> Tensor",
    "The `p`-norm of elements; 'fro' is 2.",
    dtypes="inexact",
    variants="",
)


@norm.decompose
def norm_decompose(input: Value, p: float | str | None, dim: Dims, keepdim: bool, dtype: DType | None) -> Value:
    dims = () if dim is None or isinstance(dim, int) else dim
    require(p != "fro" or len(dims) < 3, "A004", "norm: 'fro' is of matrices, in at most two dims", dim=dim)
    return vector_norm(input, _order_of(p), dim, keepdim, dtype=dtype)


def _order_of(p: float | str | None) -> float:
    if isinstance(p, str) and p != "fro":
        fail("A006", f"norm: the order is a number or 'fro', not {p!r}")
    if p is not None and not isinstance(p, (str, int, float)):
        fail("A001", "norm: the order is a number or 'fro'", p=p)
    return 2.0 if p in ("fro", None) else float(p)


@norm.ref
def norm_ref(input: Array, p: float | str | None, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    return vector_norm_ref(input, _order_of(p), dim, keepdim, dtype)


@norm.samples
def norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))
    yield Sample(normal(rng, 3, 5), 1, 1, True)
