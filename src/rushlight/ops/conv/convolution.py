"""Convolutions of any number of spatial dims, as contractions over channels and the kernel.

`convolution` and its two adjoints, `convolution_input` and `convolution_weight`, are each other's gradients. Operands
are (batch, channels, *space) and weights (out, in / groups, *kernel).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.ir.dtype import compute_dtype
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import BLOCKED, Scalar, cast, contract
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import common_dtype
from rushlight.ops.dims import (
    Array,
    At,
    Shape,
    compute_array,
    divisible,
    guarded,
    normal,
    same_known,
    same_size,
    within,
    zero,
)
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.split import narrow
from rushlight.support.errors import fail, require
from rushlight.sym import Size, SizeExpr, axis_symbol, eq, ge, guard_or_false, optimization_hint, required

Ints = tuple[int, ...]

BY_CHANNEL = "convolution: one output channel for each group; else a batch of products, one for each group"
WRITTEN_OUT = "convolution: the kernel's sizes are these, and loops over them written out; else loops"


def per_dim(value: object, count: int, name: str, op: str) -> tuple[Any, ...]:
    """One number for each spatial dim, from one number or from as many as needed."""
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(items) == 1:
        return items * count
    require(len(items) == count, "A002", f"{op}: {name} needs 1 or {count} numbers", given=items)
    return items


def check_windows(op: str, dims: int, stride: Ints, padding: Shape, dilation: Ints, **sizes: Shape) -> None:
    """Checks how windows move over `dims` spatial dims: A004 for other counts of numbers, A002 for wrong numbers.

    `sizes` are other lists of one number for each spatial dim.
    """
    for name, items in {"stride": stride, "padding": padding, "dilation": dilation, **sizes}.items():
        fits = len(items) == dims
        require(fits, "A004", f"{op}: {name} needs one number for each of {dims} spatial dims", given=items)
    fits = all(size > 0 for size in (*stride, *dilation))
    require(fits, "A002", f"{op}: stride and dilation must be positive", stride=stride, dilation=dilation)
    fits = all(required(ge(pad, 0)) for pad in padding)
    require(fits, "A002", f"{op}: padding must not be negative", padding=padding)


def _require_groups(op: str, groups: int) -> None:
    require(groups > 0, "A002", f"{op}: groups must be positive", groups=groups)


def output_sizes(
    space: Shape, kernel: Shape, stride: Ints, padding: Shape, dilation: Ints, op: str
) -> tuple[Size, ...]:
    """Return the spatial sizes of the result of a convolution or a pooling.

    Fails with S011 when a window is larger than its padded input.
    """
    sizes: list[Size] = []
    for size, width, step, pad, gap in zip(space, kernel, stride, padding, dilation, strict=True):
        room = size + 2 * pad - gap * (width - 1) - 1
        fits = required(ge(room, 0), f"{op}: the window fits the padded input")
        text = f"{op}: the window is larger than the padded input"
        require(fits, "S011", text, input=space, kernel=kernel, padding=padding)
        sizes.append(room // step + 1)
    return tuple(sizes)


def kernel_axes(kernel: Shape) -> tuple[SizeExpr, ...]:
    """Axes over a kernel's spatial dims."""
    return tuple([axis_symbol(size, f"k{dim}") for dim, size in enumerate(kernel)])


def window_places(
    at: Sequence[Size], offset: Sequence[Size], space: Shape, stride: Ints, padding: Shape, dilation: Ints
) -> tuple[tuple[Size, ...], list[Scalar]]:
    """Return the input's places under window `at` at kernel place `offset`, and when they are inside.

    The second item lists conditions that all hold where the places are not padding.
    """
    pairs = zip(at, offset, stride, padding, dilation, strict=True)
    places = tuple([out * step + inner * gap - pad for out, inner, step, pad, gap in pairs])
    return places, [
        condition for position, size in zip(places, space, strict=True) for condition in within(position, size)
    ]


