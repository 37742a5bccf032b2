"""Windows over the last dims as dims of their own, and the sum of windows back in their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import compute_dtype
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import BLOCKED, Scalar, cast, reduce
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.conv.convolution import Ints, check_windows, kernel_axes, output_sizes, window_places, windows_over
from rushlight.ops.dims import Array, At, Shape, compute_array, guarded, normal, same_size, zero
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import require
from rushlight.sym import gt, required

unfold_windows = define(
    "unfold_windows(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation) -> Tensor",
    "The elements under each window over the last dims, which become dims of the kernel and dims of windows.",
    variants="",
)
fold_windows = define(
    "fold_windows(Tensor input, Size[] output_size, int[] stride, int[] padding, int[] dilation) -> Tensor",
    "The adjoint of unfold_windows: each element is the sum of what windows have at its place.",
    facts=Fact.REDUCTION,
    dtypes="number",
    variants="",
)


def _require_kernel(op: str, kernel: Shape) -> None:
    fits = all(required(gt(size, 0)) for size in kernel)
    require(fits, "A002", f"{op}: the kernel must be positive", kernel_size=kernel)


@unfold_windows.meta
def unfold_windows_meta(
    input: TensorType, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> TensorType:
    count = len(kernel_size)
    require(count <= input.ndim, "S002", "unfold: the input has too few dims", input=input, kernel_size=kernel_size)
    check_windows("unfold", count, stride, padding, dilation)
    _require_kernel("unfold", kernel_size)
    lead, space = input.shape[: input.ndim - count], input.shape[input.ndim - count :]
    out = output_sizes(space, kernel_size, stride, padding, dilation, "unfold")
    return TensorType((*lead, *kernel_size, *out), input.dtype, input.device)


@unfold_windows.ref
def unfold_windows_ref(input: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Array:
    count = len(kernel_size)
    lead, space = input.shape[: input.ndim - count], input.shape[input.ndim - count :]
    out: Any = output_sizes(space, kernel_size, stride, padding, dilation, "unfold")
    result = np.zeros((*lead, *kernel_size, *out), input.dtype)
    for offset in np.ndindex(*kernel_size):
        for window in np.ndindex(*out):
            rule = zip(window, offset, stride, padding, dilation, strict=True)
            position = [at * step + inner * gap - pad for at, inner, step, pad, gap in rule]
            if all(0 <= one < size for one, size in zip(position, space, strict=True)):
                result[(..., *offset, *window)] = input[(..., *position)]
    return result


@unfold_windows.lower
def unfold_windows_lower(
    at: At, input: Operand, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Scalar:
    count = len(kernel_size)
    lead, offset, window = at[: len(at) - 2 * count], at[len(at) - 2 * count : len(at) - count], at[len(at) - count :]
    places, conditions = window_places(window, offset, input.shape[len(lead) :], stride, padding, dilation)
    return guarded(conditions, input[(*lead, *places)], zero(input.dtype))


@unfold_windows.vjp(types=("input",))
def unfold_windows_vjp(
    g: Value, input: TensorType, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Value:
    return fold_windows(g, input.shape[input.ndim - len(kernel_size) :], stride, padding, dilation)


@unfold_windows.samples
def unfold_windows_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 5, 4), (2, 3), (1, 2), (0, 1), (2, 1))
    yield Sample(normal(rng, 7), (3,), (2,), (1,), (1,))


@fold_windows.meta
def fold_windows_meta(input: TensorType, output_size: Shape, stride: Ints, padding: Ints, dilation: Ints) -> TensorType:
    count = len(output_size)
    require(2 * count <= input.ndim, "S002", "fold: the input has too few dims", input=input, output_size=output_size)
    check_windows("fold", count, stride, padding, dilation)
    lead = input.shape[: input.ndim - 2 * count]
    kernel, windows = input.shape[len(lead) : len(lead) + count], input.shape[len(lead) + count :]
    _require_kernel("fold", kernel)
    expected = output_sizes(output_size, kernel, stride, padding, dilation, "fold")
    fits = all(same_size(one, other) for one, other in zip(windows, expected, strict=True))
    require(fits, "S009", "fold: the output has another number of windows", input=input, output_size=output_size)
    return TensorType((*lead, *output_size), input.dtype, input.device)


@fold_windows.ref
def fold_windows_ref(input: Array, output_size: tuple[int, ...], stride: Ints, padding: Ints, dilation: Ints) -> Array:
    x, count = compute_array(input), len(output_size)
    lead = x.shape[: x.ndim - 2 * count]
    result = np.zeros((*lead, *output_size), x.dtype)
    for offset in np.ndindex(*x.shape[len(lead) : len(lead) + count]):
        for window in np.ndindex(*x.shape[len(lead) + count :]):
            rule = zip(window, offset, stride, padding, dilation, strict=True)
            position = [at * step + inner * gap - pad for at, inner, step, pad, gap in rule]
            if all(0 <= one < size for one, size in zip(position, output_size, strict=True)):
                result[(..., *position)] += x[(..., *offset, *window)]
    return result.astype(input.dtype)


@fold_windows.lower
def fold_windows_lower(
    at: At, input: Operand, output_size: Shape, stride: Ints, padding: Ints, dilation: Ints
) -> Scalar:
    count = len(output_size)
    lead, position = at[: len(at) - count], at[len(at) - count :]
    axes = kernel_axes(input.shape[len(lead) : len(lead) + count])
    windows, conditions = windows_over(position, axes, input.shape[len(lead) + count :], stride, padding, dilation)
    wide = compute_dtype(input.dtype)
    part = cast(input[(*lead, *axes, *windows)], wide)
    return cast(reduce("sum", axes, guarded(conditions, part, zero(wide)), BLOCKED), input.dtype)


@fold_windows.vjp(types=("input",))
def fold_windows_vjp(
    g: Value, input: TensorType, output_size: Shape, stride: Ints, padding: Ints, dilation: Ints
) -> Value:
    count = len(output_size)
    lead = input.ndim - 2 * count
    return unfold_windows(g, input.shape[lead : lead + count], stride, padding, dilation)


@fold_windows.samples
def fold_windows_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 2, 3, 3, 2), (5, 4), (1, 2), (0, 1), (2, 1))
    yield Sample(normal(rng, 3, 4), (7,), (2,), (1,), (1,))
