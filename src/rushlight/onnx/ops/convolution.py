"""Convolutions, and the sizes and padding of windows."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import functional
from rushlight.onnx.ops.shapes import padded
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Size, Value

_FORWARD = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


def window_pads(
    x: Tensor,
    kernel: Sequence[Size],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
) -> tuple[list[Size], list[Size]]:
    """The places before and after each spatial dim."""
    rank = len(kernel)
    if auto_pad in ("NOTSET", ""):
        flat = list(pads or [0] * (2 * rank))
        return flat[:rank], flat[rank:]
    if auto_pad == "VALID":
        return [0] * rank, [0] * rank
    before: list[Size] = []
    after: list[Size] = []
    for length, size, stride, dilation in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        count = -(-length // stride)
        total = rl.sym_max((count - 1) * stride + (size - 1) * dilation + 1 - length, 0)
        small = total // 2
        before.append(total - small if auto_pad == "SAME_LOWER" else small)
        after.append(small if auto_pad == "SAME_LOWER" else total - small)
    return before, after


@operator("Conv")
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """A convolution of one to three spatial dims."""
    rank = x.dim() - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    before, after = window_pads(x, weight.shape[2:], strides, dilations, pads, auto_pad)
    if before == after:
        return _FORWARD[rank](x, weight, bias, strides, tuple(before), dilations, group)
    x = padded(x, [*before, *after], list(range(2, x.dim())), 0, "constant")
    return _FORWARD[rank](x, weight, bias, strides, 0, dilations, group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """The transposed convolution: what it gives without padding, cut or extended at its ends."""
    rank = x.dim() - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    extra: Sequence[Size] = output_padding or (0,) * rank
    flat = list(pads or (0,) * (2 * rank))
    before, after = flat[:rank], flat[rank:]
    whole: list[Size] = [
        (length - 1) * stride + (size - 1) * dilation + 1 + more
        for length, stride, size, dilation, more in zip(
            x.shape[2:], strides, weight.shape[2:], dilations, extra, strict=True
        )
    ]
    if output_shape or auto_pad.startswith("SAME"):
        wanted: Sequence[Size] = output_shape or [
            length * stride for length, stride in zip(x.shape[2:], strides, strict=True)
        ]
        total: list[Size] = [rl.sym_max(full - want, 0) for full, want in zip(whole, wanted[-rank:], strict=True)]
        half = [part // 2 for part in total]
        rest = [part - small for part, small in zip(total, half, strict=True)]
        before, after = (half, rest) if auto_pad == "SAME_UPPER" else (rest, half)
        extra = tuple(
            [rl.sym_max(want - full, 0) + more for full, want, more in zip(whole, wanted[-rank:], extra, strict=True)]
        )
    ends = [more - cut for more, cut in zip(extra, after, strict=True)]
    # What extends the result has the bias too.
    bias_last = bias is not None and not all(isinstance(end, int) and end <= 0 for end in ends)
    result = _TRANSPOSED[rank](x, weight, None if bias_last else bias, strides, 0, 0, group, dilations)
    moved = padded(result, [*[-cut for cut in before], *ends], list(range(2, x.dim())), 0, "constant")
    return moved + bias.reshape(1, -1, *[1] * rank) if bias is not None and bias_last else moved


def offset_from(x: Tensor, zero: Tensor | None) -> Tensor:
    """Integers as floats, which hold sums of their products exactly, less their zero point."""
    return x.double() if zero is None else x.double() - zero.double()


OPTIONS = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@operator("ConvInteger", attributes=OPTIONS)
def conv_integer(
    x: Tensor, weight: Tensor, x_zero: Tensor | None = None, weight_zero: Tensor | None = None, **options: Value
) -> Tensor:
    """A convolution of 8-bit integers with 32-bit sums."""
    if weight_zero is not None and weight_zero.dim() == 1:
        weight_zero = weight_zero.reshape(-1, *[1] * (weight.dim() - 1))
    return conv(offset_from(x, x_zero), offset_from(weight, weight_zero), **options).to(rl.int32)


@operator("DeformConv")
def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: tuple[int, ...] = (1, 1),
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    offset_group: int = 1,
    pads: tuple[int, ...] = (0, 0, 0, 0),
    strides: tuple[int, ...] = (1, 1),
) -> Tensor:
    """A convolution whose window's places are moved by offsets, with bilinear interpolation, in two dims."""
    n, c, height, width = x.shape
    rows, columns = weight.shape[2:]
    out_rows, out_columns = offset.shape[2:]
    moved = offset.reshape(n, offset_group, rows * columns, 2, out_rows, out_columns)
    first = (rl.arange(out_rows) * strides[0] - pads[0]).reshape(1, 1, 1, -1, 1)
    second = (rl.arange(out_columns) * strides[1] - pads[1]).reshape(1, 1, 1, 1, -1)
    taps = rl.arange(rows * columns).reshape(1, 1, -1, 1, 1)
    y = first + (taps // columns) * dilations[0] + moved[:, :, :, 0]
    z = second + (taps % columns) * dilations[1] + moved[:, :, :, 1]
    grouped = x.reshape(n * offset_group, c // offset_group, height, width)
    grid = rl.stack([2 * z / (width - 1), 2 * y / (height - 1)], -1) - 1
    grid = grid.reshape(n * offset_group, rows * columns * out_rows, out_columns, 2)
    samples = functional.grid_sample(grouped, grid, align_corners=True)
    samples = samples.reshape(n, offset_group, c // offset_group, rows * columns, out_rows * out_columns)
    if mask is not None:
        samples = samples * mask.reshape(n, offset_group, 1, rows * columns, -1)
    patches = samples.reshape(n, group, c // group * rows * columns, -1)
    kernels = weight.reshape(group, weight.shape[0] // group, -1)
    result = (kernels @ patches).reshape(n, -1, out_rows, out_columns)
    return result if bias is None else result + bias.reshape(1, -1, 1, 1)


@operator("CausalConvWithState")
def causal_conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, past: Tensor | None = None, *, activation: str = "none"
) -> tuple[Tensor, Tensor]:
    """A convolution of each channel with what came before, `past`; and what later calls need."""
    window = weight.shape[-1]
    before = rl.zeros(x.shape[0], x.shape[1], window - 1, dtype=x.dtype) if past is None else past
    whole = rl.cat([before, x], -1)
    result = functional.conv1d(whole, weight, bias, groups=x.shape[1])
    if activation in ("silu", "swish"):
        result = functional.silu(result)
    return result, whole.narrow(-1, whole.shape[-1] - (window - 1), window - 1)
