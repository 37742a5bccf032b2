"""The same bytes as elements of another dtype, of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rushlight.ir.dtype import (
    DType,
    bool_,
    float16,
    float32,
    float64,
    int16,
    int32,
    real_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.ir.dtype import complex64 as complex64_
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, bitcast, cast, index, select
from rushlight.ir.type import Layout, contiguous_strides, in_elements_of
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, At, Shape, normal, zero
from rushlight.ops.record import Fact, Sample, define
from rushlight.ops.view.reshape import contiguous
from rushlight.support.errors import require
from rushlight.sym import Size, eq, floordiv, required

_UNSIGNED: dict[int, DType] = {1: uint8, 2: uint16, 4: uint32, 8: uint64}

view_dtype = define(
    "view_dtype(Tensor(a) input, DType dtype) -> Tensor(a)",
    "The same bytes as another dtype; the last dim has more or fewer elements where the width differs. It has no "
    "gradient, as in PyTorch. Errors: S002, S003, S006.",
    facts=Fact.VIEW | Fact.PLACED | Fact.NONDIFFERENTIABLE,
    variants="",
)


def _viewed_shape(shape: Shape, old: DType, new: DType) -> Shape:
    """The shape of a view: S002 without dims, S003 where the last dim's bytes make no whole elements."""
    if old.itemsize == new.itemsize:
        return shape
    require(shape, "S002", "view: a tensor without dims has no view of another width", dtype=old, wanted=new)
    if new.itemsize < old.itemsize:
        return (*shape[:-1], shape[-1] * (old.itemsize // new.itemsize))
    ratio = new.itemsize // old.itemsize
    whole = required(eq(shape[-1] % ratio, 0), "view: the last dim makes whole elements of the other dtype")
    require(whole, "S003", f"view: the last dim must be a multiple of {ratio}", shape=shape, dtype=old, wanted=new)
    return (*shape[:-1], floordiv(shape[-1], ratio))


@view_dtype.view
def view_dtype_view(input: Layout, dtype: DType) -> Layout:
    old = input.dtype
    assert old is not None, "a view as another dtype is given its base's"
    shape = _viewed_shape(input.shape, old, dtype)
    if old.itemsize == dtype.itemsize:
        return Layout(shape, input.strides, input.offset, dtype)
    hint = "call contiguous() first"
    beside = required(eq(input.strides[-1], 1), "view: the elements of the last dim lie side by side")
    require(beside, "S006", "view: another width needs a last dim of stride 1", strides=input.strides, hint=hint)
    offset = in_elements_of(dtype, input.offset, old)
    if any(isinstance(size, int) and size == 0 for size in shape):  # without elements no stride is ever taken
        return Layout(shape, contiguous_strides(shape), offset, dtype)
    strides = tuple([in_elements_of(dtype, stride, old) for stride in input.strides[:-1]])
    return Layout(shape, (*strides, 1), offset, dtype)


@view_dtype.ref
def view_dtype_ref(input: Array, dtype: DType) -> Array:
    return (np.ascontiguousarray(input) if input.ndim else input).view(dtype.numpy)


def _words(value: Scalar) -> list[Scalar]:
    """The bits of an element as unsigned integers, lowest address first: one, or one for each part."""
    parts = [apply("real", value), apply("imag", value)] if value.type.is_complex else [value]
    return [bitcast(part, _UNSIGNED[part.type.itemsize]) for part in parts]


def _unit_of(words: Sequence[Scalar], unit: DType, number: Size) -> Scalar:
    """Unit `number` of the bits of an element, lowest first."""
    each = words[0].type.itemsize // unit.itemsize
    chosen = words[0]
    if len(words) > 1:
        first = index(number) < index(each)
        chosen = (words[0] if number < each else words[1]) if isinstance(number, int) else select(first, *words)
    shift = cast(index((number % each) * unit.bits), chosen.type)
    return cast(chosen >> shift, unit)


def _joined(units: Sequence[Scalar], dtype: DType) -> Scalar:
    """An unsigned integer made of units, lowest first, as a real dtype."""
    wide = _UNSIGNED[dtype.itemsize]
    bits = cast(units[0], wide)
    for number, unit in enumerate(units[1:], 1):
        bits = bits | (cast(unit, wide) << (number * unit.type.bits))
    return bitcast(bits, dtype)


def _assembled(units: Sequence[Scalar], dtype: DType) -> Scalar:
    if not dtype.is_complex:
        return _joined(units, dtype)
    half, part = len(units) // 2, real_dtype(dtype)
    return apply("complex", _joined(units[:half], part), _joined(units[half:], part))


@view_dtype.lower
def view_dtype_lower(at: At, input: Operand, dtype: DType) -> Scalar:
    old = input.dtype
    if dtype.itemsize == old.itemsize and not (old.is_complex or dtype.is_complex):
        return bitcast(input[at], dtype)
    unit = _UNSIGNED[min(real_dtype(old).itemsize, real_dtype(dtype).itemsize)]
    count = dtype.itemsize // unit.itemsize
    units: list[Scalar] = []
    if input.shape and input.shape[-1] == 0:
        return zero(dtype)  # of no elements, whose places would be told by dividing
    if dtype.itemsize < old.itemsize:
        ratio = old.itemsize // dtype.itemsize
        words = _words(input[(*at[:-1], at[-1] // ratio)])
        units = [_unit_of(words, unit, (at[-1] % ratio) * count + number) for number in range(count)]
    else:
        ratio, each = dtype.itemsize // old.itemsize, old.itemsize // unit.itemsize
        indices = [at] if ratio == 1 else [(*at[:-1], at[-1] * ratio + inner) for inner in range(ratio)]
        for words in [_words(input[position]) for position in indices]:
            units += [_unit_of(words, unit, number) for number in range(each)]
    return _assembled(units, dtype)


@view_dtype.inverse
def view_dtype_inverse(base: Value, value: Value, dtype: DType) -> Value:
    hint = "convert with .to(dtype), and assign the result"
    require(base.dtype is not bool_, "A006", "view: a program cannot write other bytes into bools", hint=hint)
    return view_dtype(contiguous(value), base.dtype)


@view_dtype.samples
def view_dtype_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3).astype(np.float32).view(np.int32), float32)
    yield Sample(normal(rng, 3).astype(np.float16).view(np.int16), uint16)
    yield Sample(normal(rng, 2, 3), uint8)
    yield Sample(normal(rng, 3, 4), float64)
    yield Sample(normal(rng, 2, 4), complex64_)
    yield Sample(normal(rng, 4).astype(np.float64), int16)
    yield Sample((normal(rng, 2, 3) + 1j).astype(np.complex64), float16)
    yield Sample((normal(rng, 2, 3) - 1j).astype(np.complex128), int32)
