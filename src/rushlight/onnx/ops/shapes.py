"""Shapes: reshaping, joining, cutting, permuting, converting, filling."""

from __future__ import annotations

import math

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.dtypes import DTYPES, NUMBERS, dtype_of
from rushlight.onnx.registry import operator, sizes
from rushlight.onnx.values import Numbers, Size, Value, integers, is_text, sizes_array, to_dtype, to_tensor


@operator("Shape")
def shape(x: Value, *, start: int = 0, end: int | None = None) -> Numbers:
    """The sizes, on the host."""
    return sizes_array(tuple(x.shape)[start:end])


@operator("Size")
def size(x: Value) -> Numbers:
    """The number of elements, on the host."""
    array = np.empty((), dtype=object)
    array[()] = math.prod(x.shape)
    return array


@operator("Identity")
def identity(x: Value) -> Value:
    """The value itself."""
    return x


@sizes("Identity")
def identity_sizes(x: Numbers) -> Numbers:
    """The sizes themselves."""
    return x


@operator("Reshape", host=(1,))
def reshape(x: Tensor, shape: Numbers, *, allowzero: int = 0) -> Tensor:
    """The elements in another shape; 0 keeps a size unless `allowzero`."""
    wanted = integers(shape)
    if not allowzero:
        wanted = [x.shape[place] if isinstance(part, int) and part == 0 else part for place, part in enumerate(wanted)]
    return x.reshape(wanted)


@sizes("Reshape")
def reshape_sizes(x: Numbers, shape: Numbers, *, allowzero: int = 0) -> object:
    """The sizes in another shape."""
    return x.reshape([int(part) for part in integers(shape)]) if shape.dtype.kind in "iu" else NotImplemented


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """A matrix: the dims before `axis`, and the others."""
    place = axis + x.dim() if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:place]), math.prod(x.shape[place:]))


def _dims(axes: Numbers | None) -> list[int] | None:
    return None if axes is None else [int(part) for part in integers(axes)]


@operator("Squeeze", 13, host=(1,))
def squeeze(x: Tensor, axes: Numbers | None = None) -> Tensor:
    """Without the dims named, or all of size 1."""
    dims = _dims(axes)
    return x.squeeze() if dims is None else x.squeeze(dims)


@operator("Squeeze")
def squeeze_attribute(x: Tensor, *, axes: tuple[int, ...] | None = None) -> Tensor:
    """Without the dims named, or all of size 1."""
    return x.squeeze() if axes is None else x.squeeze(list(axes))


@sizes("Squeeze")
def squeeze_sizes(x: Numbers, dims: Numbers | None = None, *, axes: tuple[int, ...] | None = None) -> Numbers:
    """Without dims of size 1."""
    return np.asarray(x.reshape(())) if x.size == 1 and x.ndim == 1 else np.squeeze(x, tuple(_dims(dims) or axes or ()))


@operator("Unsqueeze", 13, host=(1,))
def unsqueeze(x: Tensor, axes: Numbers) -> Tensor:
    """With dims of size 1 at places of the result."""
    dims = _dims(axes) or []
    rank = x.dim() + len(dims)
    for dim in sorted([dim % rank for dim in dims]):
        x = x.unsqueeze(dim)
    return x


