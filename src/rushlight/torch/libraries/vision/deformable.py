"""Convolutions whose taps are moved by offsets, and weighted by a mask."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.support.errors import require


@rl.compile(dynamic=True)
def _sampled(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Images [N, G, C, H, W] at places [N, G, h, w, H', W'], between elements; 0 outside."""
    height, width = images.shape[-2:]
    inside = (rows > -1) & (rows < height) & (columns > -1) & (columns < width)
    top, left = rows.floor(), columns.floor()
    down, across = rows - top, columns - left
    ranges = [rl.arange(count) for count in images.shape[:3]]
    before = [one.reshape(*[-1 if at == axis else 1 for at in range(7)]) for axis, one in enumerate(ranges)]
    total = None
    for row, row_weight in ((top, 1 - down), (top + 1, down)):
        for column, weight in ((left, 1 - across), (left + 1, across)):
            there = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            places = [rl.where(there, place, 0.0).long()[:, :, None] for place in (row, column)]
            part = rl.where(there, row_weight * weight, 0.0)[:, :, None] * images[(*before, *places)]
            total = part if total is None else total + part
    assert total is not None, "there are four elements around a place"
    return total


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """Return the convolution, [N, O, H', W'], of `input` [N, C, H, W] by `weight` [O, C / groups, h, w].

    `offset` [N, 2 * offset_groups * h * w, H', W'] has the rows and columns by which each tap is moved, and `mask`
    [N, offset_groups * h * w, H', W'] its factors, if `use_mask`. `bias` is of shape [O].
    """
    shapes = input.ndim == weight.ndim == offset.ndim == 4
    require(shapes, "A001", "deform_conv2d: images, weights and offsets have four dims", offsets=tuple(offset.shape))
    n, channels = input.shape[:2]
    outputs, _, h, w = weight.shape
    out = offset.shape[2:]
    taps = offset.shape[1] == 2 * offset_groups * h * w
    require(taps, "A001", "deform_conv2d: there are two offsets for each tap", offsets=tuple(offset.shape))
    divides = channels % offset_groups == 0 and channels == groups * weight.shape[1] and outputs % groups == 0
    require(divides, "A001", "deform_conv2d: groups divide the channels", channels=channels, groups=groups)
    for axis, (stride, pad, dilation, tap) in enumerate(
        ((stride_h, pad_h, dilation_h, h), (stride_w, pad_w, dilation_w, w))
    ):
        count = (input.shape[2 + axis] + 2 * pad - dilation * (tap - 1) - 1) // stride + 1
        require(count == out[axis], "A001", "deform_conv2d: offsets are of the result's height and width", wanted=count)
    moved = offset.reshape(n, offset_groups, h, w, 2, *out)
    rows = rl.arange(out[0]) * stride_h - pad_h + (rl.arange(h) * dilation_h)[:, None, None]
    columns = rl.arange(out[1]) * stride_w - pad_w + (rl.arange(w) * dilation_w)[:, None]
    images = input.reshape(n, offset_groups, channels // offset_groups, *input.shape[2:])
    taken = _sampled(
        images,
        rows[:, :, :, None].to(offset.dtype) + moved[:, :, :, :, 0],
        columns[:, None, :].to(offset.dtype) + moved[:, :, :, :, 1],
    )
    if use_mask:
        taken = taken * mask.reshape(n, offset_groups, 1, h, w, *out)
    taken = taken.reshape(n, groups, weight.shape[1] * h * w, out[0] * out[1])
    made = weight.reshape(groups, outputs // groups, -1) @ taken
    return made.reshape(n, outputs, *out) + bias[:, None, None]


def deform_conv2d_backward(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of `deform_conv2d`'s five tensors; that of a mask that is not used is zero."""
    operands = [one.detach().requires_grad_() for one in (input, weight, offset, mask, bias)]
    steps = (stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask)
    with rl.enable_grad():
        made = deform_conv2d(operands[0], operands[1], operands[2], operands[3], operands[4], *steps)
    found = rl.autograd.grad(made, operands, grad, allow_unused=True)
    return tuple(rl.zeros_like(mask) if one is None else one for one in found)
