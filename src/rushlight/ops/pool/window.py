"""Pooling over windows of the last dims. Other dims may stand before them (batch and channels, or channels alone)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.ir.dtype import Kind, compute_dtype, int64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import BLOCKED, Scalar, cast, constant, index, is_nan, lift, reduce, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.conv.convolution import Ints, check_windows, kernel_axes, window_places, windows_over
from rushlight.ops.create import zeros_of
from rushlight.ops.dims import Array, At, Shape, compute_array, guarded, normal, same_size, zero
from rushlight.ops.index.write import scatter_add
from rushlight.ops.pointwise.arithmetic import truncated_quotient, truncated_quotient_array
from rushlight.ops.promote import promote_sum
from rushlight.ops.record import Fact, Sample, define
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, ceildiv, ge, maximum, minimum, product, required


def pooled_sizes(space: Shape, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> Shape:
    """The sizes of a pooling's result. In ceil mode a last window may hang over."""
    check_windows("pool", len(kernel), stride, padding, dilation)
    sizes: list[Size] = []
    for size, width, step, pad, gap in zip(space, kernel, stride, padding, dilation, strict=True):
        require(width > 0, "A002", "pool: the kernel must be positive", kernel=kernel)
        fits = pad <= width // 2
        require(fits, "A002", "pool: padding is at most half the kernel", kernel=kernel, padding=padding)
        room = size + 2 * pad - gap * (width - 1) - 1
        fits = required(ge(room, 0), "pool: the window fits the padded input")
        text = "pool: the window is larger than the padded input"
        require(fits, "S011", text, input=space, kernel=kernel, padding=padding)
        filled = required(ge(size, 1), "pool: the input has elements") if 2 * pad >= gap * (width - 1) + 1 else True
        require(filled, "S011", "pool: the windows see padding alone", input=space, kernel=kernel, padding=padding)
        count = (ceildiv(room, step) if ceil_mode else room // step) + 1
        sizes.append(minimum(count, ceildiv(size + pad, step)) if ceil_mode else count)
    return tuple(sizes)


def _pooled_type(input: TensorType, count: int, sizes: Shape) -> TensorType:
    return TensorType((*input.shape[: input.ndim - count], *sizes), input.dtype, input.device)


def _space(shape: Shape, kernel: Ints) -> tuple[Shape, Shape]:
    lead = len(shape) - len(kernel)
    require(lead >= 0, "S002", "pool: the input has too few dims", input=shape, kernel=kernel)
    return shape[:lead], shape[lead:]


def _window_arrays(
    x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints, fill: float
) -> tuple[Array, Array]:
    """(Windows (*lead, *out, elements), the flat place in space of each, -1 for padding)."""
    lead = x.ndim - len(kernel)
    space = x.shape[lead:]
    grids = np.indices((*out, *kernel))
    count = len(kernel)
    flat, inside = np.zeros(grids.shape[1:], np.int64), np.ones(grids.shape[1:], np.bool_)
    for dim in range(count):
        position = grids[dim] * stride[dim] + grids[dim + count] * dilation[dim] - padding[dim]
        inside &= (position >= 0) & (position < space[dim])
        flat = flat * space[dim] + np.clip(position, 0, space[dim] - 1)
    elements = x.reshape(*x.shape[:lead], -1)[..., flat.reshape(*out, -1)]
    inside = inside.reshape(*out, -1)
    return np.where(inside, elements, fill).astype(x.dtype), np.where(inside, flat.reshape(*out, -1), -1)


def lowest(dtype: np.dtype[Any]) -> float:
    """The least number of a dtype."""
    limits: Any = np.iinfo(np.dtype(dtype.str)) if dtype.kind in "iu" else None
    return -np.inf if limits is None else int(limits.min)


max_pool = define(
    "max_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor",
    "The largest element of each window; padding never wins.",
    facts=Fact.REDUCTION,
    dtypes="ordered",
    variants="",
)


@max_pool.meta
def max_pool_meta(
    input: TensorType, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> TensorType:
    _, space = _space(input.shape, kernel_size)
    sizes = pooled_sizes(space, kernel_size, stride, padding, dilation, ceil_mode)
    return _pooled_type(input, len(kernel_size), sizes)


@max_pool.ref
def max_pool_ref(
    input: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Array:
    _, space = _space(input.shape, kernel_size)
    out: Any = pooled_sizes(space, kernel_size, stride, padding, dilation, ceil_mode)
    windows, _ = _window_arrays(input, kernel_size, stride, padding, dilation, out, lowest(input.dtype))
    return np.max(windows, -1)


def _largest(
    at: At, input: Operand, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> tuple[Scalar, Size, Any]:
    """(An element of the window, its flat place in space, the axes over the window)."""
    lead, space = _space(input.shape, kernel_size)
    axes = kernel_axes(kernel_size)
    places, conditions = window_places(at[len(lead) :], axes, space, stride, padding, dilation)
    wide = compute_dtype(input.dtype)
    element = cast(input[(*at[: len(lead)], *places)], wide)
    flat: Size = 0
    for position, size in zip(places, space, strict=True):
        flat = flat * size + position
    return guarded(conditions, element, constant(lowest(wide.numpy), wide)), flat, axes


@max_pool.lower
def max_pool_lower(
    at: At, input: Operand, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Scalar:
    element, _, axes = _largest(at, input, kernel_size, stride, padding, dilation)
    return cast(reduce("max", axes, element, BLOCKED), input.dtype)


@max_pool.vjp
def max_pool_vjp(
    g: Value, input: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Value:
    lead, space = _space(input.shape, kernel_size)
    places = max_pool_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    count = product(g.shape[len(lead) :])
    flat = zeros_of(g, (*lead, product(space)))
    gradient = scatter_add(flat, -1, reshape(places, (*lead, count)), reshape(g, (*lead, count)))
    return reshape(gradient, input.shape)


def _max_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 6, 4), (2, 2), (2, 2), (0, 0), (1, 1), False)
    yield Sample(normal(rng, 2, 5, 6), (3, 2), (2, 1), (1, 1), (1, 2), False)
    yield Sample(normal(rng, 2, 3, 7), (2,), (2,), (0,), (1,), True)
    yield Sample(normal(rng, 1, 2, 3, 4, 5), (2, 2, 2), (1, 2, 2), (0, 1, 0), (1, 1, 1), True)


@max_pool.samples
def max_pool_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from _max_samples(rng)


max_pool_indices = define(
    "max_pool_indices(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) "
    "-> Tensor",
    "The flat place in space of each window's largest element, the first of equals.",
    facts=Fact.REDUCTION | Fact.NONDIFFERENTIABLE,
    dtypes="ordered",
    variants="",
)


@max_pool_indices.meta
def max_pool_indices_meta(
    input: TensorType, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> TensorType:
    type_ = max_pool_meta(input, kernel_size, stride, padding, dilation, ceil_mode)
    return TensorType(type_.shape, int64, input.device)


@max_pool_indices.ref
def max_pool_indices_ref(
    input: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Array:
    _, space = _space(input.shape, kernel_size)
    out: Any = pooled_sizes(space, kernel_size, stride, padding, dilation, ceil_mode)
    windows, flat = _window_arrays(input, kernel_size, stride, padding, dilation, out, lowest(input.dtype))
    best = np.argmax(windows, -1)
    return np.take_along_axis(np.broadcast_to(flat, windows.shape), best[..., None], -1)[..., 0]


@max_pool_indices.lower
def max_pool_indices_lower(
    at: At, input: Operand, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Scalar:
    element, _, axes = _largest(at, input, kernel_size, stride, padding, dilation)
    top = reduce("max", axes, element, BLOCKED)
    again, flat, axes = _largest(at, input, kernel_size, stride, padding, dilation)
    hit = again.equals(top)
    if again.type.kind is Kind.FLOAT:
        hit = hit | is_nan(again)
    lead, space = _space(input.shape, kernel_size)
    _, conditions = window_places(at[len(lead) :], axes, space, stride, padding, dilation)
    for condition in conditions:
        hit = hit & condition
    return reduce("min", axes, select(hit, index(flat), index(product(space))), BLOCKED)


@max_pool_indices.samples
def max_pool_indices_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from _max_samples(rng)


avg_pool = define(
    "avg_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, bool count_include_pad, "
    "int? divisor_override) -> Tensor",
    "The mean of each window, which integers round towards zero.",
    facts=Fact.REDUCTION,
    dtypes="ordered",
    variants="",
)


@avg_pool.meta
def avg_pool_meta(
    input: TensorType,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> TensorType:
    require(divisor_override != 0, "A002", "avg_pool: divisor_override must not be 0")
    _, space = _space(input.shape, kernel_size)
    sizes = pooled_sizes(space, kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode)
    return _pooled_type(input, len(kernel_size), sizes)


def _divisor(
    out: Sequence[Any], space: Shape, kernel: Ints, stride: Ints, padding: Ints, include: bool, override: int | None
) -> Size:
    """What the sum of window `out` is divided by: its elements in the input, with those in the padding if included."""
    if override is not None:
        return override
    count: Size = 1
    for position, size, width, step, pad in zip(out, space, kernel, stride, padding, strict=True):
        start = position * step - pad
        end = minimum(start + width, size + pad)
        count = count * (end - start if include else minimum(end, size) - maximum(start, 0))
    return count


@avg_pool.ref
def avg_pool_ref(
    input: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    x = input.astype(np.int64) if input.dtype.kind in "iu" else compute_array(input)
    _, space = _space(x.shape, kernel_size)
    ones = (1,) * len(kernel_size)
    out: Any = pooled_sizes(space, kernel_size, stride, padding, ones, ceil_mode)
    windows, _ = _window_arrays(x, kernel_size, stride, padding, ones, out, 0)
    rule: Any = (space, kernel_size, stride, padding, count_include_pad, divisor_override)
    counts = np.array([_divisor(index, *rule) for index in np.ndindex(*out)]).reshape(out)
    total, counts = np.sum(windows, -1), counts.astype(x.dtype)
    divide = truncated_quotient_array if x.dtype.kind in "iu" else np.divide
    return divide(total, counts).astype(input.dtype)


@avg_pool.lower
def avg_pool_lower(
    at: At,
    input: Operand,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Scalar:
    lead, space = _space(input.shape, kernel_size)
    out, axes = at[len(lead) :], kernel_axes(kernel_size)
    places, conditions = window_places(out, axes, space, stride, padding, (1,) * len(axes))
    wide = promote_sum(compute_dtype(input.dtype))
    element = guarded(conditions, cast(input[(*at[: len(lead)], *places)], wide), zero(wide))
    count = _divisor(out, space, kernel_size, stride, padding, count_include_pad, divisor_override)
    total, count = reduce("sum", axes, element, BLOCKED), lift(count, wide)
    mean = truncated_quotient(total, count) if wide.kind is Kind.INT else total / count
    return cast(mean, input.dtype)


@avg_pool.vjp(types=("input",))
def avg_pool_vjp(
    g: Value,
    input: TensorType,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    _, space = _space(input.shape, kernel_size)
    return avg_pool_backward(g, space, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@avg_pool.samples
def avg_pool_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 6, 4), (2, 2), (2, 2), (0, 0), False, True, None)
    yield Sample(normal(rng, 2, 5, 6), (3, 2), (2, 1), (1, 1), False, False, None)
    yield Sample(normal(rng, 2, 3, 8), (3,), (2,), (1,), True, True, None)
    yield Sample(normal(rng, 2, 5, 6), (3, 2), (2, 1), (1, 1), False, False, 5)


avg_pool_backward = define(
    "avg_pool_backward(Tensor grad, Size[] input_space, int[] kernel_size, int[] stride, int[] padding, "
    "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    "The adjoint of avg_pool.",
    facts=Fact.REDUCTION,
    dtypes="float",
    variants="",
)


@avg_pool_backward.meta
def avg_pool_backward_meta(
    grad: TensorType,
    input_space: Shape,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> TensorType:
    _, space = _space(grad.shape, kernel_size)
    ones = (1,) * len(kernel_size)
    check_windows("avg_pool_backward", len(kernel_size), stride, padding, ones, input_space=input_space)
    sizes = pooled_sizes(input_space, kernel_size, stride, padding, ones, ceil_mode)
    fits = all(same_size(size, pooled) for size, pooled in zip(space, sizes, strict=True))
    require(fits, "S009", "avg_pool_backward: the gradient does not fit the windows", grad=grad)
    return _pooled_type(grad, len(kernel_size), input_space)


@avg_pool_backward.ref
def avg_pool_backward_ref(
    grad: Array,
    input_space: Ints,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    g = compute_array(grad)
    lead = g.shape[: g.ndim - len(kernel_size)]
    gradient = np.zeros((*lead, *input_space), g.dtype)
    rule: Any = (input_space, kernel_size, stride, padding, count_include_pad, divisor_override)
    for output in np.ndindex(*g.shape[len(lead) :]):
        pairs = zip(output, stride, padding, kernel_size, strict=True)
        window = tuple(
            [slice(max(out * step - pad, 0), max(out * step - pad + width, 0)) for out, step, pad, width in pairs]
        )
        share = g[(..., *output)] / g.dtype.type(_divisor(output, *rule))
        gradient[(..., *window)] += share.reshape(*lead, *(1,) * len(output))
    return gradient.astype(grad.dtype)


@avg_pool_backward.lower
def avg_pool_backward_lower(
    at: At,
    grad: Operand,
    input_space: Shape,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Scalar:
    lead, out = _space(grad.shape, kernel_size)
    axes = kernel_axes(kernel_size)
    windows, conditions = windows_over(at[len(lead) :], axes, out, stride, padding, (1,) * len(axes))
    wide = compute_dtype(grad.dtype)
    count = _divisor(windows, input_space, kernel_size, stride, padding, count_include_pad, divisor_override)
    share = cast(grad[(*at[: len(lead)], *windows)], wide) / lift(count, wide)
    return cast(reduce("sum", axes, guarded(conditions, share, zero(wide)), BLOCKED), grad.dtype)


@avg_pool_backward.vjp
def avg_pool_backward_vjp(
    g: Value,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    return avg_pool(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@avg_pool_backward.samples
def avg_pool_backward_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 3, 2), (6, 4), (2, 2), (2, 2), (0, 0), False, True, None)
    yield Sample(normal(rng, 2, 3, 7), (5, 6), (3, 2), (2, 1), (1, 1), False, False, None)
