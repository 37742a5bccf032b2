"""Functions of the array API standard that rearrange, join, split and select."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.compat.array_api.array import Array, arrayed, plain
from rushlight.compat.array_api.dtypes import result_type
from rushlight.compat.functions import broadcast_shapes
from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require

Axes = int | tuple[int, ...]


@checked
def broadcast_arrays(*arrays: object) -> list[Array]:
    """Return the arrays expanded to the shape that they broadcast to, as views."""
    tensors = [plain(array) for array in arrays]
    shape = broadcast_shapes(*[tuple(tensor.shape) for tensor in tensors])
    return [arrayed(ops.broadcast_to(tensor, tuple(shape))) for tensor in tensors]


@checked
def broadcast_to(x: object, /, shape: tuple[int, ...]) -> Array:
    """Return the array expanded to a shape, as a view."""
    return arrayed(ops.broadcast_to(plain(x), shape))


@checked
def concat(arrays: Sequence[object], /, *, axis: int | None = 0) -> Array:
    """Return arrays joined along an axis; with None they are flattened first."""
    tensors = _of_one_dtype(arrays)
    flat = tensors if axis is not None else [tensor.reshape(-1) for tensor in tensors]
    return arrayed(ops.cat(flat, axis or 0))


def _of_one_dtype(arrays: Sequence[object]) -> list[Tensor]:
    tensors = [plain(array) for array in arrays]
    dtype = result_type(*tensors)
    return [tensor.to(dtype) for tensor in tensors]


@checked
def expand_dims(x: object, /, axis: int) -> Array:
    """Return a view with a new axis of size 1."""
    return arrayed(ops.unsqueeze(plain(x), axis))


@checked
def flip(x: object, /, *, axis: Axes | None = None) -> Array:
    """Return the elements in reverse order along some axes, by default all."""
    source = plain(x)
    return arrayed(source.flip(tuple(range(source.ndim)) if axis is None else axis))


@checked
def moveaxis(x: object, source: Axes, destination: Axes, /) -> Array:
    """Return a view with axes moved to other places; the others keep their order."""
    return arrayed(plain(x).movedim(source, destination))


@checked
def permute_dims(x: object, /, axes: tuple[int, ...]) -> Array:
    """Return a view with its axes in another order."""
    return arrayed(plain(x).permute(axes))


@checked
def repeat(x: object, repeats: object, /, *, axis: int | None = None) -> Array:
    """Return each element, or slice of an axis, repeated in its place; None flattens first."""
    count = plain(repeats) if isinstance(repeats, Handle) else repeats
    return arrayed(plain(x).repeat_interleave(count, axis))


@checked
def reshape(x: object, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """Return the elements in another shape; one size may be -1.

    `copy` forces or forbids a copy. Errors: S008 where one is needed and forbidden.
    """
    source = plain(x)
    if copy:
        source = source.clone()
    return arrayed(source.reshape(shape) if copy is not False else source.view(shape))


@checked
def roll(x: object, /, shift: Axes, *, axis: Axes | None = None) -> Array:
    """Return elements shifted in circles along axes; with None as if all were one axis."""
    source = plain(x)
    if axis is None:
        return arrayed(source.reshape(-1).roll(shift, 0).reshape(source.shape))
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return arrayed(source.roll(shift, axis))


@checked
def squeeze(x: object, /, axis: Axes) -> Array:
    """Return a view without some axes of size 1. Errors: A002 for axes of other sizes."""
    source = plain(x)
    for dim in axis if isinstance(axis, tuple) else (axis,):
        within = -source.ndim <= dim < source.ndim
        require(not within or source.shape[dim] == 1, "A002", "squeeze: the axis has another size", x=source, axis=dim)
    return arrayed(source.squeeze(axis))


@checked
def stack(arrays: Sequence[object], /, *, axis: int = 0) -> Array:
    """Return arrays of one shape joined along a new axis."""
    return arrayed(ops.stack(_of_one_dtype(arrays), axis))


@checked
def tile(x: object, repetitions: tuple[int, ...], /) -> Array:
    """Return the array repeated so often along each of its axes; missing ones count from the front."""
    return arrayed(plain(x).tile(repetitions))


@checked
def unstack(x: object, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of an axis, as views."""
    return arrayed(tuple(ops.unbind(plain(x), axis)))


@checked
def take(x: object, indices: object, /, *, axis: int | None = None) -> Array:
    """Return slices of an axis at indices; the axis may be left out of a vector. Errors: A002."""
    source = plain(x)
    require(axis is not None or source.ndim == 1, "A002", "take: an axis is needed for several dims", x=source)
    return arrayed(ops.index_select(source, 0 if axis is None else axis, plain(indices)))


@checked
def take_along_axis(x: object, indices: object, /, *, axis: int = -1) -> Array:
    """Return for each index the element at that place of an axis; all other sizes agree or broadcast."""
    return arrayed(ops.take_along_dim(plain(x), plain(indices), axis))
