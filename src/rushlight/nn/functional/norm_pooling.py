"""Norms of windows."""

from __future__ import annotations

from math import inf, prod
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.nn.functional.pooling import max_pool1d, max_pool2d, max_pool3d
from rushlight.nn.spatial import PerDim, per_dim

_MEANS: tuple[Any, ...] = (ops.avg_pool1d, ops.avg_pool2d, ops.avg_pool3d)
_LARGEST: tuple[Any, ...] = (max_pool1d, max_pool2d, max_pool3d)


def _norms(
    dims: int, input: Tensor, norm_type: float, kernel_size: PerDim[int], stride: PerDim[int] | None, ceil_mode: bool
) -> Tensor:
    if norm_type in (inf, -inf):
        largest = _LARGEST[dims - 1](abs(input) if norm_type > 0 else -abs(input), kernel_size, stride, 0, 1, ceil_mode)
        return largest if norm_type > 0 else -largest
    means = _MEANS[dims - 1](input**norm_type, kernel_size, stride, 0, ceil_mode)
    kernel = per_dim(kernel_size, dims)
    sums = means * (kernel[0] ** dims if len(kernel) == 1 else prod(kernel))
    # Where a sum is 0, its root has the gradient 0.
    empty = sums == 0
    return ops.where(empty, 0.0, ops.where(empty, 1.0, sums) ** (1.0 / norm_type))


@checked
def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the root of the sum of powers `norm_type` of each window over the last dim."""
    return _norms(1, input, norm_type, kernel_size, stride, ceil_mode)


@checked
def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the root of the sum of powers `norm_type` of each window over the last two dims."""
    return _norms(2, input, norm_type, kernel_size, stride, ceil_mode)


@checked
def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the root of the sum of powers `norm_type` of each window over the last three dims."""
    return _norms(3, input, norm_type, kernel_size, stride, ceil_mode)
