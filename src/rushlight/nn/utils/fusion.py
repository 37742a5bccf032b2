"""Batch norms in evaluation mode, taken into the layer before them."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.modules.module import Module
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

T = TypeVar("T", bound=Module)
Weights = tuple[Parameter, Parameter]


def _fused(
    weight: Tensor,
    bias: Tensor | None,
    running: tuple[Tensor, Tensor, float],
    scale: Tensor | None,
    shift: Tensor | None,
    channel: int,
) -> Weights:
    """Weight and bias of a layer and the batch norm after it; outputs are counted by the dim `channel`."""
    mean, variance, eps = running
    factor = ops.rsqrt(variance + eps)
    factor = factor if scale is None else scale * factor
    require(
        factor.shape[0] in (1, weight.shape[channel]),
        "S014",
        "fusion: the batch norm has another number of channels than the layer before it",
        weight=weight,
        running_mean=mean,
    )
    shape = [-1 if at == channel else 1 for at in range(weight.ndim)]
    moved = -mean if bias is None else bias - mean
    result = moved * factor if shift is None else moved * factor + shift
    fused = (weight * factor.reshape(shape)).to(weight.dtype)
    trained = weight.requires_grad
    dtype = weight.dtype if bias is None else bias.dtype
    return (
        Parameter(fused.detach(), requires_grad=trained),
        Parameter(result.to(dtype).detach(), requires_grad=trained if bias is None else bias.requires_grad),
    )


@checked
def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> Weights:
    """Return weight and bias of a convolution and the batch norm after it, in one.

    `bn_rm` and `bn_rv` are running mean and variance. A transposed convolution's weight counts outputs by its second
    dim.
    """
    return _fused(conv_w, conv_b, (bn_rm, bn_rv, bn_eps), bn_w, bn_b, 1 if transpose else 0)


@checked
def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> Weights:
    """Return weight and bias of a linear layer and the batch norm after it, in one."""
    return _fused(linear_w, linear_b, (bn_rm, bn_rv, bn_eps), bn_w, bn_b, 0)


@checked
def fuse_conv_bn_eval(conv: T, bn: Module, transpose: bool = False) -> T:
    """Return a convolution that does what it and the batch norm after it do, both evaluating."""
    return _fused_layer(conv, bn, 1 if transpose else 0)


@checked
def fuse_linear_bn_eval(linear: T, bn: Module) -> T:
    """Return a linear layer that does what it and the batch norm after it do, both evaluating."""
    return _fused_layer(linear, bn, 0)


def _fused_layer(layer: T, bn: Any, channel: int) -> T:
    require(not (layer.training or bn.training), "A004", "Fusion only for eval!", hint="call eval() on both first")
    mean, variance = bn.running_mean, bn.running_var
    if mean is None or variance is None:
        fail("A004", "fusion: the batch norm has no running statistics")
    fused: Any = copy.deepcopy(layer)
    fused.weight, fused.bias = _fused(fused.weight, fused.bias, (mean, variance, bn.eps), bn.weight, bn.bias, channel)
    return fused


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
