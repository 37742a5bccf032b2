"""Resizing: each dim for itself, by taps and their weights."""

from __future__ import annotations

import math

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Numbers, Size, Value, saturated
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen


@frozen
class _Method:
    """How a dim is resized."""

    mode: str
    transform: str
    nearest: str
    cubic: float
    exclude_outside: bool
    extrapolation: float
    antialias: bool


def _coordinates(
    out: Tensor, method: _Method, before: Size, after: Size, scale: Size, ends: tuple[float, float]
) -> Tensor:
    """Places of the input for those of the output."""
    if method.transform == "align_corners":
        return out * ((before - 1) / (after - 1)) if after > 1 else out * 0
    if method.transform == "asymmetric":
        return out / scale
    if method.transform == "tf_crop_and_resize":
        start, end = ends
        if after > 1:
            return start * (before - 1) + out * ((end - start) * (before - 1) / (after - 1))
        return out * 0 + 0.5 * (start + end) * (before - 1)
    if method.transform == "pytorch_half_pixel" and after <= 1:
        return out * 0
    middle = (out + 0.5) / scale - 0.5
    if method.transform == "half_pixel_symmetric":
        adjustment = after / (scale * before)
        return before / 2 * (1 - adjustment) + middle
    if method.transform not in ("half_pixel", "pytorch_half_pixel"):
        fail("O002", f"onnx: Resize has no transformation {method.transform} of coordinates")
    return middle


def _nearest(places: Tensor, how: str) -> Tensor:
    if how == "floor":
        return places.floor()
    if how == "ceil":
        return places.ceil()
    return (places - 0.5).ceil() if how == "round_prefer_floor" else (places + 0.5).floor()


def _cubic(distance: Tensor, a: float) -> Tensor:
    x = distance.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return rl.where(x <= 1, near, rl.where(x < 2, far, rl.zeros_like(x)))


def _taps(places: Tensor, method: _Method, scale: Size, length: Size) -> tuple[Tensor, Tensor]:
    """Indices [places, taps] of the input, and weights."""
    if method.mode == "nearest":
        return _nearest(places, method.nearest).unsqueeze(1), rl.ones(places.shape[0], 1, dtype=rl.float64)
    shrink = min(scale, 1.0) if method.antialias else 1.0
    reach = (1 if method.mode == "linear" else 2) / shrink
    count = math.ceil(reach)
    offsets = rl.arange(1 - count, count + 1)
    indices = places.floor().unsqueeze(1) + offsets
    distance = (indices - places.unsqueeze(1)) * shrink
    weights = (1 - distance.abs()).clamp(0, 1) if method.mode == "linear" else _cubic(distance, method.cubic)
    if method.exclude_outside or method.antialias:
        outside = (indices < 0) | (indices > length - 1)
        weights = weights.masked_fill(outside, 0.0) if method.exclude_outside or method.mode == "linear" else weights
    return indices, weights / weights.sum(1, keepdim=True)


def _resized(x: Tensor, dim: int, after: Size, scale: Size, method: _Method, ends: tuple[float, float]) -> Tensor:
    length = x.shape[dim]
    places = _coordinates(rl.arange(after, dtype=rl.float64), method, length, after, scale, ends)
    indices, weights = _taps(places, method, scale, length)
    index = indices.clamp(0, length - 1).to(rl.int64)
    taps = x.index_select(dim, index.reshape(-1)).unflatten(dim, (after, index.shape[1]))
    spread = weights.reshape(*[1] * dim, after, index.shape[1], *[1] * (x.dim() - 1 - dim))
    if method.mode == "nearest":
        result = taps.squeeze(dim + 1)
    else:
        result = (taps.double() * spread).sum(dim + 1)
    if method.transform == "tf_crop_and_resize":
        outside = ((places < 0) | (places > length - 1)).reshape(-1, *[1] * (x.dim() - 1 - dim))
        result = result.masked_fill(outside, method.extrapolation)
    return result


def _targets(
    x: Tensor, dims: list[int], scales: Numbers | None, sizes: Numbers | None, policy: str
) -> tuple[list[Size], list[Size]]:
    """The new sizes, and scales, of dims."""
    lengths = [x.shape[dim] for dim in dims]
    if sizes is None or sizes.size == 0:
        assert scales is not None
        factors = [float(factor) for factor in scales.tolist()]
        return [_floor(length, factor) for length, factor in zip(lengths, factors, strict=True)], factors
    wanted = sizes.tolist()
    if policy == "stretch":
        return wanted, [want / length for want, length in zip(wanted, lengths, strict=True)]
    ratios = [want / length for want, length in zip(wanted, lengths, strict=True)]
    factor = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(length * factor + 0.5) for length in lengths], [factor] * len(dims)


def _floor(length: Size, factor: float) -> Value:
    if factor == int(factor):
        return length * int(factor)
    ratio = np.float32(factor).item().as_integer_ratio()
    if isinstance(length, int):
        return math.floor(length * factor)
    return length * ratio[0] // ratio[1]


def _resize(
    x: Tensor,
    roi: Numbers | None,
    scales: Numbers | None,
    sizes: Numbers | None,
    axes: tuple[int, ...] | None,
    policy: str,
    method: _Method,
) -> Tensor:
    dims = list(range(x.dim())) if axes is None else [axis % x.dim() for axis in axes]
    targets, factors = _targets(x, dims, scales, sizes, policy)
    dtype = x.dtype
    for place, (dim, after, factor) in enumerate(zip(dims, targets, factors, strict=True)):
        ends = (0.0, 1.0)
        if roi is not None and roi.size:
            ends = float(roi[place]), float(roi[len(dims) + place])
        if isinstance(factor, float) and factor == 1.0 and method.transform != "tf_crop_and_resize":
            continue
        x = _resized(x, dim, after, factor, method, ends)
    if not dtype.is_floating_point and x.is_floating_point():
        return saturated(x, dtype)
    return x.to(dtype)


@operator("Resize", 11, host=(1, 2, 3))
def resize(
    x: Tensor,
    roi: Numbers | None = None,
    scales: Numbers | None = None,
    sizes: Numbers | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Dims resized by scales, or to sizes."""
    if antialias and mode == "linear":
        fail("O002", "onnx: Resize has no linear interpolation with antialias", hint="resize with mode cubic")
    method = _Method(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        extrapolation_value,
        bool(antialias),
    )
    return _resize(x, roi, scales, sizes, axes, keep_aspect_ratio_policy, method)


@operator("Resize", 10, host=(1,))
def resize_by_scales(x: Tensor, scales: Numbers, *, mode: str = "nearest") -> Tensor:
    """Dims resized by scales, with the first place kept."""
    method = _Method(mode.replace("bilinear", "linear"), "asymmetric", "floor", -0.75, False, 0.0, False)
    return _resize(x, None, scales, None, None, "stretch", method)


@operator("Upsample", 9, host=(1,))
def upsample(x: Tensor, scales: Numbers, *, mode: str = "nearest") -> Tensor:
    """Dims resized by scales, with the first place kept."""
    return resize_by_scales(x, scales, mode=mode)


@operator("Upsample")
def upsample_attribute(x: Tensor, *, scales: tuple[float, ...], mode: str = "nearest") -> Tensor:
    """Dims resized by scales, with the first place kept."""
    return resize_by_scales(x, np.asarray(scales), mode=mode)
