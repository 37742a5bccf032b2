"""Largest elements back in the places that pooling took them from."""

from __future__ import annotations

from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.nn.spatial import PerDim, per_dim
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


def _unpool(
    dims: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None,
    padding: PerDim[int],
    output_size: PerDim[int] | None,
) -> Tensor:
    name = f"max_unpool{dims}d"
    ranks = input.ndim in (dims + 1, dims + 2)
    require(ranks, "S002", f"{name}: the input has {dims + 1} or {dims + 2} dims", input=input)
    kernel, around = per_dim(kernel_size, dims), per_dim(padding, dims)
    steps = kernel if stride is None else per_dim(stride, dims)
    for values in (kernel, around, steps):
        require(len(values) == dims, "A004", f"{name}: one number for each of {dims} spatial dims", given=values)
    space = input.shape[input.ndim - dims :]
    rule = zip(space, steps, kernel, around, strict=True)
    sizes = tuple([(size - 1) * step + width - 2 * pad for size, step, width, pad in rule])
    if output_size is not None:
        wanted = per_dim(output_size, dims)
        wanted = wanted[2:] if len(wanted) == dims + 2 else wanted
        require(len(wanted) == dims, "A004", f"{name}: output_size has {dims} or {dims + 2} numbers", given=output_size)
        for size, given, step in zip(sizes, wanted, steps, strict=True):
            near = holds(size - step < given) and holds(given < size + step)
            require(near, "A002", f"{name}: output_size is less than a stride from {sizes}", given=output_size)
        sizes = wanted
    for size in sizes:
        require(holds(size >= 0), "A002", f"{name}: sizes must not be negative", output_size=sizes)
    return OPERATORS["max_unpool"](input, indices, sizes)


@checked
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    output_size: PerDim[int] | None = None,
) -> Tensor:
    """Return zeros with the elements in the places that `max_pool1d` gives as indices."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@autocasts("float32")
@checked
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    output_size: PerDim[int] | None = None,
) -> Tensor:
    """Return zeros with the elements in the places that `max_pool2d` gives as indices."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@autocasts("float32")
@checked
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    output_size: PerDim[int] | None = None,
) -> Tensor:
    """Return zeros with the elements in the places that `max_pool3d` gives as indices."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
