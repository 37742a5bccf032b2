"""Elements by index: gathering, scattering, one-hot rows, selection."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.registry import operator, sizes
from rushlight.onnx.values import Numbers, Size, integers, to_tensor


def _counted_from_start(index: Tensor, length: Size) -> Tensor:
    index = index.to(rl.int64)
    return rl.where(index < 0, index + length, index)


@operator("Gather")
def gather(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    """Slices along a dim, by index."""
    dim = axis % x.dim()
    picked = x.index_select(dim, _counted_from_start(index, x.shape[dim]).reshape(-1))
    return picked.reshape(*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])


@sizes("Gather")
def gather_sizes(x: Numbers, index: Numbers, *, axis: int = 0) -> object:
    """Sizes by index."""
    return np.asarray(np.take(x, index, axis), dtype=x.dtype) if index.dtype.kind in "iu" else NotImplemented


@operator("GatherElements")
def gather_elements(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    """Elements along a dim, by an index for each."""
    return x.gather(axis, _counted_from_start(index, x.shape[axis]))


@operator("GatherND")
def gather_nd(x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices by vectors of indices."""
    batch = [
        rl.arange(x.shape[dim]).reshape([-1 if place == dim else 1 for place in range(index.dim() - 1)])
        for dim in range(batch_dims)
    ]
    last = index.shape[-1]
    return x[(*batch, *[index[..., place].to(rl.int64) for place in range(last)])]


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements")
def scatter_elements(x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    """Elements written along a dim, by an index for each."""
    index = _counted_from_start(index, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCTIONS[reduction])


@operator("Scatter")
def scatter(x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0) -> Tensor:
    """Elements written along a dim, by an index for each."""
    return scatter_elements(x, index, updates, axis=axis)


@operator("ScatterND")
def scatter_nd(x: Tensor, index: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Slices written at vectors of indices."""
    last = index.shape[-1]
    places = tuple([_counted_from_start(index[..., place], x.shape[place]) for place in range(last)])
    if reduction == "none":
        return x.index_put(places, updates)
    row = rl.zeros(index.shape[:-1], dtype=rl.int64)
    rows = 1
    for place, part in enumerate(places):
        row, rows = row * x.shape[place] + part, rows * x.shape[place]
    flat = x.reshape(rows, -1)
    row, values = row.reshape(-1), updates.reshape(-1, flat.shape[1])
    spread = row.unsqueeze(1).expand(values.shape)
    return flat.scatter_reduce(0, spread, values, _REDUCTIONS[reduction]).reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(
    past: Tensor, update: Tensor, starts: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """A cache with an update written from a place on that each batch has for itself."""
    dim = axis % past.dim()
    offsets = rl.arange(update.shape[dim])
    begin = rl.zeros(past.shape[0], dtype=rl.int64) if starts is None else starts
    places = begin.unsqueeze(1) + offsets
    places = places % past.shape[dim] if mode == "circular" else places
    shape = [past.shape[0], *[1] * (past.dim() - 1)]
    shape[dim] = update.shape[dim]
    return past.scatter(dim, places.reshape(shape).expand(update.shape), update)


@operator("OneHot", host=(1,))
def one_hot(index: Tensor, depth: Numbers, values: Tensor, *, axis: int = -1) -> Tensor:
    """One value at the index along a new dim, another elsewhere."""
    count = int(integers(depth)[0])
    dim = axis % (index.dim() + 1)
    inside = _counted_from_start(index, count).unsqueeze(dim)
    shape = [1] * (index.dim() + 1)
    shape[dim] = count
    return rl.where(rl.arange(count).reshape(shape) == inside, values[1], values[0])


@operator("Compress", host=(1,))
def compress(x: Tensor, condition: Numbers, *, axis: int | None = None) -> Tensor:
    """The slices for which a condition holds."""
    x, dim = (x.reshape(-1), 0) if axis is None else (x, axis)
    return x.index_select(dim, to_tensor(np.flatnonzero(condition)))


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first places of each sequence reversed, as many as it is long."""
    moved = x.movedim((time_axis, batch_axis), (0, 1))
    steps = rl.arange(moved.shape[0]).unsqueeze(1)
    places = rl.where(steps < lengths, lengths - 1 - steps, steps)
    places = places.reshape(*places.shape, *[1] * (moved.dim() - 2)).expand(moved.shape)
    return moved.gather(0, places).movedim((0, 1), (time_axis, batch_axis))


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(x: Tensor, index: Tensor) -> Tensor:
    """Columns by index."""
    picked = x.index_select(-1, index.reshape(-1))
    return picked.reshape(-1, index.numel()) if x.dim() == 1 else picked
