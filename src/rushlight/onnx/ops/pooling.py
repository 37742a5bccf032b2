"""Pooling windows."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import functional
from rushlight.onnx.ops.convolution import window_pads
from rushlight.onnx.ops.shapes import padded
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Numbers, Size, Value, integers


class _Windows:
    """The windows of a pooling: an axis of places for each tap, and which of them lie in the padded input."""

    def __init__(
        self,
        x: Tensor,
        kernel: Sequence[int],
        strides: Sequence[int] | None,
        dilations: Sequence[int] | None,
        pads: Sequence[int] | None,
        auto_pad: str,
        ceil_mode: int,
    ) -> None:
        self.rank = len(kernel)
        self.kernel = kernel
        self.strides = tuple(strides or (1,) * self.rank)
        self.dilations = tuple(dilations or (1,) * self.rank)
        self.before, self.after = window_pads(x, kernel, self.strides, self.dilations, pads, auto_pad)
        self.counts = [self._count(x.shape[2 + dim], dim, ceil_mode) for dim in range(self.rank)]
        self.reach = [self._reach(x.shape[2 + dim], dim) for dim in range(self.rank)]

    def _span(self, dim: int) -> int:
        return (self.kernel[dim] - 1) * self.dilations[dim] + 1

    def _count(self, length: Size, dim: int, ceil_mode: int) -> Value:
        stride = self.strides[dim]
        room = length + self.before[dim] + self.after[dim] - self._span(dim)
        if not ceil_mode:
            return room // stride + 1
        count = -(-room // stride) + 1
        # A window that would begin in the padding behind the input is left out.
        return count - 1 if (count - 1) * stride >= length + self.before[dim] else count

    def _reach(self, length: Size, dim: int) -> Value:
        """How many places more than the input and its padding the last window needs; fewer where negative."""
        needed = (self.counts[dim] - 1) * self.strides[dim] + self._span(dim)
        return needed - length - self.before[dim]

    def taps(self, x: Tensor, filling: float) -> Tensor:
        """The windows of `x`: a last dim of taps, in row-major order."""
        moved = padded(x, [*self.before, *self.reach], list(range(2, x.dim())), filling, "constant")
        for dim in range(self.rank):
            moved = moved.unfold(2 + dim, self._span(dim), self.strides[dim])
        for dim in range(self.rank):
            if self.dilations[dim] > 1:
                index = [slice(None)] * moved.dim()
                index[2 + self.rank + dim] = slice(None, None, self.dilations[dim])
                moved = moved[tuple(index)]
        return moved.flatten(2 + self.rank)

    def plain(self) -> bool:
        """Whether PyTorch's poolings have such windows: half the kernel as padding at most, and nothing beyond."""
        halves = all(2 * before <= size for before, size in zip(self.before, self.kernel, strict=True))
        return self.before == self.after and halves


@operator("MaxPool", counted=True)
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    storage_order: int = 0,
    strides: tuple[int, ...] | None = None,
    outputs: int = 1,
) -> Value:
    """The largest number of each window, and its place in the whole input."""
    windows = _Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    pools = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
    if outputs == 1 and windows.plain() and x.is_floating_point() and not ceil_mode:
        return pools[windows.rank](x, kernel_shape, windows.strides, tuple(windows.before), windows.dilations)
    lowest = -float("inf") if x.is_floating_point() else rl.iinfo(x.dtype).min
    taps = windows.taps(x, lowest)
    values, tap = taps.amax(-1), taps.argmax(-1)
    return values if outputs == 1 else (values, _places(x, windows, tap, storage_order))


def _places(x: Tensor, windows: _Windows, tap: Tensor, column_major: int) -> Tensor:
    rank, spatial = windows.rank, x.shape[2:]
    dims = range(rank)
    positions: list[Tensor] = []
    rest = tap
    for dim in reversed(dims):
        shape = [-1 if other == dim else 1 for other in dims]
        start = (rl.arange(windows.counts[dim]) * windows.strides[dim] - windows.before[dim]).reshape(shape)
        positions.insert(0, start + rest % windows.kernel[dim] * windows.dilations[dim])
        rest = rest // windows.kernel[dim]
    flat: Tensor = rl.zeros_like(tap)
    for dim in reversed(dims) if column_major else dims:
        flat = flat * spatial[dim] + positions[dim]
    plane = 1
    for size in spatial:
        plane = plane * size
    images = rl.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], *[1] * rank)
    return flat + images * plane


@operator("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """The mean of each window."""
    windows = _Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    pools = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
    if windows.plain() and not ceil_mode and all(step == 1 for step in windows.dilations):
        pad = tuple(windows.before)
        return pools[windows.rank](x, kernel_shape, windows.strides, pad, count_include_pad=bool(count_include_pad))
    ones = rl.ones_like(x[:1, :1])
    if count_include_pad:
        ones = padded(ones, [*windows.before, *windows.after], list(range(2, x.dim())), 1, "constant")
        flat = _Windows(ones, kernel_shape, strides, dilations, None, "NOTSET", 0)
        flat.counts = windows.counts
        flat.reach = [flat._reach(ones.shape[2 + dim], dim) for dim in range(flat.rank)]
        return windows.taps(x, 0).sum(-1) / flat.taps(ones, 0).sum(-1)
    return windows.taps(x, 0).sum(-1) / windows.taps(ones, 0).sum(-1)


@operator("LpPool")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    p: int = 2,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """The p-norm of each window."""
    windows = _Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return windows.taps(x, 0).abs().pow(p).sum(-1).pow(1 / p)


def _spatial(x: Tensor) -> list[int]:
    return list(range(2, x.dim()))


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean of each channel."""
    return x.mean(_spatial(x), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """The largest number of each channel."""
    return x.amax(_spatial(x), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    """The p-norm of each channel."""
    return x.abs().pow(p).sum(_spatial(x), keepdim=True).pow(1 / p)


@operator("MaxUnpool", host=(2,))
def max_unpool(
    x: Tensor,
    places: Tensor,
    shape: Numbers | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """Numbers at the places that they had before pooling, else 0."""
    rank = len(kernel_shape)
    steps, flat = strides or (1,) * rank, pads or (0,) * (2 * rank)
    lengths: list[Size] = [
        (x.shape[2 + dim] - 1) * steps[dim] + kernel_shape[dim] - flat[dim] - flat[rank + dim] for dim in range(rank)
    ]
    natural = [*x.shape[:2], *lengths]
    result = rl.zeros(natural, dtype=x.dtype).reshape(-1).scatter(0, places.reshape(-1), x.reshape(-1)).reshape(natural)
    if shape is None:
        return result
    more = [wanted - size for wanted, size in zip(integers(shape), natural, strict=True)]
    return padded(result, [*[0] * x.dim(), *more], list(range(x.dim())), 0, "constant")
