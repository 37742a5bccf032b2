"""Largest elements of windows that stand at uneven steps, drawn at random (Graham 2015)."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import flag
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.random import rand
from rushlight.eager.tensor import Tensor
from rushlight.nn.spatial import PerDim, per_dim
from rushlight.support.errors import require


def _starts(draw: Tensor, size: int, count: int, width: int) -> Tensor:
    """Where each of `count` windows begins, one row for each draw; the last window ends with the input."""
    if count <= 1:
        return ops.full((*draw.shape, count), size - width, device=draw.device).long()
    step = (size - width) / (count - 1)
    draw = draw.unsqueeze(-1)
    places = ops.arange(0, count - 1, device=draw.device).to(draw.dtype)
    starts = ((places + draw) * step).long() - (draw * step).long()
    last = ops.full_like(draw, size - width).long()
    return ops.cat([starts, last], -1)


# The number of windows along each dim.
def _sizes(
    name: str, space: tuple[int, ...], output_size: PerDim[int] | None, output_ratio: PerDim[float] | None
) -> tuple[int, ...]:
    dims = len(space)
    if output_size is not None:
        sizes = per_dim(output_size, dims)
    else:
        require(output_ratio is not None, "A004", f"{name}: give either output_size or output_ratio")
        assert output_ratio is not None
        ratios = per_dim(output_ratio, dims)
        require(len(ratios) == dims, "A004", f"{name}: output_ratio has {dims} numbers", given=output_ratio)
        sizes = tuple([int(size * ratio) for size, ratio in zip(space, ratios, strict=True)])
    require(len(sizes) == dims, "A004", f"{name}: output_size has {dims} numbers", given=output_size)
    return sizes


# These return a tensor or (values, indices); a union would make every caller test which.
def _fractional(
    dims: int,
    input: Tensor,
    kernel_size: PerDim[int],
    output_size: PerDim[int] | None,
    output_ratio: PerDim[float] | None,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:
    name = f"fractional_max_pool{dims}d"
    ranks = input.ndim in (dims + 1, dims + 2)
    require(ranks, "S002", f"{name}: the input has {dims + 1} or {dims + 2} dims", input=input)
    require(input.is_floating_point(), "D001", f"{name}: the input must be floating-point", input=input)
    batched = input if input.ndim == dims + 2 else input.unsqueeze(0)
    space, kernel = tuple(batched.shape[2:]), per_dim(kernel_size, dims)
    require(len(kernel) == dims, "A004", f"{name}: kernel_size has {dims} numbers", given=kernel_size)
    sizes = _sizes(name, space, output_size, output_ratio)
    for size, count, width in zip(space, sizes, kernel, strict=True):
        fits = count >= 0 and width > 0 and count + width - 1 <= size
        require(fits, "S011", f"{name}: the windows do not fit", input=input, kernel_size=kernel, output_size=sizes)
    lead = tuple(batched.shape[:2])
    drawn = rand((*lead, dims), dtype=input.dtype, device=input.device) if samples is None else samples
    require(drawn.dtype == input.dtype, "D001", f"{name}: the draws have the input's dtype", input=input, samples=drawn)
    fits = drawn.ndim == 3 and drawn.shape[0] >= lead[0] and tuple(drawn.shape[1:]) == (lead[1], dims)
    require(fits, "S014", f"{name}: {dims} draws for each channel of each input", samples=drawn)
    places = _places(drawn[: lead[0]], space, sizes, kernel)
    flat = batched.reshape(*lead, prod(space))
    windows = flat.gather(2, places.flatten(2)).reshape(places.shape)
    best = ops.argmax(windows, -1, True)
    chosen = places.gather(-1, best).squeeze(-1)
    values, chosen = flat.gather(2, chosen).reshape(*lead, *sizes), chosen.reshape(*lead, *sizes)
    if input.ndim == dims + 1:
        values, chosen = values.squeeze(0), chosen.squeeze(0)
    return (values, chosen) if flag(return_indices) else values


def _places(drawn: Tensor, space: tuple[int, ...], sizes: tuple[int, ...], kernel: tuple[int, ...]) -> Tensor:
    """The flat places under each window: (n, c, windows, elements)."""
    dims = len(space)
    lead = tuple(drawn.shape[:2])
    places = ops.zeros((*lead, *(1,) * (2 * dims)), device=drawn.device).long()
    for dim, (size, count, width) in enumerate(zip(space, sizes, kernel, strict=True)):
        # PyTorch's first draw is for the last dim of images, and for the first one of volumes.
        starts = _starts(drawn[..., dims - 1 - dim if dims == 2 else dim], size, count, width)
        shape = [1] * (2 * dims)
        shape[dim] = count
        inner = [1] * (2 * dims)
        inner[dims + dim] = width
        offsets = ops.arange(0, width, device=drawn.device).reshape(inner)
        places = places * size + starts.reshape(*lead, *shape) + offsets
    return places.reshape(*lead, prod(sizes), prod(kernel))


@autocasts("float32")
@checked
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: PerDim[int],
    output_size: PerDim[int] | None = None,
    output_ratio: PerDim[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest elements of windows at random steps over the last two dims.

    There are `output_size` windows along the dims, or `output_ratio` times the input's sizes. `_random_samples`,
    (batch, channels, 2) of [0, 1), says where the windows stand; without it, numbers are drawn.
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@autocasts("float32")
@checked
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: PerDim[int],
    output_size: PerDim[int] | None = None,
    output_ratio: PerDim[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest elements of windows at random steps over the last three dims.

    There are `output_size` windows along the dims, or `output_ratio` times the input's sizes. `_random_samples`,
    (batch, channels, 3) of [0, 1), says where the windows stand; without it, numbers are drawn.
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@checked
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: PerDim[int],
    output_size: PerDim[int] | None = None,
    output_ratio: PerDim[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return `fractional_max_pool2d` and the place of each element; `return_indices` is not read."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


@checked
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: PerDim[int],
    output_size: PerDim[int] | None = None,
    output_ratio: PerDim[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return `fractional_max_pool3d` and the place of each element; `return_indices` is not read."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)
