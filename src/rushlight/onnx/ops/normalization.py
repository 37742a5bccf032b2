"""Normalizations."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import functional
from rushlight.onnx.dtypes import dtype_of
from rushlight.onnx.registry import operator


def _per_channel(value: Tensor, x: Tensor) -> Tensor:
    return value.reshape(1, -1, *[1] * (x.dim() - 2))


@operator("BatchNormalization", counted=True)
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
    outputs: int = 1,
) -> object:
    """Channels by given statistics; in training by the batch's, with the running ones as results."""
    if not training_mode:
        return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
    dims = [0, *range(2, x.dim())]
    center, spread = x.mean(dims), x.var(dims, correction=0)
    normal = (x - _per_channel(center, x)) / rl.sqrt(_per_channel(spread, x) + epsilon)
    result = normal * _per_channel(scale, x) + _per_channel(bias, x)
    running = [old * momentum + new * (1 - momentum) for old, new in ((mean, center), (variance, spread))]
    return (result.to(x.dtype), *running)[:outputs]


@operator("InstanceNormalization")
def instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Each channel of each example for itself."""
    return functional.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@operator("GroupNormalization", 21)
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    """Groups of channels, each for itself."""
    return functional.group_norm(x, num_groups, scale, bias, epsilon)


@operator("GroupNormalization")
def group_normalization_by_group(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """Groups of channels, each for itself, with a scale for each group."""
    each = x.shape[1] // num_groups
    return functional.group_norm(x, num_groups, scale.repeat_interleave(each), bias.repeat_interleave(each), epsilon)


@operator("LayerNormalization", counted=True)
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> object:
    """All dims from `axis` on; with their means and inverse deviations."""
    shape = x.shape[axis % x.dim() :]
    wide = x.to(dtype_of(stash_type)) if x.dtype.bits < 32 else x
    if outputs == 1 and scale.shape == shape and (bias is None or bias.shape == shape):
        return functional.layer_norm(x, shape, scale, bias, epsilon)
    dims = list(range(axis % x.dim(), x.dim()))
    mean = wide.mean(dims, keepdim=True)
    inverse = (wide.var(dims, correction=0, keepdim=True) + epsilon).rsqrt()
    result = ((wide - mean) * inverse).to(x.dtype) * scale
    return (result if bias is None else result + bias, mean, inverse)[:outputs]


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """All dims from `axis` on, by the root of their mean square."""
    wide = x.to(dtype_of(stash_type)) if x.dtype.bits < 32 else x
    dims = list(range(axis % x.dim(), x.dim()))
    return (wide * (wide.square().mean(dims, keepdim=True) + epsilon).rsqrt()).to(x.dtype) * scale


@operator("LRN")
def local_response(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Tensor:
    """Numbers divided by a power of the squares of neighbouring channels."""
    before = (size - 1) // 2
    flat = [0, 0] * (x.dim() - 2) + [before, size - 1 - before]
    squares = rl.constant_pad_nd(x.square(), flat, 0.0).unfold(1, size, 1).sum(-1)
    return x / (bias + alpha / size * squares).pow(beta)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: tuple[int, ...] = (0, 2, 3)) -> Tensor:
    """Mean 0 and variance 1 along dims."""
    dims = list(axes)
    return (x - x.mean(dims, keepdim=True)) / (x.std(dims, correction=0, keepdim=True) + 1e-9)


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Vectors of length 1 along a dim; those of length 0 stay."""
    length = x.abs().sum(axis, keepdim=True) if p == 1 else x.square().sum(axis, keepdim=True).sqrt()
    return x / rl.where(length == 0, rl.ones_like(length), length)
