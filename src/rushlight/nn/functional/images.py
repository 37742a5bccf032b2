"""Images read at places between their pixels, and resized under older names."""

from __future__ import annotations

from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.nn.functional.interpolation import interpolate
from rushlight.nn.spatial import PerDim
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


@checked
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return images at the places of a grid (n, *out, dims), each in [-1, 1] from edge to edge."""
    return OPERATORS["grid_sample"](input, grid, mode, padding_mode, bool(align_corners))


@checked
def affine_grid(theta: Tensor, size: list[int] | tuple[int, ...], align_corners: bool | None = None) -> Tensor:
    """Return the grid for `grid_sample` that affine maps (n, dims, dims + 1) make of images of `size`."""
    require(theta.is_floating_point(), "D001", "affine_grid: theta must be floating-point", theta=theta)
    require(len(size) in (4, 5), "A006", "affine_grid: size has 4 or 5 numbers", size=size)
    require(min(size) > 0, "A002", "affine_grid: sizes must be positive", size=size)
    return OPERATORS["affine_grid"](theta, tuple(size), bool(align_corners))


def upsample(
    input: Tensor,
    size: PerDim[int] | None = None,
    scale_factor: PerDim[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Return `interpolate` of the input, under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@checked
def upsample_nearest(
    input: Tensor, size: PerDim[int] | None = None, scale_factor: PerDim[float] | None = None
) -> Tensor:
    """Return the input in another size by the nearest elements."""
    return interpolate(input, size, scale_factor, "nearest")


@checked
def upsample_bilinear(
    input: Tensor, size: PerDim[int] | None = None, scale_factor: PerDim[float] | None = None
) -> Tensor:
    """Return the input in another size by linear interpolation between aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear" if input.ndim == 4 else "linear", align_corners=True)
