"""PyTorch's names for convolutions: conv1d to conv3d and their transposes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.value import Value
from rushlight.ops.conv.convolution import (
    Ints,
    convolution,
    convolution_input,
    convolution_input_ref,
    convolution_ref,
    per_dim,
)
from rushlight.ops.dims import Array, Shape, compute_array, normal, same_size
from rushlight.ops.join import constant_pad_nd
from rushlight.ops.record import Operator, Sample, define
from rushlight.ops.view.reorder import squeeze, unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, SizeExpr


def _named(dims: int) -> Operator:
    name = f"conv{dims}d"
    op = define(
        f"{name}(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, static padding=0, int[] dilation=1, "
        "int groups=1) -> Tensor",
        f'Cross-correlation over {dims} spatial dims. padding: numbers, "valid" (none) or "same" (the input\'s sizes).',
        dtypes="number",
        autocast="lower",
        variants="function",
    )

    @op.decompose
    def conv_decompose(
        input: Value,
        weight: Value,
        bias: Value | None,
        stride: Ints,
        padding: Ints | int | str,
        dilation: Ints,
        groups: int,
    ) -> Value:
        batched = _batched(input, dims, name)
        fits = weight.ndim == dims + 2
        require(fits, "S002", f"{name}: the weight needs {dims + 2} dims", weight=weight.shape)
        steps, gaps = per_dim(stride, dims, "stride", name), per_dim(dilation, dims, "dilation", name)
        before, after = _sides(padding, weight.shape[2:], steps, gaps, name)
        extra = tuple(
            [size for low, high in reversed(list(zip(before, after, strict=True))) for size in (0, high - low)]
        )
        if before != after:
            batched = constant_pad_nd(batched, extra)
        result = convolution(batched, weight, bias, steps, before, gaps, groups)
        return result if input.ndim == dims + 2 else squeeze(result, 0)

    @op.ref
    def conv_ref(
        input: Array,
        weight: Array,
        bias: Array | None,
        stride: Ints,
        padding: Ints | int | str,
        dilation: Ints,
        groups: int,
    ) -> Array:
        batched = input if input.ndim == dims + 2 else input[None]
        steps, gaps = per_dim(stride, dims, "stride", name), per_dim(dilation, dims, "dilation", name)
        before, after = _sides(padding, weight.shape[2:], steps, gaps, name)
        extra: Any = [(0, 0), (0, 0), *[(0, high - low) for low, high in zip(before, after, strict=True)]]
        sides = tuple([int(low) for low in before])
        result = convolution_ref(np.pad(batched, extra), weight, bias, steps, sides, gaps, groups)
        return result if input.ndim == dims + 2 else result[0]

    @op.samples
    def conv_samples(rng: np.random.Generator) -> Iterator[Sample]:
        space, kernel = (5, 6, 4)[:dims], (3, 2, 2)[:dims]
        yield Sample(normal(rng, 2, 3, *space), normal(rng, 4, 3, *kernel), normal(rng, 4))
        yield Sample(normal(rng, 2, 4, *space), normal(rng, 4, 2, *kernel), stride=2, padding=1, groups=2)
        yield Sample(normal(rng, 3, *space), normal(rng, 2, 3, *kernel), padding="same")

    return op


def _batched(input: Value, dims: int, op: str) -> Value:
    fits = input.ndim in (dims + 1, dims + 2)
    require(fits, "S002", f"{op}: the input needs {dims + 1} or {dims + 2} dims", input=input.shape)
    return input if input.ndim == dims + 2 else unsqueeze(input, 0)


def _sides(padding: Ints | int | str, kernel: Shape, stride: Ints, dilation: Ints, op: str) -> tuple[Shape, Shape]:
    """The padding before and after each dim. "same" adds an odd element after, as PyTorch does."""
    if padding == "valid":
        padding = 0
    if padding != "same":
        sides = per_dim(padding, len(kernel), "padding", op)
        fits = all(isinstance(size, (int, SizeExpr)) for size in sides)
        require(fits, "A002", f'{op}: padding is ints, "valid" or "same"', padding=padding)
        return sides, sides
    require(all(step == 1 for step in stride), "A004", f'{op}: padding "same" needs stride 1', stride=stride)
    total = [gap * (width - 1) for gap, width in zip(dilation, kernel, strict=True)]
    return tuple([size // 2 for size in total]), tuple([size - size // 2 for size in total])


conv1d = _named(1)
conv2d = _named(2)
conv3d = _named(3)


def _transposed(dims: int) -> Operator:
    name = f"conv_transpose{dims}d"
    op = define(
        f"{name}(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, "
        "int[] output_padding=0, int groups=1, int[] dilation=1) -> Tensor",
        f"The adjoint of conv{dims}d as a layer: weights are (in, out / groups, *kernel).",
        dtypes="number",
        autocast="lower",
        variants="function",
    )

    @op.decompose
    def conv_transpose_decompose(
        input: Value,
        weight: Value,
        bias: Value | None,
        stride: Ints,
        padding: Ints,
        output_padding: Ints,
        groups: int,
        dilation: Ints,
    ) -> Value:
        batched = _batched(input, dims, name)
        rule = _rule(stride, padding, dilation, dims, name)
        extra = per_dim(output_padding, dims, "output_padding", name)
        space = _transposed_space(batched.shape[2:], weight.shape[2:], *rule, extra)
        result = convolution_input(batched, weight, space, *rule, groups)
        if bias is not None:
            fits = bias.ndim == 1 and same_size(bias.shape[0], result.shape[1])
            require(fits, "S014", f"{name}: the bias does not fit the weight", bias=bias.shape, weight=weight.shape)
            result = result + reshape(bias, (bias.shape[0], *(1,) * dims))
        return result if input.ndim == dims + 2 else squeeze(result, 0)

    @op.ref
    def conv_transpose_ref(
        input: Array,
        weight: Array,
        bias: Array | None,
        stride: Ints,
        padding: Ints,
        output_padding: Ints,
        groups: int,
        dilation: Ints,
    ) -> Array:
        batched = input if input.ndim == dims + 2 else input[None]
        rule = _rule(stride, padding, dilation, dims, name)
        extra = per_dim(output_padding, dims, "output_padding", name)
        space: Any = _transposed_space(batched.shape[2:], weight.shape[2:], *rule, extra)
        result = compute_array(convolution_input_ref(batched, weight, space, *rule, groups))
        if bias is not None:
            result = result + compute_array(bias).reshape(-1, *(1,) * dims)
        result = result.astype(input.dtype)
        return result if input.ndim == dims + 2 else result[0]

    @op.samples
    def conv_transpose_samples(rng: np.random.Generator) -> Iterator[Sample]:
        space, kernel = (3, 4, 2)[:dims], (3, 2, 2)[:dims]
        yield Sample(normal(rng, 2, 3, *space), normal(rng, 3, 2, *kernel), normal(rng, 2))
        yield Sample(normal(rng, 2, 4, *space), normal(rng, 4, 2, *kernel), None, 2, 1, 1, 2)

    return op


def _rule(stride: Ints, padding: Ints, dilation: Ints, dims: int, op: str) -> tuple[Ints, Ints, Ints]:
    return (
        per_dim(stride, dims, "stride", op),
        per_dim(padding, dims, "padding", op),
        per_dim(dilation, dims, "dilation", op),
    )


def _transposed_space(
    space: Shape, kernel: Shape, stride: Ints, padding: Shape, dilation: Ints, extra: Shape
) -> tuple[Size, ...]:
    require(len(space) == len(kernel), "S002", "convolution: input and weight have one number of dims", weight=kernel)
    parts = zip(space, kernel, stride, padding, dilation, extra, strict=True)
    return tuple(
        [(size - 1) * step - 2 * pad + gap * (width - 1) + more + 1 for size, width, step, pad, gap, more in parts]
    )


conv_transpose1d = _transposed(1)
conv_transpose2d = _transposed(2)
conv_transpose3d = _transposed(3)
