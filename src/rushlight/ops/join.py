"""Tensors put together and rearranged: cat, stack, pad, flip, roll, repeat, tril."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, cast, constant, index, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import count_of, positions, zeros_of
from rushlight.ops.dims import (
    Array,
    At,
    Dims,
    Shape,
    convert,
    guarded,
    normal,
    own_dim,
    replaced,
    same_known,
    same_shape,
    same_size,
    within,
    wrap_dim,
    wrap_dims,
    zero,
)
from rushlight.ops.index.read import index_select
from rushlight.ops.pointwise import rounding
from rushlight.ops.pointwise.complex import abs_
from rushlight.ops.pointwise.definition import array_type
from rushlight.ops.pointwise.selection import where
from rushlight.ops.promote import device_of, promote
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.view.part import slice_
from rushlight.ops.view.reorder import expand, unsqueeze
from rushlight.ops.view.reshape import contiguous, reshape
from rushlight.support.errors import require
from rushlight.sym import Size, ge, guard, le, maximum, minimum, mod, required, total

cat = define(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    "Tensors joined along a dim.",
    variants="function out",
    facts=Fact.STORED,
)


def _joined(shapes: Sequence[Shape], dim: int) -> tuple[int, list[int]]:
    """(The dim, the positions of the tensors that take part): PyTorch lets 1-D ones of no elements join anything."""
    ndim = max([len(shape) for shape in shapes])
    parts = [at for at, shape in enumerate(shapes) if ndim < 2 or len(shape) != 1 or not same_size(shape[0], 0)]
    return wrap_dim(dim, ndim, "cat"), parts


@cat.meta
def cat_meta(tensors: tuple[TensorType, ...], dim: int) -> TensorType:
    require(tensors, "A002", "cat: at least one tensor is needed")
    along, parts = _joined([tensor.shape for tensor in tensors], dim)
    first = tensors[parts[0]]
    require(first.shape, "S002", "cat: 0-d tensors cannot be joined", hint="use stack")
    for position in parts[1:]:
        other = tensors[position]
        fits = other.ndim == first.ndim and same_shape(replaced(first.shape, along), replaced(other.shape, along))
        require(
            fits,
            "S005",
            f"cat: tensor {position} differs from the first in a dim other than {along}",
            a=first,
            b=other,
        )
    size = total([tensors[position].shape[along] for position in parts])
    return TensorType(replaced(first.shape, along, size), promote(*tensors), device_of(*tensors))


@cat.ref
def cat_ref(tensors: tuple[Array, ...], dim: int) -> Array:
    _, parts = _joined([tensor.shape for tensor in tensors], dim)
    dtype = promote(*[array_type(tensor) for tensor in tensors]).numpy
    return np.concatenate([tensors[position].astype(dtype) for position in parts], dim)


@cat.lower
def cat_lower(at: At, tensors: tuple[Operand, ...], dim: int) -> Scalar:
    along, parts = _joined([part.shape for part in tensors], dim)
    dtype = promote(*[part.type for part in tensors])
    value = zero(dtype)
    start: Size = 0
    for position in parts:
        tensor = tensors[position]
        offset = at[along] - start
        value = guarded(within(offset, tensor.shape[along]), cast(tensor[replaced(at, along, offset)], dtype), value)
        start = start + tensor.shape[along]
    return value


@cat.vjp(types=("tensors",))
def cat_vjp(g: Value, tensors: tuple[TensorType, ...], dim: int) -> tuple[Gradients]:
    along, parts = _joined([part.shape for part in tensors], dim)
    grads: list[Any] = []
    start: Size = 0
    for position, tensor in enumerate(tensors):
        if position in parts:
            end = start + tensor.shape[along]
            grads.append(convert(slice_(g, along, start, end), tensor.dtype))
            start = end
        else:  # an empty one that takes no part
            grads.append(zeros_of(g, tensor.shape, tensor.dtype))
    return (tuple(grads),)


@cat.samples
def cat_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample([normal(rng, 2, 3), normal(rng, 4, 3), normal(rng, 1, 3)])
    yield Sample([normal(rng, 2, 3), normal(rng, 2, 5)], -1)
    yield Sample([normal(rng, 2, 3), normal(rng, 0), normal(rng, 2, 0)], 1)
    yield Sample([normal(rng, 3)])


concat = define("concat(Tensor[] tensors, int dim=0) -> Tensor", "Another name of cat.", variants="function")


@concat.decompose
def concat_decompose(tensors: tuple[Value, ...], dim: int) -> Value:
    return cat(tensors, dim)


@concat.ref
def concat_ref(tensors: tuple[Array, ...], dim: int) -> Array:
    return cat_ref(tensors, dim)


@concat.samples
def concat_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample([normal(rng, 2, 3), normal(rng, 4, 3)])


stack = define(
    "stack(Tensor[] tensors, int dim=0) -> Tensor",
    "Tensors of one shape joined along a new dim.",
    variants="function out",
)


@stack.decompose
def stack_decompose(tensors: tuple[Value, ...], dim: int) -> Value:
    require(tensors, "A002", "stack: at least one tensor is needed")
    for tensor in tensors[1:]:
        fits = same_shape(tensor.shape, tensors[0].shape)
        require(fits, "S005", "stack: the tensors differ in shape", a=tensors[0].shape, b=tensor.shape)
    position = wrap_dim(dim, tensors[0].ndim + 1, "stack")
    return cat(tuple([unsqueeze(element, position) for element in tensors]), position)


@stack.ref
def stack_ref(tensors: tuple[Array, ...], dim: int) -> Array:
    return np.stack(tensors, dim)


@stack.samples
def stack_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample([normal(rng, 2, 3), normal(rng, 2, 3)])
    yield Sample([normal(rng, 2, 3), normal(rng, 2, 3), normal(rng, 2, 3)], -1)
    yield Sample([normal(rng), normal(rng)])


constant_pad_nd = define(
    "constant_pad_nd(Tensor input, Size[] pad, float value=0.0) -> Tensor",
    "A constant before and after each dim: pairs from the last dim on; negative ones crop.",
    variants="function",
    facts=Fact.STORED,
)


def _pad_pairs(ndim: int, pad: Shape) -> list[tuple[Size, Size]]:
    even = len(pad) % 2 == 0 and len(pad) <= 2 * ndim
    require(even, "A002", "pad: pairs are needed, for at most as many dims as there are", pad=pad)
    pairs: list[tuple[Size, Size]] = [(0, 0)] * (ndim - len(pad) // 2)
    return pairs + [(pad[at], pad[at + 1]) for at in range(len(pad) - 2, -1, -2)]


@constant_pad_nd.meta
def constant_pad_nd_meta(input: TensorType, pad: Shape, value: float) -> TensorType:
    fits = input.dtype.holds(value) or all(guard(le(size, 0), "pad: nothing is added") for size in pad)
    require(fits, "D007", f"pad: the number does not fit {input.dtype.name}", value=value)
    pairs = _pad_pairs(input.ndim, pad)
    for size, (before, after) in zip(input.shape, pairs, strict=True):
        left = size + minimum(before, 0) + minimum(after, 0)
        require(required(ge(left, 0)), "S007", "pad: more is cropped than there is", input=input, pad=pad)
    shape = tuple([size + before + after for size, (before, after) in zip(input.shape, pairs, strict=True)])
    return TensorType(shape, input.dtype, input.device)


@constant_pad_nd.ref
def constant_pad_nd_ref(input: Array, pad: tuple[int, ...], value: float) -> Array:
    pairs: Any = _pad_pairs(input.ndim, pad)
    cropped = input[
        tuple([slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(input.shape, pairs, strict=True)])
    ]
    widths: Any = [(max(a, 0), max(b, 0)) for a, b in pairs]
    return np.pad(cropped, widths, constant_values=input.dtype.type(value)) if pairs else input


@constant_pad_nd.lower
def constant_pad_nd_lower(at: At, input: Operand, pad: Shape, value: float) -> Scalar:
    pairs = _pad_pairs(len(at), pad)
    places = tuple([axis - before for axis, (before, _) in zip(at, pairs, strict=True)])
    conditions = [
        condition for position, size in zip(places, input.shape, strict=True) for condition in within(position, size)
    ]
    return guarded(conditions, input[places], constant(value if input.dtype.holds(value) else 0, input.dtype))


@constant_pad_nd.vjp
def constant_pad_nd_vjp(g: Value, pad: Shape) -> Value:
    return constant_pad_nd(g, tuple([-size for size in pad]))


@constant_pad_nd.samples
def constant_pad_nd_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), (1, 2))
    yield Sample(normal(rng, 2, 3, 4), (0, 1, -1, 2), 1.5)
    yield Sample(normal(rng, 4), (-1, -2))


pad = define(
    "pad(Tensor input, Size[] pad, str mode='constant', float? value=None) -> Tensor",
    "Padding by a constant, or by the tensor's own elements: reflect, replicate, circular.",
    variants="function",
)


def _reflected(position: Value, size: Size) -> Value:
    return (size - 1) - abs_((size - 1) - abs_(position))


def _replicated(position: Value, size: Size) -> Value:
    return rounding.minimum(rounding.maximum(position, 0), size - 1)


def _wrapped_around(position: Value, size: Size) -> Value:
    # Once around is enough (`_require_room`): a remainder by a size that is not known divides lane by lane.
    return where(position < 0, position + size, where(position < size, position, position - size))


_PAD_MODES: dict[str, tuple[Callable[[Value, Size], Value], str]] = {
    "reflect": (_reflected, "reflect"),
    "replicate": (_replicated, "edge"),
    "circular": (_wrapped_around, "wrap"),
}


def _require_room(mode: str, before: Size, after: Size, size: Size, input: Value) -> None:
    """S011 where a side would need elements that one turn of reflecting or repeating does not give."""
    least = size - 1 if mode == "reflect" else size
    if mode == "replicate":
        fits = required(le(1, size))
    else:
        fits = all(required(le(side, least)) for side in (before, after))
    require(fits, "S011", f"pad: {mode} padding is longer than the tensor gives", input=input.shape)


def _cut_first(input: Value, pad: Shape) -> tuple[Value, Shape]:
    """What negative sizes cut off, cut off: nothing wraps around to it. Returns the sizes that are left too."""
    cut = tuple([minimum(size, 0) for size in pad])
    left = tuple([maximum(size, 0) for size in pad])
    return (input if all(same_known(size, 0) for size in cut) else constant_pad_nd(input, cut)), left


@pad.decompose
def pad_decompose(input: Value, pad: Shape, mode: str, value: float | None) -> Value:
    if mode == "constant":
        return constant_pad_nd(input, pad, value or 0.0)
    require(mode in _PAD_MODES, "A002", f"pad: mode is constant or one of {', '.join(_PAD_MODES)}", mode=mode)
    if mode == "circular":
        input, pad = _cut_first(input, pad)
    for dim, (before, after) in enumerate(_pad_pairs(input.ndim, pad)):
        size = input.shape[dim]
        if same_known(before, 0) and same_known(after, 0):
            continue
        _require_room(mode, before, after, size, input)
        places = positions(input, size + before + after) - count_of(input, before)
        input = index_select(input, dim, _PAD_MODES[mode][0](places, count_of(input, size)))
    return input


@pad.ref
def pad_ref(input: Array, pad: tuple[int, ...], mode: str, value: float | None) -> Array:
    if mode == "constant":
        return constant_pad_nd_ref(input, pad, value or 0.0)
    if mode == "circular":
        input = constant_pad_nd_ref(input, tuple([min(size, 0) for size in pad]), 0.0)
        pad = tuple([max(size, 0) for size in pad])
    kind: Any = _PAD_MODES[mode][1]
    widths: Any = _pad_pairs(input.ndim, pad)
    return np.pad(input, widths, kind)


@pad.samples
def pad_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), (1, 2), value=0.5)
    yield Sample(normal(rng, 2, 3, 4), (1, 2), "reflect")
    yield Sample(normal(rng, 2, 3, 4), (1, 2, 1, 0), "replicate")
    yield Sample(normal(rng, 2, 3, 4), (1, 2), "circular")
    yield Sample(normal(rng, 2, 3, 4), (-1, 1, 2, -1), "circular")


flip = define(
    "flip(Tensor input, int[] dims) -> Tensor", "The order of some dims reversed, as a copy.", facts=Fact.STORED
)


@flip.meta
def flip_meta(input: TensorType, dims: tuple[int, ...]) -> TensorType:
    _flipped(input.ndim, dims)
    return TensorType(input.shape, input.dtype, input.device)


def _flipped(ndim: int, dims: Dims) -> tuple[int, ...]:
    return () if dims == () else wrap_dims(dims, ndim, "flip")


@flip.ref
def flip_ref(input: Array, dims: tuple[int, ...]) -> Array:
    return np.flip(input, _flipped(input.ndim, dims)) if input.ndim else input


@flip.lower
def flip_lower(at: At, input: Operand, dims: tuple[int, ...]) -> Scalar:
    chosen = _flipped(len(at), dims)
    return input[tuple([input.shape[dim] - 1 - axis if dim in chosen else axis for dim, axis in enumerate(at)])]


@flip.vjp
def flip_vjp(g: Value, dims: tuple[int, ...]) -> Value:
    return flip(g, dims)


@flip.samples
def flip_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), (0,))
    yield Sample(normal(rng, 2, 3, 4), (0, -1))
    yield Sample(normal(rng, 3), ())


roll = define(
    "roll(Tensor input, Size[] shifts, int[] dims=()) -> Tensor",
    "Elements shifted along dims; what leaves at the end enters at the start. Without dims, on the flattened tensor.",
)


@roll.ref
def roll_ref(input: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    return np.roll(input, shifts, dims) if dims else np.roll(input, shifts[0])


@roll.decompose
def roll_decompose(input: Value, shifts: Shape, dims: tuple[int, ...]) -> Value:
    fits = len(shifts) == (len(dims) or 1)
    require(fits, "A004", "roll: one shift for each dim is needed", shifts=shifts, dims=dims)
    if not dims:
        return reshape(roll_dim(reshape(input, (-1,)), shifts[0], 0), input.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        input = roll_dim(input, shift, own_dim(dim, input.shape, "roll"))
    return input


@roll.samples
def roll_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 5), 2, 1)
    yield Sample(normal(rng, 4, 5), (-1, 7), (0, 1))
    yield Sample(normal(rng, 2, 3), 2)


roll_dim = define(
    "roll_dim(Tensor input, Size shift, int dim) -> Tensor",
    "Elements shifted along one dim.",
    variants="",
    facts=Fact.STORED,
)


@roll_dim.meta
def roll_dim_meta(input: TensorType, shift: Size, dim: int) -> TensorType:
    wrap_dim(dim, input.ndim, "roll")
    return TensorType(input.shape, input.dtype, input.device)


@roll_dim.ref
def roll_dim_ref(input: Array, shift: int, dim: int) -> Array:
    return np.roll(input, shift, dim) if input.ndim else input


@roll_dim.lower
def roll_dim_lower(at: At, input: Operand, shift: Size, dim: int) -> Scalar:
    wrapped_dim = wrap_dim(dim, len(at), "roll")
    if not at:
        return input[()]
    size = input.shape[wrapped_dim]
    if isinstance(size, int) and size == 0:
        return zero(input.dtype)
    return input[replaced(at, wrapped_dim, mod(at[wrapped_dim] - shift, size))]


@roll_dim.vjp
def roll_dim_vjp(g: Value, shift: Size, dim: int) -> Value:
    return roll_dim(g, -shift, dim)


@roll_dim.samples
def roll_dim_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 5), 2, 1)
    yield Sample(normal(rng, 3, 2), -4, 0)


repeat = define(
    "repeat(Tensor input, Size[] repeats) -> Tensor", "The whole tensor repeated along each dim.", facts=Fact.STORED
)


@repeat.decompose
def repeat_decompose(input: Value, repeats: Shape) -> Value:
    lead = len(repeats) - input.ndim
    require(lead >= 0, "A002", "repeat: one number for each dim is needed", repeats=repeats, input=input.shape)
    _require_counts("repeat", repeats)
    shape = (*(1,) * lead, *input.shape)
    spaced = reshape(input, tuple([size for old in shape for size in (1, old)]))
    wide = expand(spaced, tuple([size for times, old in zip(repeats, shape, strict=True) for size in (times, old)]))
    return contiguous(reshape(wide, tuple([times * old for times, old in zip(repeats, shape, strict=True)])))


@repeat.ref
def repeat_ref(input: Array, repeats: tuple[int, ...]) -> Array:
    return np.tile(input, repeats)


@repeat.samples
def repeat_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), (2, 2))
    yield Sample(normal(rng, 3), (2, 1, 2))


tile = define("tile(Tensor input, Size[] dims) -> Tensor", "repeat with missing numbers, in front, taken as 1.")


@tile.decompose
def tile_decompose(input: Value, dims: Shape) -> Value:
    return repeat(input, (*(1,) * max(input.ndim - len(dims), 0), *dims))


@tile.ref
def tile_ref(input: Array, dims: tuple[int, ...]) -> Array:
    return np.tile(input, dims)


@tile.samples
def tile_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), (2,))
    yield Sample(normal(rng, 3), (2, 2))


def _require_counts(op: str, repeats: Shape) -> None:
    """A size of -1 would mean another thing to `expand` and `reshape`."""
    for times in repeats:
        fits = not isinstance(times, int) or times >= 0
        require(fits, "S007", f"{op}: a number of repeats is negative", repeats=repeats)


repeat_interleave = define(
    "repeat_interleave(Tensor input, Size repeats, int? dim=None) -> Tensor",
    "Each element, or slice of a dim, repeated in its place.",
    variants="",
    facts=Fact.STORED,
)


@repeat_interleave.decompose
def repeat_interleave_decompose(input: Value, repeats: Size, dim: int | None) -> Value:
    _require_counts("repeat_interleave", (repeats,))
    input = reshape(input, (-1,)) if dim is None else input
    wrapped_dim = 0 if dim is None else wrap_dim(dim, input.ndim, "repeat_interleave")
    wide = unsqueeze(input, wrapped_dim + 1)
    wide = expand(wide, replaced(wide.shape, wrapped_dim + 1, repeats))
    return reshape(wide, replaced(input.shape, wrapped_dim, input.shape[wrapped_dim] * repeats))


@repeat_interleave.ref
def repeat_interleave_ref(input: Array, repeats: int, dim: int | None) -> Array:
    return np.repeat(input, repeats, dim)


@repeat_interleave.samples
def repeat_interleave_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3), 2)
    yield Sample(normal(rng, 2, 3), 3, 0)


tril = define(
    "tril(Tensor input, Offset diagonal=0) -> Tensor",
    "Zeros above a diagonal of the last two dims.",
    variants="function method inplace out",
)
triu = define(
    "triu(Tensor input, Offset diagonal=0) -> Tensor",
    "Zeros below a diagonal of the last two dims.",
    variants="function method inplace out",
)


def _triangle_meta(input: TensorType, op: str) -> TensorType:
    require(input.ndim >= 2, "S002", f"{op}: the tensor must have at least 2 dims", input=input)
    return TensorType(input.shape, input.dtype, input.device)


@tril.meta
def tril_meta(input: TensorType, diagonal: int) -> TensorType:
    return _triangle_meta(input, "tril")


@tril.ref
def tril_ref(input: Array, diagonal: int) -> Array:
    return np.tril(input, diagonal)


@tril.lower
def tril_lower(at: At, input: Operand, diagonal: int) -> Scalar:
    return select(index(at[-1]) <= index(at[-2] + diagonal), input[at], zero(input.dtype))


@tril.vjp
def tril_vjp(g: Value, diagonal: int) -> Value:
    return tril(g, diagonal)


@tril.samples
def tril_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4))
    yield Sample(normal(rng, 2, 3, 3), -1)


@triu.meta
def triu_meta(input: TensorType, diagonal: int) -> TensorType:
    return _triangle_meta(input, "triu")


@triu.ref
def triu_ref(input: Array, diagonal: int) -> Array:
    return np.triu(input, diagonal)


@triu.lower
def triu_lower(at: At, input: Operand, diagonal: int) -> Scalar:
    return select(index(at[-2] + diagonal) <= index(at[-1]), input[at], zero(input.dtype))


@triu.vjp
def triu_vjp(g: Value, diagonal: int) -> Value:
    return triu(g, diagonal)


@triu.samples
def triu_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4))
    yield Sample(normal(rng, 2, 3, 3), 1)
