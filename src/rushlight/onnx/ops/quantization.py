"""Quantized numbers."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.dtypes import dtype_of
from rushlight.onnx.ops.convolution import OPTIONS, conv, offset_from
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Value, saturated, to_dtype


def _fitted(value: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point as it broadcasts with `x`: one for all, for each index of a dim, or for each block."""
    if value.dim() == 0 or value.numel() == 1:
        return value.reshape([1] * x.dim())
    if block:
        return value.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    if value.dim() == x.dim():
        return value
    shape = [1] * x.dim()
    shape[axis] = -1
    return value.reshape(shape)


@operator("QuantizeLinear")
def quantize(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """Numbers divided by a scale, rounded to even, moved by a zero point and clamped."""
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype or 2)
    number = x.float() if not x.is_floating_point() else x
    scaled = number / _fitted(scale.to(number.dtype), x, axis, block_size)
    if dtype.kind == "f":
        return to_dtype(scaled, dtype, bool(saturate))
    rounded = scaled.float().round()
    if zero is not None:
        rounded = rounded + _fitted(zero, x, axis, block_size).float()
    return saturated(rounded, dtype)


@operator("DequantizeLinear")
def dequantize(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """Numbers less a zero point, times a scale."""
    number = x.float()
    if zero is not None:
        number = number - _fitted(zero.float(), x, axis, block_size)
    result = number * _fitted(scale.float(), x, axis, block_size)
    return result.to(dtype_of(output_dtype) if output_dtype else scale.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers in 8 bits, with the scale and zero point of their range."""
    zero = rl.zeros((), dtype=x.dtype)
    low, high = rl.minimum(x.amin(), zero), rl.maximum(x.amax(), zero)
    scale = (high - low) / 255
    scale = rl.where(scale == 0, rl.ones_like(scale), scale)
    point = (-low / scale).clamp(0, 255).round()
    return saturated((x / scale).round() + point, rl.uint8), scale, point.to(rl.uint8)


def _product(a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None) -> Tensor:
    """The product of integers less their zero points, of which `a` may have one for each row."""
    if a_zero is not None and a_zero.dim() == 1 and a_zero.numel() > 1:
        a_zero = a_zero.unsqueeze(-1)
    return offset_from(a, a_zero) @ offset_from(b, b_zero)


@operator("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """A product of 8-bit integers with 32-bit sums."""
    return _product(a, a_zero, b, b_zero).to(rl.int32)


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    """A product of quantized matrices, quantized."""
    product = _product(a, a_zero, b, b_zero)
    factor = a_scale.double() * b_scale.double() / scale.double()
    return saturated((product * factor).round() + zero.double(), zero.dtype)


@operator("QLinearConv", attributes=OPTIONS)
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
    **options: Value,
) -> Tensor:
    """A convolution of quantized numbers, quantized."""
    channels = (-1, *[1] * (weight.dim() - 1))
    total = conv(offset_from(x, x_zero), offset_from(weight, weight_zero.reshape(channels)), **options)
    if bias is not None:
        total = total + bias.double().reshape(channels[:-1])
    factor = x_scale.double() * weight_scale.double().reshape(channels[:-1]) / scale.double()
    return saturated((total * factor).round() + zero.double(), zero.dtype)
