"""The operators of torchvision against loops in numpy; the library's file is only a name."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.torch.modules.ops import load_library

load_library("torchvision/_C.so")
OPS = rl.ops.torchvision
FLOAT64 = np.float64
Bins = tuple[int, int]
REGIONS = np.array(
    [
        [0, 0, 0, 9, 7],
        [0, 1.3, 2.7, 4.2, 6.5],
        [1, 5, 5, 5, 5],
        [1, -3, -2, 20, 30],
        [0, 8.5, 6.5, 9.5, 7.5],
        [1, 6, 2, 3, 1],
    ],
    FLOAT64,
)


def images(channels: int = 12, height: int = 8, width: int = 10) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((2, channels, height, width))


def between(plane: np.ndarray, y: float, x: float) -> float:
    """What lies between elements as pools take it: up to 1 outside of the image it is that at the border."""
    height, width = plane.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    down, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = plane[top, left] * (1 - x + left) + plane[top, right] * (x - left)
    lower = plane[down, left] * (1 - x + left) + plane[down, right] * (x - left)
    return upper * (1 - y + top) + lower * (y - top)


def align(
    data: np.ndarray,
    rois: np.ndarray,
    scale: float,
    bins: Bins,
    ratio: int,
    shift: float,
    least: bool,
    channel_of: Callable[[int, int, int], int],
) -> np.ndarray:
    """Means of points: `channel_of(c, i, j)` is the channel that a bin reads."""
    height, width = bins
    channels = data.shape[1] if channel_of(0, 0, 1) == 0 else data.shape[1] // (height * width)
    made = np.zeros((len(rois), channels, height, width))
    for k, (image, *corners) in enumerate(rois):
        left, top, right, bottom = [corner * scale - shift for corner in corners]
        tall, wide = bottom - top, right - left
        if least:
            tall, wide = max(tall, 1.0), max(wide, 1.0)
        down, across = tall / height, wide / width
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(down), math.ceil(across))
        for c, i, j in np.ndindex(channels, height, width):
            total = 0.0
            for y, x in np.ndindex(max(rows, 0), max(columns, 0)):
                at = top + i * down + (y + 0.5) * down / rows, left + j * across + (x + 0.5) * across / columns
                total += between(data[int(image), channel_of(c, i, j)], *at)
            count = rows * columns
            made[k, c, i, j] = total / (max(count, 1) if channels == data.shape[1] else count or math.nan)
    return made


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_means_of_points_in_bins(aligned: bool, ratio: int, scale: float):
    data, bins = images(3), (3, 2)
    shift = 0.5 if aligned else 0.0
    expected = align(data, REGIONS, scale, bins, ratio, shift, not aligned, lambda c, i, j: c)
    found = OPS.roi_align(rl.tensor(data), rl.tensor(REGIONS), scale, *bins, ratio, aligned)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ratio", [2, -1])
def test_means_of_points_where_bins_have_channels(ratio: int):
    data, bins = images(), (3, 2)
    regions = REGIONS[:-1] if ratio < 0 else REGIONS
    expected = align(data, regions, 0.5, bins, ratio, 0.5, False, lambda c, i, j: (c * 3 + i) * 2 + j)
    found, channels = OPS.ps_roi_align(rl.tensor(data), rl.tensor(regions), 0.5, *bins, ratio)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert channels.dtype is rl.int32 and channels[-1].tolist() == np.arange(12).reshape(2, 3, 2).tolist()


def bounds(low: float, high: float, scale: float, bins: int, length: int, last: int) -> list[tuple[int, int]]:
    low, high = [int(math.copysign(math.floor(abs(one * scale) + 0.5), one)) for one in (low, high)]
    step = max(high - low + last, 1) / bins
    most = length - 1 + last
    ends = [(math.floor(at * step), math.ceil((at + 1) * step)) for at in range(bins)]
    return [(min(max(begin + low, 0), most), min(max(end + low, 0), most)) for begin, end in ends]


def windows(
    data: np.ndarray, rois: np.ndarray, scale: float, bins: Bins, last: int
) -> Iterator[tuple[int, int, int, int, slice, slice]]:
    for k, (image, left, top, right, bottom) in enumerate(rois):
        rows = bounds(top, bottom, scale, bins[0], data.shape[2], last)
        columns = bounds(left, right, scale, bins[1], data.shape[3], last)
        for i, j in np.ndindex(*bins):
            yield k, i, j, int(image), slice(*rows[i]), slice(*columns[j])


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_the_largest_element_of_each_bin_and_its_place(scale: float):
    data, bins = images(3), (3, 2)
    data[0, 1] = np.nan
    data[1, 2, 2:5, 3:7] = -np.inf
    found, places = OPS.roi_pool(rl.tensor(data), rl.tensor(REGIONS), scale, *bins)
    for k, i, j, image, rows, columns in windows(data, REGIONS, scale, bins, 1):
        for c in range(3):
            best, place = (-float(np.finfo(np.float32).max), -1)
            if rows.stop <= rows.start or columns.stop <= columns.start:
                best = 0.0
            for y in range(rows.start, rows.stop):
                for x in range(columns.start, columns.stop):
                    if data[image, c, y, x] > best:
                        best, place = data[image, c, y, x], y * data.shape[3] + x
            assert (float(found[k, c, i, j]), int(places[k, c, i, j])) == (best, place)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_means_of_elements_where_bins_have_channels(scale: float):
    data, bins = images(), (3, 2)
    found, _ = OPS.ps_roi_pool(rl.tensor(data), rl.tensor(REGIONS), scale, *bins)
    for k, i, j, image, rows, columns in windows(data, REGIONS, scale, bins, 0):
        for c in range(2):
            window = data[image, (c * 3 + i) * 2 + j, rows, columns]
            assert float(found[k, c, i, j]) == pytest.approx(window.mean() if window.size else 0.0, rel=1e-12)


def pools() -> dict[str, tuple[Callable[[rl.Tensor, rl.Tensor], rl.Tensor], tuple[Any, ...], tuple[Any, ...], int]]:
    return {
        "roi_align": (lambda x, rois: OPS.roi_align(x, rois, 0.5, 2, 2, 2, True), (0.5, 2, 2), (2, True), 0),
        "ps_roi_align": (lambda x, rois: OPS.ps_roi_align(x, rois, 0.5, 2, 2, 2)[0], (0.5, 2, 2), (2,), 1),
        "roi_pool": (lambda x, rois: OPS.roi_pool(x, rois, 0.5, 2, 2)[0], (0.5, 2, 2), (), 2),
        "ps_roi_pool": (lambda x, rois: OPS.ps_roi_pool(x, rois, 0.5, 2, 2)[0], (0.5, 2, 2), (), 1),
    }


@pytest.mark.parametrize("name", pools())
def test_gradients_are_those_of_differences_and_of_the_backward_operators(name: str):
    pool, first, last, kept = pools()[name]
    rois = rl.tensor(REGIONS)
    x = rl.tensor(images(4, 5, 6), requires_grad=True)
    assert rl.autograd.gradcheck(lambda x: pool(x, rois), (x,))
    y = pool(x, rois)
    gradient = rl.tensor(np.random.default_rng(1).standard_normal(tuple(y.shape)))
    (expected,) = rl.autograd.grad(y, x, gradient)
    more = [] if not kept else [getattr(OPS, name)(x, rois, *first, *last)[1]]
    between = (*last, *x.shape) if name.startswith("ps") else (*x.shape, *last)
    found = getattr(OPS, f"_{name}_backward")(gradient, rois, *more, *first, *between)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", pools())
def test_compiled_pools_are_one_graph_for_any_number_of_regions(name: str):
    pool = pools()[name][0]
    compiled = rl.compile(pool, dynamic=True)
    x = rl.tensor(images(4, 5, 6).astype(np.float32))
    for rows in (6, 3, 1):
        rois = rl.tensor(REGIONS[:rows].astype(np.float32))
        assert rl.equal(compiled(x, rois), pool(x, rois))


def test_no_region_and_no_channel():
    x, none = rl.ones(1, 4, 5, 6), rl.zeros(0, 5)
    for pool, *_ in pools().values():
        assert pool(x, none).shape[0] == 0
    assert OPS.roi_align(x[:, :0], rl.tensor([[0, 0, 0, 2, 2.0]]), 1.0, 2, 2, -1, False).shape == (1, 0, 2, 2)


def test_regions_of_another_form_are_refused():
    x = rl.ones(1, 3, 5, 6)
    with pytest.raises(rl.ArgumentError, match=r"\[K, 5\]"):
        OPS.roi_align(x, rl.zeros(2, 4), 1.0, 2, 2, -1, False)
    with pytest.raises(rl.ArgumentError, match="one dtype"):
        OPS.roi_pool(x, rl.zeros(2, 5, dtype=rl.float64), 1.0, 2, 2)
    with pytest.raises(rl.ArgumentError, match="multiple"):
        OPS.ps_roi_pool(x, rl.zeros(2, 5), 1.0, 2, 2)
    with pytest.raises(NotImplementedError, match="quantized"):
        OPS.qnms(rl.zeros(1, 4), rl.zeros(1), 0.5)


def kept(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    order = sorted(range(len(boxes)), key=lambda at: -scores[at])
    found: list[int] = []
    for at in order:
        for other in found:
            low = np.maximum(boxes[at, :2], boxes[other, :2])
            high = np.minimum(boxes[at, 2:], boxes[other, 2:])
            common = np.prod(np.maximum(high - low, 0), dtype=np.float32)
            area = [np.prod(boxes[one, 2:] - boxes[one, :2], dtype=np.float32) for one in (other, at)]
            if common / (area[0] + area[1] - common) > threshold:
                break
        else:
            found.append(at)
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 200])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_boxes_that_overlap_one_with_a_higher_score_are_dropped(count: int, threshold: float):
    rng = np.random.default_rng(count)
    corners = rng.uniform(0, 10, (count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.5, 4, (count, 2))], 1).astype(np.float32)
    scores = rng.integers(0, 20, count).astype(np.float32)
    found = OPS.nms(rl.tensor(boxes).reshape(-1, 4), rl.tensor(scores), threshold)
    assert found.dtype is rl.int64 and found.tolist() == kept(boxes, scores, threshold)


def deformed(
    data: np.ndarray,
    weight: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray,
    bias: np.ndarray,
    stride: Bins,
    pad: Bins,
    dilation: Bins,
    groups: int,
    offset_groups: int,
) -> np.ndarray:
    n, channels, height, width = data.shape
    outputs, each, h, w = weight.shape
    rows, columns = offset.shape[2:]
    made = np.zeros((n, outputs, rows, columns)) + bias[:, None, None]
    for b, o, y, x in np.ndindex(n, outputs, rows, columns):
        for c, i, j in np.ndindex(each, h, w):
            channel = o // (outputs // groups) * each + c
            tap = (channel // (channels // offset_groups) * h + i) * w + j
            at_y = y * stride[0] - pad[0] + i * dilation[0] + offset[b, 2 * tap, y, x]
            at_x = x * stride[1] - pad[1] + j * dilation[1] + offset[b, 2 * tap + 1, y, x]
            top, left = math.floor(at_y), math.floor(at_x)
            value = 0.0
            for row, down in ((top, 1 - at_y + top), (top + 1, at_y - top)):
                for column, across in ((left, 1 - at_x + left), (left + 1, at_x - left)):
                    if 0 <= row < height and 0 <= column < width:
                        value += down * across * data[b, channel, row, column]
            made[b, o, y, x] += weight[o, c, i, j] * value * mask[b, tap, y, x]
    return made


@pytest.mark.parametrize("use_mask", [False, True])
def test_convolutions_with_moved_taps(use_mask: bool):
    rng = np.random.default_rng(3)
    steps = ((2, 1), (1, 0), (1, 2), 2, 4)
    data, weight = rng.standard_normal((2, 4, 5, 7)), rng.standard_normal((6, 2, 3, 2))
    offset, mask = rng.standard_normal((2, 48, 3, 5)) * 2, rng.standard_normal((2, 24, 3, 5))
    bias = rng.standard_normal(6)
    tensors = [rl.tensor(one, requires_grad=True) for one in (data, weight, offset, mask, bias)]
    flat = (*steps[0], *steps[1], *steps[2], *steps[3:], use_mask)
    found = OPS.deform_conv2d(*tensors, *flat)
    ones = np.ones_like(mask)
    np.testing.assert_allclose(
        found.detach().numpy(), deformed(data, weight, offset, mask if use_mask else ones, bias, *steps), rtol=1e-10
    )
    gradient = rl.tensor(rng.standard_normal(tuple(found.shape)))
    expected = rl.autograd.grad(found, tensors, gradient, allow_unused=True, materialize_grads=True)
    for one, other in zip(OPS._deform_conv2d_backward(gradient, *tensors, *flat), expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-10, atol=1e-12)


def test_gradients_of_convolutions_with_moved_taps():
    rng = np.random.default_rng(4)
    shapes = ((1, 2, 4, 4), (2, 2, 2, 2), (1, 8, 3, 3), (1, 4, 3, 3), (2,))
    tensors = [rl.tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes]
    assert rl.autograd.gradcheck(lambda *all: OPS.deform_conv2d(*all, 1, 1, 0, 0, 1, 1, 1, 1, True), tensors)