def windows_over(
    at: Sequence[Size], offset: Sequence[Size], out: Shape, stride: Ints, padding: Shape, dilation: Ints
) -> tuple[tuple[Size, ...], list[Scalar]]:
    """Return the windows that have input place `at` under kernel place `offset`, and when they exist.

    The second item lists conditions that all hold where there are such windows.
    """
    places: list[Size] = []
    conditions: list[Scalar] = []
    for position, inner, size, step, pad, gap in zip(at, offset, out, stride, padding, dilation, strict=True):
        start = position + pad - inner * gap
        conditions += [*divisible(start, step), *within(start // step, size)]
        places.append(start // step)
    return tuple(places), conditions


convolution = define(
    "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) "
    "-> Tensor",
    "Cross-correlation over any number of spatial dims, padded with zeros.",
    facts=Fact.REDUCTION,
    dtypes="number",
    autocast="lower",
    variants="function",
)


@convolution.meta
def convolution_meta(
    input: TensorType,
    weight: TensorType,
    bias: TensorType | None,
    stride: Ints,
    padding: Shape,
    dilation: Ints,
    groups: int,
) -> TensorType:
    dtype = common_dtype("convolution", input=input, weight=weight, bias=bias)
    fits = input.ndim == weight.ndim >= 3
    require(fits, "S002", "convolution: input and weight need a batch, channels and space", input=input, weight=weight)
    check_windows("convolution", input.ndim - 2, stride, padding, dilation)
    _require_groups("convolution", groups)
    if not same_size(input.shape[1], weight.shape[1] * groups):
        fail(
            "S014", "convolution: the input's channels do not fit the weight", input=input, weight=weight, groups=groups
        )
    _is_written_out(weight.shape[2:])
    divides = _is_by_channel(weight.shape[0], weight.shape[1:], groups)
    divides = divides or same_size((weight.shape[0] // groups) * groups, weight.shape[0])
    require(divides, "A002", "convolution: groups must divide the output channels", weight=weight, groups=groups)
    if bias is not None:
        fits = bias.ndim == 1 and same_size(bias.shape[0], weight.shape[0])
        require(fits, "S014", "convolution: the bias does not fit the weight", weight=weight, bias=bias)
    sizes = output_sizes(input.shape[2:], weight.shape[2:], stride, padding, dilation, "convolution")
    return TensorType((input.shape[0], weight.shape[0], *sizes), dtype, input.device)


def _is_by_channel(out: Size, kernel: Shape, groups: int) -> bool:
    """Return whether each group has one output channel and the kernel's sizes are known or guarded.

    There are no rows of a product then: what is left are short chains, which are written out step by step. `kernel`
    includes the channels of a group.
    """
    return groups != 1 and guard_or_false(eq(out, groups), BY_CHANNEL) and _is_written_out(kernel)


def _is_written_out(kernel: Shape) -> bool:
    """Whether a kernel's sizes are as given, by guards: weights seldom change them, and loops are written out."""
    return all(guard_or_false(eq(size, optimization_hint(size)), WRITTEN_OUT) for size in kernel)


def _windows(x: Array, kernel: Ints, stride: Ints, dilation: Ints, out: Ints) -> Array:
    """A view (batch, channels, *out, *kernel) of a padded input."""
    strides = (*x.strides[:2], *[s * t for s, t in zip(x.strides[2:], stride, strict=True)])
    inner = [s * t for s, t in zip(x.strides[2:], dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(x, (*x.shape[:2], *out, *kernel), (*strides, *inner), writeable=False)


def _padded(x: Array, padding: Ints) -> Array:
    return np.ascontiguousarray(np.pad(x, [(0, 0), (0, 0), *[(pad, pad) for pad in padding]]))


@convolution.ref
def convolution_ref(
    input: Array, weight: Array, bias: Array | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    x, w = _padded(compute_array(input), padding), compute_array(weight)
    space = w.ndim - 2
    out: Any = output_sizes(input.shape[2:], w.shape[2:], stride, padding, dilation, "convolution")
    windows = _windows(x, w.shape[2:], stride, dilation, out)
    batch, width, deep = x.shape[0], w.shape[0] // groups, w.shape[1]
    axes = [2, *range(3 + space, 3 + 2 * space)]
    windows = windows.reshape(batch, groups, deep, *out, *w.shape[2:])
    parts = [
        np.tensordot(w[g * width : (g + 1) * width], windows[:, g : g + 1], ([*range(1, space + 2)], axes))
        for g in range(groups)
    ]
    result = np.moveaxis(np.concatenate(parts).reshape(w.shape[0], batch, *out), 0, 1)
    if bias is not None:
        result = result + compute_array(bias).reshape(-1, *(1,) * space)
    return np.ascontiguousarray(result).astype(input.dtype)


def _divisor(width: Size) -> Size:
    """The channels of a group to divide by: without any there is nothing to compute."""
    return 1 if width == 0 else width


def _channel(of: Size, inner: Size, width: Size, deep: Size, groups: int) -> Size:
    """Return the channel at place `inner` of the group that channel `of` belongs to.

    Groups have `width` channels on the side of `of`, and `deep` on the side of the result.
    """
    return inner if groups == 1 else (of // _divisor(width)) * deep + inner


@convolution.lower
def convolution_lower(
    at: At,
    input: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Ints,
    padding: Shape,
    dilation: Ints,
    groups: int,
) -> Scalar:
    n, o, *out = at
    c, k = axis_symbol(weight.shape[1], "c"), kernel_axes(weight.shape[2:])
    places, conditions = window_places(out, k, input.shape[2:], stride, padding, dilation)
    channel = _channel(o, c, weight.shape[0] // groups, weight.shape[1], groups)
    x = guarded(conditions, input[(n, channel, *places)], zero(input.dtype))
    wide = compute_dtype(input.dtype)
    product = contract((c, *k), cast(x, wide), cast(weight[(o, c, *k)], wide), BLOCKED)
    return cast(product if bias is None else product + cast(bias[o], wide), input.dtype)


@convolution.vjp(types=("bias",))
def convolution_vjp(
    g: Value,
    input: Value,
    weight: Value,
    bias: TensorType | None,
    stride: Ints,
    padding: Shape,
    dilation: Ints,
    groups: int,
) -> Gradients:
    rule = (stride, padding, dilation, groups)
    grad_bias = None if bias is None else sum_(g, (0, *range(2, g.ndim)))
    return (
        convolution_input(g, conjugate(weight), input.shape[2:], *rule),
        convolution_weight(g, conjugate(input), weight.shape[2:], *rule),
        grad_bias,
    )


@convolution.samples
def convolution_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 5, 6), normal(rng, 4, 3, 3, 2), normal(rng, 4), (1, 1), (0, 0), (1, 1), 1)
    yield Sample(normal(rng, 2, 4, 7, 6), normal(rng, 6, 2, 3, 3), None, (2, 1), (1, 2), (1, 2), 2)
    yield Sample(normal(rng, 2, 3, 8), normal(rng, 3, 1, 3), normal(rng, 3), (3,), (1,), (1,), 3)
    yield Sample(normal(rng, 1, 2, 3, 4, 3), normal(rng, 2, 2, 2, 2, 2), None, (1, 1, 1), (1, 0, 0), (1, 1, 1), 1)


convolution_input = define(
    "convolution_input(Tensor grad, Tensor weight, Size[] input_space, int[] stride, int[] padding, int[] dilation, "
    "int groups) -> Tensor",
    "The adjoint of convolution in its input, whose spatial sizes are given: a transposed convolution.",
    facts=Fact.REDUCTION,
    dtypes="number",
    autocast="lower",
    variants="",
)


@convolution_input.meta
def convolution_input_meta(
    grad: TensorType,
    weight: TensorType,
    input_space: Shape,
    stride: Ints,
    padding: Shape,
    dilation: Ints,
    groups: int,
) -> TensorType:
    dtype = common_dtype("convolution_input", grad=grad, weight=weight)
    fits = grad.ndim == weight.ndim >= 3
    require(fits, "S002", "convolution_input: gradient and weight need space", grad=grad, weight=weight)
    check_windows("convolution_input", grad.ndim - 2, stride, padding, dilation, input_space=input_space)
    _require_groups("convolution_input", groups)
    fits = same_size(grad.shape[1], weight.shape[0])
    require(fits, "S014", "convolution_input: the channels do not fit the weight", input=grad, weight=weight)
    for size in input_space:
        require(required(ge(size, 0)), "S011", "convolution_input: the result has a negative size", size=size)
    _is_written_out(weight.shape[2:])
    _is_by_channel(weight.shape[0], weight.shape[1:], groups)
    return TensorType((grad.shape[0], weight.shape[1] * groups, *input_space), dtype, grad.device)


@convolution_input.ref
def convolution_input_ref(
    grad: Array, weight: Array, input_space: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    g, w = compute_array(grad), compute_array(weight)
    batch, width, deep = g.shape[0], w.shape[0] // groups, w.shape[1]
    shape = (batch, deep * groups, *[size + 2 * pad for size, pad in zip(input_space, padding, strict=True)])
    gradient = np.zeros(shape, g.dtype)
    for group in range(groups):
        part = g[:, group * width : (group + 1) * width]
        for inner in np.ndindex(*w.shape[2:]):
            window = tuple(
                [
                    slice(k * gap, k * gap + (size - 1) * step + 1, step) if size else slice(0, 0)
                    for k, gap, size, step in zip(inner, dilation, g.shape[2:], stride, strict=True)
                ]
            )
            kernel = w[(slice(group * width, (group + 1) * width), slice(None), *inner)]
            added = np.moveaxis(np.tensordot(kernel, part, ([0], [1])), 0, 1)
            gradient[(slice(None), slice(group * deep, (group + 1) * deep), *window)] += added
    inside = tuple([slice(pad, pad + size) for size, pad in zip(input_space, padding, strict=True)])
    return np.ascontiguousarray(gradient[(slice(None), slice(None), *inside)]).astype(grad.dtype)


@convolution_input.lower
def convolution_input_lower(
    at: At,
    grad: Operand,
    weight: Operand,
    input_space: Shape,
    stride: Ints,
    padding: Shape,
    dilation: Ints,
    groups: int,
) -> Scalar:
    n, c, *position = at
    width, deep = weight.shape[0] // groups, weight.shape[1]
    o, k = axis_symbol(width, "o"), kernel_axes(weight.shape[2:])
    windows, conditions = windows_over(position, k, grad.shape[2:], stride, padding, dilation)
    out = _channel(c, o, deep, width, groups)
    inner = c if groups == 1 else c % _divisor(deep)
    g = guarded(conditions, grad[(n, out, *windows)], zero(grad.dtype))
    wide = compute_dtype(grad.dtype)
    return cast(contract((o, *k), cast(g, wide), cast(weight[(out, inner, *k)], wide), BLOCKED), grad.dtype)


@convolution_input.vjp
def convolution_input_vjp(
    g: Value, grad: Value, weight: Value, stride: Ints, padding: Shape, dilation: Ints, groups: int
) -> Gradients:
    rule = (stride, padding, dilation, groups)
    by_grad = _cut(convolution(g, conjugate(weight), None, *rule), grad)
    return by_grad, convolution_weight(conjugate(grad), g, weight.shape[2:], *rule)


def _cut(result: Value, like: Value) -> Value:
    """Cut the spatial dims of a convolution's `result` to the sizes of `like`.

    It has more places where the other operand has space for further windows, as output padding adds.
    """
    for dim in range(2, like.ndim):
        if not same_known(result.shape[dim], like.shape[dim]):
            result = narrow(result, dim, 0, like.shape[dim])
    return result


@convolution_input.samples
def convolution_input_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 4, 3, 5), normal(rng, 4, 3, 3, 2), (5, 6), (1, 1), (0, 0), (1, 1), 1)
    yield Sample(normal(rng, 2, 6, 4, 6), normal(rng, 6, 2, 3, 3), (7, 6), (2, 1), (1, 2), (1, 2), 2)
    yield Sample(normal(rng, 2, 2, 3, 4), normal(rng, 2, 1, 2, 2), (10, 9), (2, 2), (0, 0), (3, 1), 1)


convolution_weight = define(
    "convolution_weight(Tensor grad, Tensor input, Size[] kernel, int[] stride, int[] padding, int[] dilation, "
    "int groups) -> Tensor",
    "The adjoint of convolution in its weight, whose spatial sizes are given.",
    facts=Fact.REDUCTION,
    dtypes="number",
    autocast="lower",
    variants="",
)


@convolution_weight.meta
def convolution_weight_meta(
    grad: TensorType, input: TensorType, kernel: Shape, stride: Ints, padding: Shape, dilation: Ints, groups: int
) -> TensorType:
    dtype = common_dtype("convolution_weight", grad=grad, input=input)
    fits = grad.ndim == input.ndim >= 3
    require(fits, "S002", "convolution_weight: gradient and input need space", grad=grad, input=input)
    check_windows("convolution_weight", grad.ndim - 2, stride, padding, dilation, kernel=kernel)
    _require_groups("convolution_weight", groups)
    fits = same_size(grad.shape[0], input.shape[0])
    require(fits, "S014", "convolution_weight: the batches differ", grad=grad, input=input)
    for size in (grad.shape[1], input.shape[1]):
        divides = same_size((size // groups) * groups, size)
        require(divides, "A002", "convolution_weight: groups must divide the channels", channels=size, groups=groups)
    if _is_by_channel(grad.shape[1], kernel, groups):
        same_size(input.shape[1], groups)
    return TensorType((grad.shape[1], input.shape[1] // groups, *kernel), dtype, grad.device)


@convolution_weight.ref
def convolution_weight_ref(
    grad: Array, input: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    g, x = compute_array(grad), _padded(compute_array(input), padding)
    windows = _windows(x, kernel, stride, dilation, g.shape[2:])
    width, deep = g.shape[1] // groups, x.shape[1] // groups
    axes = [0, *range(2, g.ndim)]
    parts = [
        np.tensordot(g[:, i * width : (i + 1) * width], windows[:, i * deep : (i + 1) * deep], (axes, axes))
        for i in range(groups)
    ]
    return np.concatenate(parts).astype(grad.dtype)


@convolution_weight.lower
def convolution_weight_lower(
    at: At,
    grad: Operand,
    input: Operand,
    kernel: Shape,
    stride: Ints,
    padding: Shape,
    dilation: Ints,
    groups: int,
) -> Scalar:
    o, c, *k = at
    n = axis_symbol(grad.shape[0], "n")
    out = tuple([axis_symbol(size, f"o{dim}") for dim, size in enumerate(grad.shape[2:])])
    places, conditions = window_places(out, k, input.shape[2:], stride, padding, dilation)
    channel = _channel(o, c, grad.shape[1] // groups, input.shape[1] // groups, groups)
    x = guarded(conditions, input[(n, channel, *places)], zero(input.dtype))
    wide = compute_dtype(grad.dtype)
    return cast(contract((n, *out), cast(grad[(n, o, *out)], wide), cast(x, wide), BLOCKED), grad.dtype)


@convolution_weight.vjp
def convolution_weight_vjp(
    g: Value, grad: Value, input: Value, stride: Ints, padding: Shape, dilation: Ints, groups: int
) -> Gradients:
    rule = (stride, padding, dilation, groups)
    by_grad = _cut(convolution(conjugate(input), g, None, *rule), grad)
    return by_grad, convolution_input(conjugate(grad), g, input.shape[2:], *rule)


@convolution_weight.samples
def convolution_weight_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 4, 3, 5), normal(rng, 2, 3, 5, 6), (3, 2), (1, 1), (0, 0), (1, 1), 1)
    yield Sample(normal(rng, 2, 6, 4, 6), normal(rng, 2, 4, 7, 6), (3, 3), (2, 1), (1, 2), (1, 2), 2)
