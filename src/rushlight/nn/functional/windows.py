"""Windows over images as columns, and columns summed back into images."""

from __future__ import annotations

from math import prod

from rushlight.eager.boundary import checked
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.nn.spatial import PerDim, per_dim
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


def _pair(value: PerDim[int], name: str, op: str) -> tuple[int, ...]:
    pair = per_dim(value, 2)
    pair = pair * 2 if len(pair) == 1 else pair
    require(len(pair) == 2, "A004", f"{op}: {name} is one number or two", given=value)
    return pair


@checked
def unfold(
    input: Tensor,
    kernel_size: PerDim[int],
    dilation: PerDim[int] = 1,
    padding: PerDim[int] = 0,
    stride: PerDim[int] = 1,
) -> Tensor:
    """Return the elements under each window of (n, c, h, w) as columns: (n, c * elements, windows)."""
    require(input.ndim in (3, 4), "S002", "unfold: the input has 3 or 4 dims", input=input)
    kernel, steps, around, gaps = (
        _pair(value, name, "unfold")
        for name, value in (
            ("kernel_size", kernel_size),
            ("stride", stride),
            ("padding", padding),
            ("dilation", dilation),
        )
    )
    filled = holds(prod(input.shape[-3:]) != 0, "unfold: an image without elements")
    require(filled, "S010", "unfold: an image without elements", input=input)
    windows = OPERATORS["unfold_windows"](input, kernel, steps, around, gaps)
    lead, channels = input.shape[:-3], input.shape[-3]
    return windows.reshape(*lead, channels * prod(kernel), windows.shape[-2] * windows.shape[-1])


@checked
def fold(
    input: Tensor,
    output_size: PerDim[int],
    kernel_size: PerDim[int],
    dilation: PerDim[int] = 1,
    padding: PerDim[int] = 0,
    stride: PerDim[int] = 1,
) -> Tensor:
    """Return images (n, c, h, w) in which each element is the sum of what columns have at its place."""
    require(input.ndim in (2, 3), "S002", "fold: the input has 2 or 3 dims", input=input)
    size, kernel, steps, around, gaps = (
        _pair(value, name, "fold")
        for name, value in (
            ("output_size", output_size),
            ("kernel_size", kernel_size),
            ("stride", stride),
            ("padding", padding),
            ("dilation", dilation),
        )
    )
    rule = zip(size, kernel, steps, around, gaps, strict=True)
    valid = min(*kernel, *steps, *gaps) > 0 and min(around) >= 0
    require(valid, "A002", "fold: kernel, stride and dilation are positive, padding not negative", kernel_size=kernel)
    counts = [(one + 2 * pad - gap * (width - 1) - 1) // step + 1 for one, width, step, pad, gap in rule]
    *lead, rows, columns = input.shape
    require(holds(rows % prod(kernel) == 0), "S010", "fold: rows are channels times the kernel's elements", input=input)
    fits = holds(columns == prod(counts), "fold: a column for each window")
    require(fits, "S009", f"fold: {prod(counts)} columns are expected, one for each window", input=input)
    windows = input.reshape(*lead, rows // prod(kernel), *kernel, *counts)
    return OPERATORS["fold_windows"](windows, size, steps, around, gaps)