@operator("Unsqueeze")
def unsqueeze_attribute(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """With dims of size 1 at places of the result."""
    return unsqueeze(x, np.asarray(axes))


@sizes("Unsqueeze")
def unsqueeze_sizes(x: Numbers, dims: Numbers | None = None, *, axes: tuple[int, ...] = ()) -> Numbers:
    """With dims of size 1."""
    return np.expand_dims(x, tuple(axes if dims is None else _dims(dims) or ()))


@operator("Transpose")
def transpose(x: Tensor, *, perm: tuple[int, ...] | None = None) -> Tensor:
    """Dims in another order; by default the reverse."""
    return x.permute(tuple(reversed(range(x.dim()))) if perm is None else perm)


@operator("Concat")
def concat(*parts: Tensor, axis: int = 1) -> Tensor:
    """Tensors joined along a dim."""
    return rl.cat(parts, axis)


@sizes("Concat")
def concat_sizes(*parts: Numbers, axis: int = 0) -> Numbers:
    """Sizes joined."""
    return np.concatenate(parts, axis)


def _parts(total: Size, count: int) -> list[Size]:
    """`count` equal sizes, the last of them smaller where they must be."""
    each = -(-total // count)
    return [each] * (count - 1) + [total - each * (count - 1)]


@operator("Split", 13, host=(1,), counted=True)
def split(
    x: Tensor, split: Numbers | None = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int
) -> tuple[Tensor, ...]:
    """Parts along a dim."""
    lengths = _parts(x.shape[axis], num_outputs or outputs) if split is None else integers(split)
    return tuple(x.split(lengths, axis))


@operator("Split", counted=True)
def split_attribute(
    x: Tensor, *, axis: int = 0, split: tuple[int, ...] | None = None, outputs: int
) -> tuple[Tensor, ...]:
    """Parts along a dim."""
    return tuple(x.split(_parts(x.shape[axis], outputs) if split is None else list(split), axis))


@operator("Slice", 10, host=(1, 2, 3, 4))
def cut(x: Tensor, starts: Numbers, ends: Numbers, axes: Numbers | None = None, steps: Numbers | None = None) -> Tensor:
    """Ranges of dims."""
    first, last = integers(starts), integers(ends)
    dims = list(range(len(first))) if axes is None else [int(axis) % x.dim() for axis in integers(axes)]
    strides = [1] * len(first) if steps is None else [int(step) for step in integers(steps)]
    for dim, start, end, step in zip(dims, first, last, strides, strict=True):
        x = _range(x, dim, start, end, step)
    return x


def _range(x: Tensor, dim: int, start: Size, end: Size, step: int) -> Tensor:
    if step < 0:
        length = x.shape[dim]
        start, end = _clamped(start, length, -1, length - 1), _clamped(end, length, -1, length - 1)
        x, start, end, step = x.flip(dim), length - 1 - start, length - 1 - end, -step
        end = rl.sym_max(end, start)
    index: list[slice] = [slice(None)] * x.dim()
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


def _clamped(place: Value, length: Size, low: int, high: Value) -> Value:
    place = place + length if place < 0 else place
    return rl.sym_max(low, rl.sym_min(place, high))


@operator("Slice")
def cut_attribute(
    x: Tensor, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Tensor:
    """Ranges of dims."""
    return cut(x, np.asarray(starts), np.asarray(ends), None if axes is None else np.asarray(axes))


@sizes("Slice")
def cut_sizes(x: Numbers, *operands: Numbers | None, **attributes: Value) -> object:
    """A range of sizes."""
    if x.ndim != 1 or len(operands) < 2 or attributes:
        return NotImplemented
    start, end = (int(operand.reshape(-1)[0]) for operand in operands[:2] if operand is not None)
    step = operands[3] if len(operands) > 3 else None
    return x[start : end : 1 if step is None else int(step.reshape(-1)[0])]


@operator("Expand", host=(1,))
def expand(x: Tensor, shape: Numbers) -> Tensor:
    """Broadcast with a shape."""
    wanted = integers(shape)
    return x.expand(rl.broadcast_shapes(tuple(x.shape), tuple(wanted)))


@operator("Tile", host=(1,))
def tile(x: Tensor, repeats: Numbers) -> Tensor:
    """Repeated along dims."""
    return x.repeat(*integers(repeats))


@operator("ConstantOfShape", host=(0,))
def constant_of_shape(shape: Numbers, *, value: Numbers | None = None) -> Tensor:
    """A tensor filled with one value."""
    filling = np.zeros(1, np.float32) if value is None else value
    return to_tensor(filling).reshape(()).expand(integers(shape)).clone()


@operator("Range", host=(0, 1, 2))
def number_range(start: Numbers, limit: Numbers, delta: Numbers) -> Tensor:
    """Numbers from a start on, by steps."""
    first, last, step = (integers(operand)[0] for operand in (start, limit, delta))
    return rl.arange(first, last, step, dtype=_dtype_of_array(start))


def _dtype_of_array(array: Numbers) -> rl.dtype:
    return rl.int64 if array.dtype.kind == "O" else to_tensor(array).dtype


@operator("Cast")
def cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """In another element type."""
    if is_text(x):
        return to_tensor(_parsed(x, to))
    if to == _STRING:
        return _written(x)
    return to_dtype(x, dtype_of(to), bool(saturate))


_STRING = 8


def _parsed(x: Numbers, to: int) -> Numbers:
    wide = np.asarray([float(str(text)) for text in x.reshape(-1)]).reshape(x.shape)
    return to_tensor(wide).to(dtype_of(to)).numpy()


def _written(x: Tensor) -> Numbers:
    numbers = x.float() if x.dtype is rl.bfloat16 else x
    array = np.empty(tuple(x.shape), dtype=object)
    array[...] = np.vectorize(_text, otypes=[object])(numbers.numpy()) if x.numel() else array
    return array


def _text(number: Value) -> str:
    special = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
    return special.get(str(number), str(number))


@sizes("Cast")
def cast_sizes(x: Numbers, *, to: int, saturate: int = 1, round_mode: str = "up") -> object:
    """Sizes as int64."""
    if to == 7 and x.dtype.kind in "iuO":
        return x
    return x.astype(DTYPES[to].numpy) if to in (6, 7) and x.dtype.kind in "iub" else NotImplemented


@operator("CastLike")
def cast_like(x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    """In another tensor's element type."""
    if is_text(like):
        return x if is_text(x) else _written(x)
    return cast(x, to=NUMBERS[like.dtype], saturate=saturate)


@operator("BitCast")
def bit_cast(x: Tensor, *, to: int) -> Tensor:
    """The same bits as another element type."""
    return x.view(dtype_of(to))


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Ones on a diagonal."""
    rows, columns = rl.arange(x.shape[0]).unsqueeze(1), rl.arange(x.shape[1])
    return (columns - rows == k).to(x.dtype if dtype is None else dtype_of(dtype))


@operator("Trilu", host=(1,))
def triangle(x: Tensor, k: Numbers | None = None, *, upper: int = 1) -> Tensor:
    """The upper or lower triangle."""
    diagonal = 0 if k is None else int(integers(k)[0])
    return rl.triu(x, diagonal) if upper else rl.tril(x, diagonal)


@operator("NonZero")
def nonzero(x: Tensor) -> Tensor:
    """The indices of what is not zero, one row for each dim."""
    return rl.nonzero(x).t().contiguous()


@operator("Unique", counted=True)
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1, outputs: int = 1) -> tuple[Value, ...]:
    """Values without repetition, with their first places, the way back, and how often each occurs."""
    array = x.numpy()
    values, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return tuple([to_tensor(part) for part in (values, first, inverse, counts)])


@operator("Pad", 11, host=(1, 2, 3))
def pad(
    x: Tensor, pads: Numbers, value: Numbers | None = None, axes: Numbers | None = None, *, mode: str = "constant"
) -> Tensor:
    """More places before and after; fewer for negative numbers."""
    filling = 0 if value is None else value.reshape(-1)[0]
    dims = list(range(x.dim())) if axes is None else [int(axis) % x.dim() for axis in integers(axes)]
    return padded(x, integers(pads), dims, filling, mode)


@operator("Pad")
def pad_attribute(x: Tensor, *, pads: tuple[int, ...], value: float = 0.0, mode: str = "constant") -> Tensor:
    """More places before and after."""
    return padded(x, list(pads), list(range(x.dim())), value, mode)


def padded(x: Tensor, pads: list[Size], dims: list[int], value: object, mode: str) -> Tensor:
    """Dims with more places before and after them, filled by the mode."""
    for place, dim in enumerate(dims):
        before, after = pads[place], pads[place + len(dims)]
        if isinstance(before, int) and isinstance(after, int) and before == after == 0:
            continue
        x = _pad_dim(x, dim, before, after, value, mode)
    return x


def _pad_dim(x: Tensor, dim: int, before: Size, after: Size, value: Value, mode: str) -> Tensor:
    length = x.shape[dim]
    if mode == "constant":
        flat = [0, 0] * (x.dim() - 1 - dim) + [before, after]
        number = float if x.is_floating_point() else bool if x.dtype is rl.bool else int
        return rl.constant_pad_nd(x, flat, number(value))
    places = rl.arange(-before, length + after)
    if mode == "edge":
        places = places.clamp(0, length - 1)
    elif mode == "wrap":
        places = places % length
    else:
        period = 2 * (length - 1) if length > 1 else 1
        places = places % period
        places = rl.where(places >= length, period - places, places)
    return x.index_select(dim, places)


@operator("CenterCropPad", host=(1,))
def center_crop_pad(x: Tensor, shape: Numbers, *, axes: tuple[int, ...] | None = None) -> Tensor:
    """The middle of dims, or zeros around them."""
    dims = range(x.dim()) if axes is None else [axis % x.dim() for axis in axes]
    for dim, wanted in zip(dims, integers(shape), strict=True):
        length = x.shape[dim]
        if wanted < length:
            x = x.narrow(dim, (length - wanted) // 2, wanted)
        elif wanted > length:
            before = (wanted - length) // 2
            x = _pad_dim(x, dim, before, wanted - length - before, 0, "constant")
    return x


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels as blocks of places."""
    n, c, h, w = x.shape
    b, rest = blocksize, c // (blocksize * blocksize)
    if mode == "DCR":
        x = x.reshape(n, b, b, rest, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, rest, b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, rest, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of places as channels."""
    n, c, h, w = x.shape
    b = blocksize
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.permute(order).reshape(n, c * b * b, h // b, w // b)
