"""Normalisation layers. Statistics are taken in float32 or wider and the result is rounded once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import count_of
from rushlight.ops.dims import Array, Shape, compute_array, convert, normal, same_shape, same_size, widened
from rushlight.ops.pointwise.elementary import rsqrt
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Gradients, Sample, define
from rushlight.ops.reduce.moment import centred_squares
from rushlight.ops.reduce.reduction import mean, reduced_count, sum_
from rushlight.ops.view.reorder import detach
from rushlight.ops.view.reshape import contiguous, reshape
from rushlight.support.errors import require
from rushlight.sym import Size, maximum, product


def _normalised_dims(shape: Shape, normalized_shape: Shape, op: str) -> tuple[int, ...]:
    count = len(normalized_shape)
    fits = 0 < count <= len(shape) and same_shape(shape[len(shape) - count :], normalized_shape)
    require(fits, "S014", f"{op}: the input does not end in the normalized shape", input=shape, shape=normalized_shape)
    return tuple(range(len(shape) - count, len(shape)))


def _require_like(op: str, shape: Shape, **given: Value | None) -> None:
    for name, value in given.items():
        if value is not None:
            require(
                same_shape(value.shape, shape), "S014", f"{op}: the {name} does not fit", shape=shape, given=value.shape
            )


def standardised(x: Value, dims: tuple[int, ...], eps: float) -> tuple[Value, Value]:
    """(x less its mean and over its deviation, 1 over the deviation), in the dtype of `x`."""
    middle, squares = centred_squares(x, dims)
    scale = rsqrt(mean(squares, dims, True) + eps)
    return (x - middle) * scale, scale


layer_norm = define(
    "layer_norm(Tensor input, Size[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) "
    "-> Tensor",
    "Normalised over the last dims to mean 0 and variance 1, then scaled and shifted.",
    dtypes="float",
    variants="function",
)


@layer_norm.decompose
def layer_norm_decompose(
    input: Value, normalized_shape: Shape, weight: Value | None, bias: Value | None, eps: float
) -> Value:
    dims = _normalised_dims(input.shape, normalized_shape, "layer_norm")
    _require_like("layer_norm", normalized_shape, weight=weight, bias=bias)
    result, _ = standardised(widened(input), dims, eps)
    if weight is not None:
        result = result * widened(weight)
    if bias is not None:
        result = result + widened(bias)
    return contiguous(convert(result, input.dtype))


@layer_norm.ref
def layer_norm_ref(
    input: Array, normalized_shape: tuple[int, ...], weight: Array | None, bias: Array | None, eps: float
) -> Array:
    x, axes = compute_array(input), tuple(range(input.ndim - len(normalized_shape), input.ndim))
    offset = x - np.mean(x, axes, keepdims=True)
    normed = offset / np.sqrt(np.mean(offset * offset, axes, keepdims=True) + x.dtype.type(eps))
    normed = normed if weight is None else normed * compute_array(weight)
    return (normed if bias is None else normed + compute_array(bias)).astype(input.dtype)


@layer_norm.vjp(types=("bias",))
def layer_norm_vjp(
    g: Value, input: Value, normalized_shape: Shape, weight: Value | None, bias: TensorType | None, eps: float
) -> Gradients:
    grad = layer_norm_backward(g, input, normalized_shape, weight, eps)
    rows = tuple(range(input.ndim - len(normalized_shape)))
    grad_weight = grad_bias = None
    if weight is not None:  # of its own dtype, which under autocast is wider than the input's
        wide, of = convert(g, weight.dtype), convert(input, weight.dtype)
        grad_weight = layer_norm_backward_weight(wide, of, normalized_shape, eps)
    if bias is not None:
        wide = convert(g, bias.dtype)
        grad_bias = sum_(wide, rows) if rows else wide
    return grad, grad_weight, grad_bias


@layer_norm.samples
def layer_norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), (5,), normal(rng, 5), normal(rng, 5))
    yield Sample(normal(rng, 2, 3, 4), (3, 4))
    yield Sample(normal(rng, 2, 3, 4), (4,), normal(rng, 4), eps=1e-3)
    yield Sample(normal(rng, 6), (6,), normal(rng, 6), normal(rng, 6))


layer_norm_backward = define(
    "layer_norm_backward(Tensor grad, Tensor input, Size[] normalized_shape, Tensor? weight, float eps) -> Tensor",
    "The gradient of layer_norm's input.",
    dtypes="float",
    variants="function",
)


@layer_norm_backward.decompose
def layer_norm_backward_decompose(
    grad: Value, input: Value, normalized_shape: Shape, weight: Value | None, eps: float
) -> Value:
    dims = _normalised_dims(input.shape, normalized_shape, "layer_norm")
    unit, scale = standardised(widened(input), dims, eps)
    g = widened(grad) if weight is None else widened(grad) * widened(weight)
    return convert(_unnormalised(g, unit, scale, dims), input.dtype)


def _unnormalised(g: Value, unit: Value, scale: Value, dims: tuple[int, ...]) -> Value:
    """The gradient of x, given that of `unit`, x standardised: g less its parts along 1 and along `unit`."""
    return (g - mean(g, dims, True) - unit * mean(g * unit, dims, True)) * scale


@layer_norm_backward.ref
def layer_norm_backward_ref(
    grad: Array, input: Array, normalized_shape: tuple[int, ...], weight: Array | None, eps: float
) -> Array:
    x, axes = compute_array(input), tuple(range(input.ndim - len(normalized_shape), input.ndim))
    unit, scale = _standardised_array(x, axes, eps)
    g = compute_array(grad) if weight is None else compute_array(grad) * compute_array(weight)
    along = unit * np.mean(g * unit, axes, keepdims=True)
    return ((g - np.mean(g, axes, keepdims=True) - along) * scale).astype(input.dtype)


def _standardised_array(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    offset = x - np.mean(x, axes, keepdims=True)
    scale = 1 / np.sqrt(np.mean(offset * offset, axes, keepdims=True) + x.dtype.type(eps))
    return offset * scale, scale


@layer_norm_backward.samples
def layer_norm_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5), (5,), normal(rng, 5), 1e-5)
    yield Sample(normal(rng, 2, 3, 4), normal(rng, 2, 3, 4), (3, 4), None, 1e-5)


layer_norm_backward_weight = define(
    "layer_norm_backward_weight(Tensor grad, Tensor input, Size[] normalized_shape, float eps) -> Tensor",
    "The gradient of layer_norm's weight.",
    dtypes="float",
    variants="function",
)


@layer_norm_backward_weight.decompose
def layer_norm_backward_weight_decompose(grad: Value, input: Value, normalized_shape: Shape, eps: float) -> Value:
    dims = _normalised_dims(input.shape, normalized_shape, "layer_norm")
    unit, _ = standardised(widened(input), dims, eps)
    rows = tuple(range(input.ndim - len(normalized_shape)))
    products = widened(grad) * unit
    return convert(sum_(products, rows) if rows else products, input.dtype)


@layer_norm_backward_weight.ref
def layer_norm_backward_weight_ref(grad: Array, input: Array, normalized_shape: tuple[int, ...], eps: float) -> Array:
    lead = input.ndim - len(normalized_shape)
    unit, _ = _standardised_array(compute_array(input), tuple(range(lead, input.ndim)), eps)
    return np.sum(compute_array(grad) * unit, tuple(range(lead))).astype(input.dtype)


@layer_norm_backward_weight.samples
def layer_norm_backward_weight_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), normal(rng, 3, 5), (5,), 1e-5)


rms_norm = define(
    "rms_norm(Tensor input, Size[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    "Divided by the root of the mean square over the last dims, then scaled; eps defaults to the dtype's epsilon.",
    dtypes="inexact",
    variants="function",
)


def _default_eps(eps: float | None, dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).eps) if eps is None else eps


@rms_norm.decompose
def rms_norm_decompose(input: Value, normalized_shape: Shape, weight: Value | None, eps: float | None) -> Value:
    dims = _normalised_dims(input.shape, normalized_shape, "rms_norm")
    _require_like("rms_norm", normalized_shape, weight=weight)
    x = widened(input)
    normed = x * rsqrt(mean(x * x, dims, True) + _default_eps(eps, x.dtype.numpy))
    return contiguous(convert(normed if weight is None else normed * widened(weight), input.dtype))


@rms_norm.ref
def rms_norm_ref(input: Array, normalized_shape: tuple[int, ...], weight: Array | None, eps: float | None) -> Array:
    x, axes = compute_array(input), tuple(range(input.ndim - len(normalized_shape), input.ndim))
    normed = x / np.sqrt(np.mean(x * x, axes, keepdims=True) + x.dtype.type(_default_eps(eps, x.dtype)))
    return (normed if weight is None else normed * compute_array(weight)).astype(input.dtype)


@rms_norm.samples
def rms_norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5), (5,), normal(rng, 5), 1e-6)
    yield Sample(normal(rng, 2, 3, 4), (3, 4))


batch_norm = define(
    "batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, "
    "bool training=False, float momentum=0.1, float eps=1e-05) "
    "-> (Tensor out, Tensor new_running_mean, Tensor new_running_var)",
    "Normalised per channel (dim 1) by the batch's statistics when training, else by the running ones. Nothing is "
    "written: the running statistics' new values are results.",
    dtypes="float",
    variants="function",
)


def _channel_dims(ndim: int) -> tuple[int, ...]:
    return tuple([dim for dim in range(ndim) if dim != 1])


def _per_channel(value: Value, ndim: int) -> Value:
    shape: tuple[Size, ...] = tuple([value.shape[0] if dim == 1 else 1 for dim in range(ndim)])
    return reshape(value, shape)


@batch_norm.decompose
def batch_norm_decompose(
    input: Value,
    running_mean: Value | None,
    running_var: Value | None,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    require(input.ndim >= 2, "S002", "batch_norm: the input needs at least 2 dims", input=input.shape)
    channels = (input.shape[1],)
    _require_like("batch_norm", channels, weight=weight, bias=bias, mean=running_mean, var=running_var)
    x, dims = widened(input), _channel_dims(input.ndim)
    if training:
        middle, squares = centred_squares(x, dims)
        spread, count = mean(squares, dims, True), reduced_count(x.shape, dims, "batch_norm")
        number = count_of(x, count)
        new_mean = _blended(running_mean, reshape(middle, channels), momentum, number)
        unbiased = spread * number / count_of(x, maximum(count - 1, 0))
        new_var = _blended(running_var, reshape(unbiased, channels), momentum, number)
    else:
        given = running_mean is not None and running_var is not None
        require(given, "A004", "batch_norm: evaluation needs running statistics")
        assert running_mean is not None
        assert running_var is not None
        middle, spread = _per_channel(widened(running_mean), x.ndim), _per_channel(widened(running_var), x.ndim)
        new_mean, new_var = detach(running_mean), detach(running_var)
    result = (x - middle) * rsqrt(spread + eps)
    if weight is not None:
        result = result * _per_channel(widened(weight), x.ndim)
    if bias is not None:
        result = result + _per_channel(widened(bias), x.ndim)
    return convert(result, input.dtype), new_mean, new_var


def _blended(running: Value | None, batch: Value, momentum: float, count: Value | int) -> Value:
    """Running statistics moved towards those of a batch, unless that is empty."""
    batch = detach(batch)
    if running is None:
        return batch
    moved = convert(running * (1.0 - momentum) + batch * momentum, running.dtype)
    if isinstance(count, int):
        return detach(moved if count else running)
    return detach(where(count > 0, moved, running))


@batch_norm.ref
def batch_norm_ref(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None,
    bias: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    x = compute_array(input)
    axes, shape = _channel_dims(x.ndim), tuple([-1 if dim == 1 else 1 for dim in range(x.ndim)])
    count = x.size // max(x.shape[1], 1)
    if training:
        middle, spread = np.mean(x, axes), np.var(x, axes)
        unbiased = spread * x.dtype.type(count / max(count - 1, 1))
        moved = momentum if count else 0.0
        if not count:
            middle, unbiased = np.zeros_like(middle), np.zeros_like(unbiased)
        new_mean = middle if running_mean is None else running_mean * (1 - moved) + middle * moved
        new_var = unbiased if running_var is None else running_var * (1 - moved) + unbiased * moved
    else:
        assert running_mean is not None
        assert running_var is not None
        middle, spread = compute_array(running_mean), compute_array(running_var)
        new_mean, new_var = running_mean, running_var
    result = (x - middle.reshape(shape)) / np.sqrt(spread.reshape(shape) + x.dtype.type(eps))
    result = result if weight is None else result * compute_array(weight).reshape(shape)
    result = result if bias is None else result + compute_array(bias).reshape(shape)
    mean_dtype = x.dtype if running_mean is None else running_mean.dtype
    return result.astype(input.dtype), new_mean.astype(mean_dtype), new_var.astype(mean_dtype)


@batch_norm.samples
def batch_norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    stats = normal(rng, 3), np.abs(normal(rng, 3)) + 0.5
    yield Sample(normal(rng, 4, 3, 2, 2), *stats, normal(rng, 3), normal(rng, 3), True)
    yield Sample(normal(rng, 4, 3, 2, 2), *stats, normal(rng, 3), normal(rng, 3), False)
    yield Sample(normal(rng, 5, 3), None, None, training=True)


group_norm = define(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    "Normalised over groups of channels (dim 1) and the dims after, then scaled and shifted per channel.",
    dtypes="float",
    variants="function",
)


@group_norm.decompose
def group_norm_decompose(input: Value, num_groups: int, weight: Value | None, bias: Value | None, eps: float) -> Value:
    require(input.ndim >= 2, "S002", "group_norm: the input needs at least 2 dims", input=input.shape)
    require(num_groups > 0, "A002", "group_norm: num_groups must be positive", num_groups=num_groups)
    _require_like("group_norm", (input.shape[1],), weight=weight, bias=bias)
    per_group = input.shape[1] // num_groups
    divides = same_size(per_group * num_groups, input.shape[1])
    require(divides, "A002", "group_norm: num_groups must divide the number of channels", input=input.shape)
    grouped = reshape(widened(input), (input.shape[0], num_groups, per_group * product(input.shape[2:])))
    unit, _ = standardised(grouped, (2,), eps)
    result = reshape(unit, input.shape)
    if weight is not None:
        result = result * _per_channel(widened(weight), input.ndim)
    if bias is not None:
        result = result + _per_channel(widened(bias), input.ndim)
    return convert(result, input.dtype)


@group_norm.ref
def group_norm_ref(input: Array, num_groups: int, weight: Array | None, bias: Array | None, eps: float) -> Array:
    x = compute_array(input)
    unit, _ = _standardised_array(x.reshape(x.shape[0], num_groups, -1), (2,), eps)
    shape = tuple([-1 if dim == 1 else 1 for dim in range(x.ndim)])
    normed = unit.reshape(x.shape)
    normed = normed if weight is None else normed * compute_array(weight).reshape(shape)
    return (normed if bias is None else normed + compute_array(bias).reshape(shape)).astype(input.dtype)


@group_norm.samples
def group_norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 6, 4), 3, normal(rng, 6), normal(rng, 6))
    yield Sample(normal(rng, 2, 4, 2, 3), 2)


instance_norm = define(
    "instance_norm(Tensor input, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    "Normalised per sample and channel over the dims after.",
    dtypes="float",
    variants="function",
)


@instance_norm.decompose
def instance_norm_decompose(input: Value, weight: Value | None, bias: Value | None, eps: float) -> Value:
    require(input.ndim >= 3, "S002", "instance_norm: the input needs at least 3 dims", input=input.shape)
    _require_like("instance_norm", (input.shape[1],), weight=weight, bias=bias)
    unit, _ = standardised(widened(input), tuple(range(2, input.ndim)), eps)
    if weight is not None:
        unit = unit * _per_channel(widened(weight), input.ndim)
    if bias is not None:
        unit = unit + _per_channel(widened(bias), input.ndim)
    return convert(unit, input.dtype)


@instance_norm.ref
def instance_norm_ref(input: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    return group_norm_ref(input, input.shape[1], weight, bias, eps)


@instance_norm.samples
def instance_norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), normal(rng, 3), normal(rng, 3))
