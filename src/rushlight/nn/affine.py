"""Scales and shifts of channels, which norms have as their parameters."""

from __future__ import annotations

from rushlight.eager.creation import empty
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import init
from rushlight.nn.tree.registry import Registry


def register_affine(module: Registry, channels: int, weight: bool, bias: bool, device: object, dtype: object) -> None:
    """Register `weight` and `bias` with a value for each channel, or None where not wanted."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        param = Parameter(empty(channels, device=device, dtype=dtype)) if wanted else None
        module.register_parameter(name, param)


def reset_affine(weight: Tensor | None, bias: Tensor | None) -> None:
    """Set scales to 1 and shifts to 0."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)
