"""Pooling over windows."""

from __future__ import annotations

from typing import Any

from rushlight.eager.arguments import fixed_integers, flag
from rushlight.eager.tensor import Tensor
from rushlight.nn.spatial import PerDim
from rushlight.ops.record import OPERATORS


# These return a tensor or (values, indices); a union would make every caller test which.
def _max_pool(
    dims: int,
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None,
    padding: PerDim[int],
    dilation: PerDim[int],
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    name = f"max_pool{dims}d_with_indices" if flag(return_indices) else f"max_pool{dims}d"
    windows = [fixed_integers(element) for element in (kernel_size, stride, padding, dilation)]
    return OPERATORS[name](input, *windows, ceil_mode)


def max_pool1d(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over the last dim."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over the last two dims."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over the last three dims."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _with_indices(
    dims: int,
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None,
    padding: PerDim[int],
    dilation: PerDim[int],
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    values, places = _max_pool(dims, input, kernel_size, stride, padding, dilation, ceil_mode, True)
    return values, places


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return `max_pool1d` and the place of each largest element, whatever `return_indices` says."""
    return _with_indices(1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return `max_pool2d` and the place of each largest element, whatever `return_indices` says."""
    return _with_indices(2, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return `max_pool3d` and the place of each largest element, whatever `return_indices` says."""
    return _with_indices(3, input, kernel_size, stride, padding, dilation, ceil_mode)
