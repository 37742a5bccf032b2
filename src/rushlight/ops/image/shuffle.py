"""Channels as pixels and back, and channels in another order: dims split, permuted and merged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.value import Value
from rushlight.ops.dims import Array, Shape, normal, same_size
from rushlight.ops.record import Sample, define
from rushlight.ops.view.reorder import permute
from rushlight.ops.view.reshape import contiguous, reshape
from rushlight.support.errors import require
from rushlight.sym import Size, floordiv

pixel_shuffle = define(
    "pixel_shuffle(Tensor input, int upscale_factor) -> Tensor",
    "Groups of channels as blocks of pixels: (*, c r², h, w) becomes (*, c, h r, w r).",
    variants="function",
)
pixel_unshuffle = define(
    "pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor",
    "Blocks of pixels as groups of channels: (*, c, h r, w r) becomes (*, c r², h, w).",
    variants="function",
)
channel_shuffle = define(
    "channel_shuffle(Tensor input, int groups) -> Tensor",
    "The channels of dim 1 dealt out: the first of each group, then the second of each, and so on.",
    variants="function",
)


def _divided(size: Size, factor: int, op: str, subject: str, shape: Shape) -> Size:
    """Return `size / factor`; S010 where that is not whole."""
    part = floordiv(size, factor)
    require(same_size(part * factor, size), "S010", f"{op}: {subject} must be a multiple of {factor}", input=shape)
    return part


def _require_images(op: str, input: Value | Array, name: str, factor: int) -> None:
    require(input.ndim >= 3, "S002", f"{op}: the input needs at least 3 dims", input=input.shape)
    require(factor > 0, "A002", f"{op}: {name} must be positive", given=factor)


@pixel_shuffle.decompose
def pixel_shuffle_decompose(input: Value, upscale_factor: int) -> Value:
    r = upscale_factor
    _require_images("pixel_shuffle", input, "upscale_factor", r)
    *lead, channels, height, width = input.shape
    channels = _divided(channels, r * r, "pixel_shuffle", "the number of channels", input.shape)
    count = len(lead)
    blocks = reshape(input, (*lead, channels, r, r, height, width))
    order = (*range(count), count, count + 3, count + 1, count + 4, count + 2)
    return contiguous(reshape(permute(blocks, order), (*lead, channels, height * r, width * r)))


@pixel_shuffle.ref
def pixel_shuffle_ref(input: Array, upscale_factor: int) -> Array:
    r = upscale_factor
    *lead, channels, height, width = input.shape
    blocks = input.reshape(*lead, channels // (r * r), r, r, height, width)
    moved = np.moveaxis(blocks, (-4, -3), (-3, -1))
    return moved.reshape(*lead, channels // (r * r), height * r, width * r)


@pixel_shuffle.samples
def pixel_shuffle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 8, 3, 2), 2)


@pixel_unshuffle.decompose
def pixel_unshuffle_decompose(input: Value, downscale_factor: int) -> Value:
    r = downscale_factor
    _require_images("pixel_unshuffle", input, "downscale_factor", r)
    *lead, channels, height, width = input.shape
    height = _divided(height, r, "pixel_unshuffle", "the height", input.shape)
    width = _divided(width, r, "pixel_unshuffle", "the width", input.shape)
    count = len(lead)
    blocks = reshape(input, (*lead, channels, height, r, width, r))
    order = (*range(count), count, count + 2, count + 4, count + 1, count + 3)
    return contiguous(reshape(permute(blocks, order), (*lead, channels * (r * r), height, width)))


@pixel_unshuffle.ref
def pixel_unshuffle_ref(input: Array, downscale_factor: int) -> Array:
    r = downscale_factor
    *lead, channels, height, width = input.shape
    blocks = input.reshape(*lead, channels, height // r, r, width // r, r)
    moved = np.moveaxis(blocks, (-3, -1), (-4, -3))
    return moved.reshape(*lead, channels * r * r, height // r, width // r)


@pixel_unshuffle.samples
def pixel_unshuffle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4, 6), 2)


@channel_shuffle.decompose
def channel_shuffle_decompose(input: Value, groups: int) -> Value:
    _require_images("channel_shuffle", input, "groups", groups)
    batch, channels, *space = input.shape
    each = _divided(channels, groups, "channel_shuffle", "the number of channels", input.shape)
    parts = reshape(input, (batch, groups, each, *space))
    return contiguous(reshape(permute(parts, (0, 2, 1, *range(3, input.ndim + 1))), input.shape))


@channel_shuffle.ref
def channel_shuffle_ref(input: Array, groups: int) -> Array:
    batch, channels, *space = input.shape
    return input.reshape(batch, groups, channels // groups, *space).swapaxes(1, 2).reshape(input.shape)


@channel_shuffle.samples
def channel_shuffle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 6, 3), 2)
