"""Convolutions in other layouts of their input."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require


@autocasts("lower")
@checked
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return `conv1d` of (time, batch, channels) with a weight (kernel, in, out)."""
    require(input.ndim == 3, "S002", "conv_tbc: the input is (time, batch, channels)", input=input)
    require(weight.ndim == 3, "S002", "conv_tbc: the weight is (kernel, in, out)", weight=weight)
    result = ops.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad)
    return result.permute(2, 0, 1)
