"""Pools over regions of images: `roi_align` and `roi_pool`, and the two whose bins have channels of their own.

A row of `rois` is the number of an image and the corners `x1, y1, x2, y2`. Results are of shape
[K, C, pooled_height, pooled_width] for K regions; with bins that have channels of their own, C is the number of the
input's channels over that of bins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import rushlight as rl
from rushlight import Tensor
from rushlight.support.errors import require

Bins = tuple[int, int]
Sizes = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Axis:
    """Where bins begin along an axis and how long they are, float[K]; `length` is the image's."""

    start: Tensor
    step: Tensor
    length: int


def _checked(name: str, input: Tensor, rois: Tensor) -> None:
    require(input.ndim == 4, "A001", f"{name}: images are of shape [N, C, H, W]", shape=tuple(input.shape))
    regions = rois.ndim == 2 and rois.shape[1] == 5
    require(regions, "A001", f"{name}: regions are of shape [K, 5]", shape=tuple(rois.shape))
    same = input.dtype == rois.dtype and input.is_floating_point()
    require(same, "A002", f"{name}: images and regions are of one dtype", images=input.dtype, regions=rois.dtype)


def _own_channels(name: str, input: Tensor, rois: Tensor, bins: Bins) -> Tensor:
    """The channel of each bin of each region, int32[K, C / bins, height, width]."""
    count = bins[0] * bins[1]
    divides = input.shape[1] % count == 0
    require(divides, "A001", f"{name}: the number of channels is a multiple of that of bins", channels=input.shape[1])
    channels = _channels(input.shape[1] // count, bins, own=True).to(rl.int32)
    return channels.expand(len(rois), *channels.shape).contiguous()


# Bins of points between elements.


def _aligned_axes(
    input: Tensor, rois: Tensor, scale: float, bins: Bins, shift: float, least: float | None
) -> list[_Axis]:
    axes: list[_Axis] = []
    for column, count, length in ((2, bins[0], input.shape[2]), (1, bins[1], input.shape[3])):
        start = rois[:, column] * scale - shift
        extent = rois[:, column + 2] * scale - shift - start
        axes.append(_Axis(start, (extent if least is None else extent.clamp(min=least)) / count, length))
    return axes


def _most(counts: Tensor) -> int:
    return counts.clamp(min=0).max().long().item() if len(counts) else 0


def _counts(step: Tensor, ratio: int) -> tuple[Tensor, int]:
    """How many points a bin has along an axis, for each region, and at most."""
    if ratio > 0:
        return rl.full_like(step, ratio), ratio
    counts = step.ceil()
    return counts, _most(counts)


Points = tuple[Tensor, Tensor, Tensor, int]
"""Where bins begin along an axis and how long they are, how many points they have, float[K]; and the image's length."""


def _along(axis: _Axis, ratio: int) -> tuple[Points, int]:
    counts, most = _counts(axis.step, ratio)
    return (axis.start, axis.step, counts, axis.length), most


def _taps(points: Points, bins: int, most: int) -> list[tuple[Tensor, Tensor]]:
    """The elements around each point, int64[K, bins, points], and their weights; 0 outside."""
    start, step, counts, length = points
    at = rl.arange(most, dtype=step.dtype)
    first = start[:, None, None] + rl.arange(bins, dtype=step.dtype)[:, None] * step[:, None, None]
    place = first + (at + 0.5) * step[:, None, None] / counts[:, None, None]
    inside = (place >= -1) & (place <= length) & (at < counts[:, None])[:, None, :]
    place = place.clamp(0, length - 1)
    low = place.floor()
    part = place - low
    return [
        (rl.where(inside, low, 0.0).long(), rl.where(inside, 1 - part, 0.0)),
        (rl.where(inside, (low + 1).clamp(max=length - 1), 0.0).long(), rl.where(inside, part, 0.0)),
    ]


def _channels(count: int, bins: Bins, own: bool) -> Tensor:
    """The channel that a bin reads for each of the result's, int64[count, height or 1, width or 1]."""
    channels = rl.arange(count)[:, None, None]
    if not own:
        return channels
    return (channels * bins[0] + rl.arange(bins[0])[:, None]) * bins[1] + rl.arange(bins[1])


def _sums(
    input: Tensor,
    image: Tensor,
    rows: Points,
    columns: Points,
    bins: Bins,
    most: tuple[int, int],
    count: int,
    own: bool,
) -> Tensor:
    total = None
    image = image[:, None, None, None, None, None]
    channels = _channels(count, bins, own)[:, :, :, None, None]
    for row, row_weight in _taps(rows, bins[0], most[0]):
        for column, weight in _taps(columns, bins[1], most[1]):
            value = input[image, channels, row[:, None, :, None, :, None], column[:, None, None, :, None, :]]
            part = value * (row_weight[:, None, :, None, :, None] * weight[:, None, None, :, None, :])
            total = part if total is None else total + part
    assert total is not None, "there are four elements around a point"
    return total.sum((-2, -1))


_SUMS = {own: rl.compile(functools.partial(_sums, own=own), dynamic=True) for own in (False, True)}
"""By whether bins have channels of their own: a kernel each."""


def _interpolate(
    input: Tensor, rois: Tensor, axes: list[_Axis], bins: Bins, ratio: int, own: bool
) -> tuple[Tensor, Tensor]:
    """Sums over the points of each bin, and the number of these points."""
    (rows, down), (columns, across) = [_along(axis, ratio) for axis in axes]
    count = input.shape[1] // (bins[0] * bins[1]) if own else input.shape[1]
    total = _SUMS[own](input, rois[:, 0].long(), rows, columns, bins, (down, across), count)
    return total, (rows[2] * columns[2])[:, None, None, None]


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Return means of points in each bin, between the elements around them.

    There are `sampling_ratio` points along each side of a bin, or as many as it is long where that is not positive.
    Without `aligned` elements lie at whole numbers, and regions are at least 1 long; with it they lie 0.5 further.
    """
    _checked("roi_align", input, rois)
    bins = (pooled_height, pooled_width)
    axes = _aligned_axes(input, rois, spatial_scale, bins, *((0.5, None) if aligned else (0.0, 1.0)))
    total, points = _interpolate(input, rois, axes, bins, sampling_ratio, own=False)
    return total / points.clamp(min=1)


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """Return means of points in each bin, of a channel for each bin; and these channels, int32."""
    _checked("ps_roi_align", input, rois)
    bins = (pooled_height, pooled_width)
    channels = _own_channels("ps_roi_align", input, rois, bins)
    axes = _aligned_axes(input, rois, spatial_scale, bins, 0.5, None)
    total, points = _interpolate(input, rois, axes, bins, sampling_ratio, own=True)
    return total / points, channels


# Bins of whole elements.


def _rounded(numbers: Tensor) -> Tensor:
    """The nearest whole numbers; a half goes away from zero."""
    return (numbers.abs() + 0.5).floor().copysign(numbers)


def _elements(rois: Tensor, column: int, scale: float, bins: int, length: int, last: int) -> tuple[Tensor, Tensor]:
    """The elements of each bin along an axis, int64[K, bins, elements], and which of them belong to it.

    With `last` 1 the element at a region's end belongs to it; with 0 neither that nor the last of the image does.
    """
    start, end = _rounded(rois[:, column] * scale), _rounded(rois[:, column + 2] * scale)
    step = ((end - start + last).clamp(min=1) / bins)[:, None]
    at = rl.arange(bins, dtype=rois.dtype)
    first = ((at * step).floor() + start[:, None]).clamp(0, length - 1 + last)
    behind = (((at + 1) * step).ceil() + start[:, None]).clamp(0, length - 1 + last)
    offsets = rl.arange(_most((behind - first).reshape(-1)), dtype=rois.dtype)
    places = first[:, :, None] + offsets
    return places.clamp(max=length - 1).long(), places < behind[:, :, None]


@dataclass(frozen=True)
class _Windows:
    """The elements of each bin: image int64[K], rows and columns int64[K, bins, elements], and which belong to it."""

    image: Tensor
    rows: Tensor
    columns: Tensor
    belongs: Tensor

    @staticmethod
    def of(input: Tensor, rois: Tensor, scale: float, bins: Bins, last: int) -> _Windows:
        """Those of regions."""
        rows, of_rows = _elements(rois, 2, scale, bins[0], input.shape[2], last)
        columns, of_columns = _elements(rois, 1, scale, bins[1], input.shape[3], last)
        belongs = of_rows[:, None, :, None, :, None] & of_columns[:, None, None, :, None, :]
        return _Windows(rois[:, 0].long(), rows, columns, belongs)

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All four."""
        return self.image, self.rows, self.columns, self.belongs


def _taken(input: Tensor, image: Tensor, channels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The elements of windows, [K, C, height, width, rows, columns]."""
    places = (rows[:, None, :, None, :, None], columns[:, None, None, :, None, :])
    return input[(image[:, None, None, None, None, None], channels[:, :, :, None, None], *places)]


@rl.compile(dynamic=True)
def _largest(
    input: Tensor, image: Tensor, rows: Tensor, columns: Tensor, belongs: Tensor, bins: Bins
) -> tuple[Tensor, Tensor]:
    least = rl.finfo(rl.float32).min
    values = _taken(input, image, _channels(input.shape[1], bins, own=False), rows, columns)
    best, at = rl.where(belongs & (values > least), values, least).flatten(-2).max(-1)
    places = rows[:, None, :, None, :, None] * input.shape[3] + columns[:, None, None, :, None, :]
    place = places.expand(values.shape).flatten(-2).gather(-1, at[..., None])[..., 0]
    found = rl.where(best > least, place, -1).to(rl.int32)
    return rl.where(belongs.flatten(-2).any(-1), best, 0.0), found


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each bin, and its place `row * W + column`, int32: 0 and -1 of an empty bin."""
    _checked("roi_pool", input, rois)
    bins = (pooled_height, pooled_width)
    windows = _Windows.of(input, rois, spatial_scale, bins, 1)
    if not windows.belongs.numel():
        sizes = (len(rois), input.shape[1], *bins)
        return input.new_zeros(sizes), rl.full(sizes, -1, dtype=rl.int32)
    return _largest(input, *windows.tensors, bins)


@rl.compile(dynamic=True)
def _totals(
    input: Tensor, image: Tensor, rows: Tensor, columns: Tensor, belongs: Tensor, bins: Bins, count: int
) -> Tensor:
    values = _taken(input, image, _channels(count, bins, own=True), rows, columns)
    return rl.where(belongs, values, 0.0).sum((-2, -1))


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return means of bins, each of a channel of its own, 0 of an empty bin; and these channels, int32."""
    _checked("ps_roi_pool", input, rois)
    bins = (pooled_height, pooled_width)
    channels = _own_channels("ps_roi_pool", input, rois, bins)
    windows = _Windows.of(input, rois, spatial_scale, bins, 0)
    total = _totals(input, *windows.tensors, bins, channels.shape[1])
    return total / windows.belongs.sum((-2, -1)).clamp(min=1), channels


# Gradients of images. Pools are linear in them, but for `roi_pool`, which says where its elements come from.


def _transposed(pool: Callable[[Tensor], Tensor], sizes: Sizes, grad: Tensor) -> Tensor:
    with rl.enable_grad():
        images = grad.new_zeros(sizes).requires_grad_()
        pooled = pool(images)
    return rl.autograd.grad(pooled, images, grad)[0]


def roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Return the gradient of `roi_align`'s images, [batch_size, channels, height, width]."""

    def pool(images: Tensor) -> Tensor:
        return roi_align(images, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)

    return _transposed(pool, (batch_size, channels, height, width), grad)


def roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    argmax: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """Return the gradient of `roi_pool`'s images, [batch_size, channels, height, width]."""
    image, channel = rois[:, 0].long()[:, None, None, None], rl.arange(channels)[:, None, None]
    plane = grad.new_zeros(batch_size, channels, height * width)
    found = argmax >= 0
    place = rl.where(found, argmax, 0).long()
    plane = plane.index_put((image, channel, place), rl.where(found, grad, 0.0), accumulate=True)
    return plane.reshape(batch_size, channels, height, width)


def ps_roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    channel_mapping: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """Return the gradient of `ps_roi_align`'s images, [batch_size, channels, height, width]."""

    def pool(images: Tensor) -> Tensor:
        return ps_roi_align(images, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio)[0]

    return _transposed(pool, (batch_size, channels, height, width), grad)


def ps_roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    channel_mapping: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """Return the gradient of `ps_roi_pool`'s images, [batch_size, channels, height, width]."""

    def pool(images: Tensor) -> Tensor:
        return ps_roi_pool(images, rois, spatial_scale, pooled_height, pooled_width)[0]

    return _transposed(pool, (batch_size, channels, height, width), grad)
