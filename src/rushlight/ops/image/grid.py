"""Images read between their pixels, at places that a grid gives in [-1, 1], and grids of affine maps.

The last dim of a grid counts spatial dims backwards: x is the place along the last dim of the image. What lies outside
of the image is 0, the nearest pixel at the border, or the image reflected at its borders.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.ir.dtype import int64
from rushlight.ir.value import Value
from rushlight.ops.contract.matmul import matmul
from rushlight.ops.create import count_of, positions
from rushlight.ops.dims import Array, Shape, compute_array, convert, normal, same_size, widened
from rushlight.ops.index.read import gather
from rushlight.ops.join import stack
from rushlight.ops.pointwise.arithmetic import fmod
from rushlight.ops.pointwise.comparison import logical_and, logical_not, logical_or
from rushlight.ops.pointwise.complex import abs_
from rushlight.ops.pointwise.rounding import floor, maximum, round_
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Sample, define
from rushlight.ops.resize import cubic_far, cubic_near, number_of
from rushlight.ops.view.part import select
from rushlight.ops.view.reorder import expand, unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, gt, product, required

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")

grid_sample = define(
    "grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool align_corners=False) "
    "-> Tensor",
    "The image (n, c, *space) at the places of a grid (n, *out, dims), each in [-1, 1] from edge to edge.",
    dtypes="float",
    variants="",
    autocast="float32",
)
affine_grid = define(
    "affine_grid(Tensor theta, Size[] size, bool align_corners=False) -> Tensor",
    "The grid whose places are affine maps (n, dims, dims + 1) of the places of an image of `size`.",
    dtypes="float",
    variants="",
)

Tap = tuple[Value, Any]
"""A place along a dim, as a whole number in floating point, and the weight of the element there."""


def _source(position: Value, size: Size, align_corners: bool) -> Value:
    """Places in [-1, 1] as places between the first pixel, 0, and the last one."""
    number = number_of(position, size, position.dtype)
    if align_corners:
        return (position + 1.0) * ((number - 1.0) * 0.5)
    return ((position + 1.0) * number - 1.0) * 0.5


def _within(position: Value, size: Size) -> Value:
    """Places moved to the nearest pixel of the image; those that are moved have no gradient."""
    last = number_of(position, size - 1, position.dtype)
    return where(position > 0.0, where(position < last, position, last), 0.0)


def _reflected(position: Value, size: Size, align_corners: bool) -> Value:
    """Places reflected at the first and last pixels, or at their outer edges, until they are inside."""
    low = 0.0 if align_corners else -0.5
    span = number_of(position, size - 1 if align_corners else size, position.dtype)
    span = maximum(span, 1.0)  # a single pixel is everywhere
    away = abs_(position - low)
    rest = fmod(away, span)
    turns = floor(away / span)
    odd = fmod(turns, 2.0) > 0.5
    return where(odd, span - rest, rest) + low


def _padded(position: Value, size: Size, padding_mode: str, align_corners: bool) -> Value:
    if padding_mode == "zeros":
        return position
    if padding_mode == "reflection":
        position = _reflected(position, size, align_corners)
    return _within(position, size)


def _taps(position: Value, size: Size, mode: str, padding_mode: str, align_corners: bool) -> list[Tap]:
    source = _source(position, size, align_corners)
    if mode == "bicubic":
        low = floor(source)
        after = source - low
        weights = [cubic_far(after + 1.0), cubic_near(after), cubic_near(1.0 - after), cubic_far(2.0 - after)]
        places = [_padded(low + float(offset), size, padding_mode, align_corners) for offset in (-1, 0, 1, 2)]
        return list(zip(places, weights, strict=True))
    source = _padded(source, size, padding_mode, align_corners)
    if mode == "nearest":
        return [(round_(source), None)]
    low = floor(source)
    return [(low, low + 1.0 - source), (low + 1.0, source - low)]


def _read(flat: Value, space: Shape, taps: Sequence[Tap]) -> Value:
    """The elements at one tap in each dim, times their weights; 0 outside. `flat` is (n, c, elements).

    A place that is NaN is not outside: its weight is NaN, and so is what is read there.
    """
    inside: Any = None
    weight: Any = None
    index: Any = 0
    for (at, share), size in zip(taps, space, strict=True):
        last = number_of(at, size - 1, at.dtype)
        fits = logical_and(at >= 0.0, at <= last) if share is None else logical_not(logical_or(at < 0.0, at > last))
        inside = fits if inside is None else logical_and(inside, fits)
        if share is None:  # there is a derivative along the grid, which is 0
            share = where(fits, at, 0.0) * 0.0 + 1.0
        weight = share if weight is None else weight * share
        number = convert(where(fits, at, 0.0), int64)
        index = number if isinstance(index, int) else index * count_of(number, size) + number
    batch, channels = flat.shape[:2]
    wide = expand(unsqueeze(index, 1), (batch, channels, index.shape[1]))
    values = gather(flat, 2, wide)
    return where(unsqueeze(inside, 1), values * unsqueeze(weight, 1), 0.0)


def _require_images(input: Value, grid: Value, mode: str, padding_mode: str) -> int:
    dims = input.ndim - 2
    require(dims in (2, 3), "S002", "grid_sample: the input has 4 or 5 dims", input=input.shape)
    require(grid.ndim == input.ndim, "S002", "grid_sample: input and grid differ in rank", grid=grid.shape)
    fits = same_size(grid.shape[0], input.shape[0]) and same_size(grid.shape[-1], dims)
    require(fits, "S009", "grid_sample: the grid does not fit the input", input=input.shape, grid=grid.shape)
    same = grid.dtype is input.dtype
    require(same, "D002", "grid_sample: input and grid differ in dtype", input=input.dtype, grid=grid.dtype)
    filled = all(required(gt(size, 0)) for size in input.shape[2:])
    require(filled, "S010", "grid_sample: an image without pixels", input=input.shape)
    require(mode in MODES, "A002", f"grid_sample: mode is one of {', '.join(MODES)}", mode=mode)
    require(mode != "bicubic" or dims == 2, "S002", "grid_sample: bicubic is for 4 dims", input=input.shape)
    valid = padding_mode in PADDINGS
    require(valid, "A002", f"grid_sample: padding_mode is one of {', '.join(PADDINGS)}", padding_mode=padding_mode)
    return dims


@grid_sample.decompose
def grid_sample_decompose(input: Value, grid: Value, mode: str, padding_mode: str, align_corners: bool) -> Value:
    dims = _require_images(input, grid, mode, padding_mode)
    batch, channels, *space = input.shape
    out = grid.shape[1:-1]
    flat = reshape(widened(input), (batch, channels, product(space)))
    places = reshape(widened(grid), (batch, product(out), dims))
    taps: list[list[Tap]] = []
    for dim, size in enumerate(space):
        position = select(places, 2, dims - 1 - dim)
        taps.append(_taps(position, size, mode, padding_mode, align_corners))
    result: Any = None
    for chosen in itertools.product(*taps):
        part = _read(flat, tuple(space), chosen)
        result = part if result is None else result + part
    return convert(reshape(result, (batch, channels, *out)), input.dtype)


def _source_array(position: Array, size: int, padding_mode: str, align_corners: bool) -> Array:
    return _padded_array(
        (position + 1) / 2 * (size - 1) if align_corners else ((position + 1) * size - 1) / 2,
        size,
        padding_mode,
        align_corners,
    )


def _padded_array(position: Array, size: int, padding_mode: str, align_corners: bool) -> Array:
    if padding_mode == "zeros":
        return position
    if padding_mode == "reflection":
        low, span = (0, max(size - 1, 1)) if align_corners else (-0.5, size)
        away = np.abs(position - low)
        rest = np.fmod(away, span)
        position = np.where(np.floor(away / span) % 2 == 1, span - rest, rest) + low
    return np.clip(position, 0, size - 1)


def _taps_array(
    position: Array, size: int, mode: str, padding_mode: str, align_corners: bool
) -> list[tuple[Array, Array | float]]:
    if mode == "bicubic":
        source = _source_array(position, size, "zeros", align_corners)
        low = np.floor(source)
        distances = [np.abs(source - low - offset) for offset in (-1, 0, 1, 2)]
        weights = [np.where(distance <= 1, cubic_near(distance), cubic_far(distance)) for distance in distances]
        places = [_padded_array(low + offset, size, padding_mode, align_corners) for offset in (-1, 0, 1, 2)]
        return list(zip(places, weights, strict=True))
    source = _source_array(position, size, padding_mode, align_corners)
    if mode == "nearest":
        return [(np.round(source), 1.0)]
    low = np.floor(source)
    return [(low, low + 1 - source), (low + 1, source - low)]


@grid_sample.ref
def grid_sample_ref(input: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    x, where_to = compute_array(input), compute_array(grid)
    space, batch = x.shape[2:], np.arange(x.shape[0])
    lines = [where_to[..., len(space) - 1 - dim].reshape(x.shape[0], -1) for dim in range(len(space))]
    taps = [_taps_array(line, size, mode, padding_mode, align_corners) for line, size in zip(lines, space, strict=True)]
    result = np.zeros((x.shape[0], lines[0].shape[1], x.shape[1]), x.dtype)
    for chosen in itertools.product(*taps):
        weight: Any = np.ones_like(lines[0])
        inside = np.ones(lines[0].shape, np.bool_)
        places: list[Array] = []
        for (at, share), size in zip(chosen, space, strict=True):
            fits = (at >= 0) & (at <= size - 1)
            inside = inside & (fits if mode == "nearest" else fits | np.isnan(at))
            places.append(np.where(fits, at, 0).astype(int))
            weight = weight * share
        values = x[(batch[:, None], slice(None), *places)]
        result = result + np.where(inside[..., None], values * weight[..., None].astype(x.dtype), 0)
    return np.moveaxis(result, -1, 1).reshape(*x.shape[:2], *grid.shape[1:-1]).astype(input.dtype)


def _grid(rng: np.random.Generator, *shape: int) -> Array:
    return (np.tanh(rng.standard_normal(shape)) * 1.3).astype(np.float32)


@grid_sample.samples
def grid_sample_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4, 5), _grid(rng, 2, 3, 2, 2))
    yield Sample(normal(rng, 1, 2, 4, 3), _grid(rng, 1, 2, 2, 2), "bicubic", "reflection", True)
    yield Sample(normal(rng, 1, 2, 2, 4, 3), _grid(rng, 1, 2, 2, 1, 3), "bilinear", "border")


def _line(world: Value, size: Size, align_corners: bool) -> Value:
    """The middles of pixels in [-1, 1] from edge to edge, or from the first middle to the last one."""
    points = convert(positions(world, size), world.dtype)
    number = number_of(world, size, world.dtype)
    if align_corners:
        gaps = number - 1.0
        return where(gaps > 0.0, points * (2.0 / maximum(gaps, 1.0)) - 1.0, 0.0)
    return (points * 2.0 + 1.0) / number - 1.0


@affine_grid.decompose
def affine_grid_decompose(theta: Value, size: Shape, align_corners: bool) -> Value:
    dims = len(size) - 2
    require(dims in (2, 3), "S002", "affine_grid: size has 4 or 5 numbers", size=size)
    fits = theta.ndim == 3 and all(
        same_size(one, other) for one, other in zip(theta.shape, (size[0], dims, dims + 1), strict=True)
    )
    require(fits, "S009", "affine_grid: theta is (n, dims, dims + 1)", theta=theta.shape, size=size)
    x, space = widened(theta), size[2:]
    lines: list[Value] = []
    for dim in reversed(range(dims)):
        line = _line(x, space[dim], align_corners)
        lines.append(expand(reshape(line, (space[dim], *(1,) * (dims - 1 - dim))), space))
    base = stack((*lines, lines[0] * 0.0 + 1.0), -1)
    grid = matmul(reshape(base, (1, product(space), dims + 1)), x.mT)
    return convert(reshape(grid, (size[0], *space, dims)), theta.dtype)


@affine_grid.ref
def affine_grid_ref(theta: Array, size: tuple[int, ...], align_corners: bool) -> Array:
    x, space = compute_array(theta), size[2:]
    lines: list[Array] = []
    for count in space:
        line = (np.arange(count) * 2 + 1) / max(count, 1) - 1
        lines.append(line if not align_corners else np.linspace(-1, 1, count) if count > 1 else np.zeros(count))
    base = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(space)], -1).astype(x.dtype)
    return np.einsum("...k,njk->n...j", base, x).astype(theta.dtype)


@affine_grid.samples
def affine_grid_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 2, 3), (2, 1, 3, 4))
    yield Sample(normal(rng, 1, 3, 4), (1, 1, 2, 3, 1), True)
