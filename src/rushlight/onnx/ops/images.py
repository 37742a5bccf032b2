"""Images: sampling by grids, regions, patches, boxes."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import functional
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Numbers, Value, integers, to_tensor


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "bilinear", padding_mode: str = "zeros"
) -> Tensor:
    """Samples of images at the places of a grid."""
    names = {"linear": "bilinear", "cubic": "bicubic"}
    return functional.grid_sample(x, grid, names.get(mode, mode), padding_mode, bool(align_corners))


@operator("AffineGrid", host=(1,))
def affine_grid(theta: Tensor, size: Numbers, *, align_corners: int = 0) -> Tensor:
    """The grid of an affine map."""
    return functional.affine_grid(theta, integers(size), bool(align_corners))


@operator("Col2Im", host=(1, 2))
def col2im(
    x: Tensor,
    shape: Numbers,
    block: Numbers,
    *,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """Patches added up where they lie in an image."""
    image, kernel = integers(shape), [int(part) for part in integers(block)]
    rank = len(image)
    gaps, steps, flat = dilations or (1,) * rank, strides or (1,) * rank, pads or (0,) * (2 * rank)
    whole = [length + flat[dim] + flat[rank + dim] for dim, length in enumerate(image)]
    place = rl.zeros([1] * (2 * rank), dtype=rl.int64)
    for dim in range(rank):
        count = (whole[dim] - gaps[dim] * (kernel[dim] - 1) - 1) // steps[dim] + 1
        taps = (rl.arange(kernel[dim]) * gaps[dim]).reshape([-1 if axis == dim else 1 for axis in range(2 * rank)])
        starts = (rl.arange(count) * steps[dim]).reshape([-1 if axis == rank + dim else 1 for axis in range(2 * rank)])
        place = place * whole[dim] + taps + starts
    total, taps_total = int(np.prod(whole)), int(np.prod(kernel))
    channels = x.shape[1] // taps_total
    patches = x.reshape(x.shape[0], channels, -1)
    index = place.reshape(1, 1, -1).expand(patches.shape)
    summed = rl.zeros(x.shape[0], channels, total, dtype=x.dtype).scatter_add(2, index, patches)
    result = summed.reshape(x.shape[0], channels, *whole)
    for dim in range(rank):
        result = result.narrow(2 + dim, flat[dim], image[dim])
    return result


@operator("RoiAlign", 16)
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Means, or largest numbers, of samples in the bins of regions."""
    half = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    results: list[Tensor] = []
    for box, image in zip(rois.tolist(), batch.tolist(), strict=True):
        left, top, right, bottom = (part * spatial_scale - half for part in box)
        width, height = right - left, bottom - top
        if not half:
            width, height = max(width, 1.0), max(height, 1.0)
        rows = _bins(top, height, output_height, sampling_ratio)
        columns = _bins(left, width, output_width, sampling_ratio)
        results.append(_region(x[int(image)], rows, columns, mode))
    return rl.stack(results)


def _bins(start: float, length: float, count: int, ratio: int) -> Tensor:
    """The places of samples, [bins, samples]."""
    size = length / count
    samples = ratio if ratio > 0 else int(np.ceil(length / count))
    return start + rl.arange(count).unsqueeze(1) * size + (rl.arange(samples) + 0.5) * (size / samples)


def _axis_taps(places: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The two neighbours of each place, and their weights; nothing of places beyond the image."""
    inside = (places >= -1.0) & (places <= length)
    places = places.clamp(0, length - 1)
    low = places.floor()
    high = (low + 1).clamp(0, length - 1)
    weight = places - low
    factor = inside.to(places.dtype)
    return low.to(rl.int64), high.to(rl.int64), (1 - weight) * factor, weight * factor


def _region(image: Tensor, rows: Tensor, columns: Tensor, mode: str) -> Tensor:
    channels, height, width = image.shape
    parts: list[Tensor] = []
    top, bottom, above, below = _axis_taps(rows.reshape(-1), height)
    left, right, before, behind = _axis_taps(columns.reshape(-1), width)
    for index, weight in ((top, above), (bottom, below)):
        for other, factor in ((left, before), (right, behind)):
            taps = image.index_select(1, index).index_select(2, other)
            parts.append(taps * (weight.unsqueeze(1) * factor))
    bins = (channels, rows.shape[0], rows.shape[1], columns.shape[0], columns.shape[1])
    if mode == "max":
        return rl.stack(parts).amax(0).reshape(bins).amax((2, 4))
    return (parts[0] + parts[1] + parts[2] + parts[3]).reshape(bins).mean((2, 4)).to(image.dtype)


@operator("RoiAlign", attributes=("mode", "output_height", "output_width", "sampling_ratio", "spatial_scale"))
def roi_align_of_corners(x: Tensor, rois: Tensor, batch: Tensor, **options: Value) -> Tensor:
    """Version 10, whose places are corners of pixels."""
    return roi_align(x, rois, batch, coordinate_transformation_mode="output_half_pixel", **options)


@operator("NonMaxSuppression", host=(0, 1, 2, 3, 4))
def non_max_suppression(
    boxes: Numbers,
    scores: Numbers,
    most: Numbers | None = None,
    overlap: Numbers | None = None,
    least: Numbers | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """The boxes [batch, class, box] that are kept: each overlaps those of higher scores little."""
    count = 0 if most is None else int(most.reshape(-1)[0])
    threshold = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
    lowest = -np.inf if least is None else float(least.reshape(-1)[0])
    rows = [
        (batch, kind, kept)
        for batch in range(scores.shape[0])
        for kind in range(scores.shape[1])
        for kept in _kept(_corners(boxes[batch], center_point_box), scores[batch, kind], count, threshold, lowest)
    ]
    return to_tensor(np.asarray(rows, dtype=np.int64).reshape(-1, 3))


def _corners(boxes: Numbers, centered: int) -> Numbers:
    if centered:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], 1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)


def _kept(boxes: Numbers, scores: Numbers, count: int, threshold: float, lowest: float) -> list[int]:
    kept: list[int] = []
    for place in np.argsort(-scores, kind="stable").tolist():
        if scores[place] <= lowest or len(kept) >= count:
            break
        if all(_shared(boxes[place], boxes[other]) <= threshold for other in kept):
            kept.append(place)
    return kept


def _shared(a: Numbers, b: Numbers) -> float:
    """The part of their union that two boxes share."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    common = float(sides.prod())
    union = float((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod()) - common
    return common / union if union > 0 else 0.0
