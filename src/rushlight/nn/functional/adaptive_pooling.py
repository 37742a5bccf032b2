"""Largest elements of windows that cover space in as many steps as asked for."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight.eager.arguments import flag, integers
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.nn.spatial import PerDim
from rushlight.ops.pool.pool_nd import output_size_of
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


# These return a tensor or (values, indices); a union would make every caller test which.
def _adaptive(dims: int, input: Tensor, output_size: PerDim[int | None], return_indices: bool) -> Any:
    name = f"adaptive_max_pool{dims}d"
    require(
        input.ndim in (dims + 1, dims + 2), "S002", f"{name}: the input has {dims + 1} or {dims + 2} dims", input=input
    )
    wanted = output_size if isinstance(output_size, tuple | list) else (output_size,)
    sizes = output_size_of(integers(tuple(input.shape)) or (), integers(tuple(wanted)) or (), dims, name)
    if not flag(return_indices):
        return OPERATORS["adaptive_max_pool"](input, sizes)
    return _with_indices(dims, input, sizes)


def _with_indices(dims: int, input: Tensor, sizes: tuple[object, ...]) -> tuple[Tensor, Tensor]:
    places = OPERATORS["adaptive_max_pool_indices"](input, sizes)
    lead = input.shape[: input.ndim - dims]
    flat = input.reshape(*lead, prod(input.shape[input.ndim - dims :]))
    taken = flat.gather(-1, places.reshape(*lead, prod(places.shape[len(lead) :])))
    return taken.reshape(places.shape), places


@checked
def adaptive_max_pool1d(input: Tensor, output_size: PerDim[int | None], return_indices: bool = False) -> Any:
    """Return the largest elements of windows that cover the last dim in `output_size` steps."""
    return _adaptive(1, input, output_size, return_indices)


@checked
def adaptive_max_pool2d(input: Tensor, output_size: PerDim[int | None], return_indices: bool = False) -> Any:
    """Return the largest elements of windows that cover the last two dims; None keeps a size."""
    return _adaptive(2, input, output_size, return_indices)


@autocasts("float32")
@checked
def adaptive_max_pool3d(input: Tensor, output_size: PerDim[int | None], return_indices: bool = False) -> Any:
    """Return the largest elements of windows that cover the last three dims; None keeps a size."""
    return _adaptive(3, input, output_size, return_indices)


@checked
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: PerDim[int | None], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return `adaptive_max_pool1d` and the place of each largest element, whatever `return_indices` says."""
    values, places = _adaptive(1, input, output_size, True)
    return values, places


@checked
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: PerDim[int | None], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return `adaptive_max_pool2d` and the place of each largest element, whatever `return_indices` says."""
    values, places = _adaptive(2, input, output_size, True)
    return values, places


@autocasts("float32")
@checked
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: PerDim[int | None], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return `adaptive_max_pool3d` and the place of each largest element, whatever `return_indices` says."""
    values, places = _adaptive(3, input, output_size, True)
    return values, places
