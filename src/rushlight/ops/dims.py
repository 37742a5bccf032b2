"""Dims, sizes and index ranges as operators' rules need them: wrapping, comparing, bounding, sampling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rushlight.ir.dtype import DType, compute_dtype
from rushlight.ir.scalar import COLUMNS, LANES, Order, Scalar, constant, index, lift
from rushlight.ir.scalar import guard as guarded_scalar
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import ExecutionError, fail, require
from rushlight.sym import (
    Size,
    SizeExpr,
    check,
    eq,
    is_nonnegative,
    le,
    lt,
    optimization_hint,
    required,
    statically_known,
)

T = TypeVar("T")
Array = NDArray[Any]
At = tuple[SizeExpr, ...]
Shape = tuple[Size, ...]
Dims = int | tuple[int, ...] | None


def wrap_dim(dim: int, ndim: int, op: str) -> int:
    """A dim counted from the front; I002 when out of range. A 0-d tensor has dims -1 and 0, as in PyTorch."""
    bound = max(ndim, 1)
    require(-bound <= dim < bound, "I002", f"{op}: dim {dim} is out of range for a tensor of {ndim} dims")
    return dim % bound


def own_dim(dim: int, shape: Sequence[object], op: str) -> int:
    """Return a dim counted from the front, for a caller that needs the dim's size or stride.

    Fails with I002 when it is out of range, as every dim of a 0-d tensor is.
    """
    require(shape, "I002", f"{op}: a tensor without dims has no sizes and strides", dim=dim)
    return wrap_dim(dim, len(shape), op)


def wrap_dims(dim: Dims, ndim: int, op: str) -> tuple[int, ...]:
    """Ascending dims from one, several, or None and () for all; I006 when one is named twice."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    dims = [wrap_dim(axis, ndim, op) for axis in ((dim,) if isinstance(dim, int) else dim)]
    require(len(set(dims)) == len(dims), "I006", f"{op}: dim {dim} names a dim twice")
    return tuple(sorted(dims)) if ndim else ()


def replaced(items: Sequence[T], position: int, *new: T) -> tuple[T, ...]:
    """The items with the one at `position` replaced by none, one or several others."""
    return (*items[:position], *new, *items[position + 1 :])


def inserted(items: Sequence[T], position: int, *new: T) -> tuple[T, ...]:
    """The items with others inserted before `position`."""
    return (*items[:position], *new, *items[position:])


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes that have to be equal are: see `sym.required`."""
    return a is b or required(eq(a, b))


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes that have to be equal are: see `sym.required`."""
    return a == b or (len(a) == len(b) and all(same_size(x, y) for x, y in zip(a, b, strict=True)))


def check_index(position: Size, size: Size, op: str) -> Size:
    """Return an index counted from the front; fail with I001 when it is out of range.

    Where symbols leave that open, the range is asserted at run time.
    """
    if isinstance(position, int) and isinstance(size, int):
        if not -size <= position < size:
            fail("I001", f"{op}: index {position} is out of range for a dim of size {size}")
        return position + size if position < 0 else position
    wrapped = position + size if isinstance(position, int) and position < 0 else position
    message = f"{op}: an index is out of range"
    try:
        if not is_nonnegative(wrapped):
            check(le(0, wrapped), message)
        check(lt(wrapped, size), message)
    except ExecutionError:  # it does not hold for the example either
        text = f"index {optimization_hint(position)} is out of range for a dim of size {optimization_hint(size)}"
        fail("I001", f"{op}: {text}")
    return wrapped


# Conditions on indices inside lowerings.


def within(position: Scalar | Size, size: Size) -> list[Scalar]:
    """What must hold for `0 <= position < size`, without what is known to hold."""
    if isinstance(position, Scalar):
        return [lift(0, position.type) <= position, position < lift(size, position.type)]
    conditions: list[Scalar] = []
    if not is_nonnegative(position):
        conditions.append(index(0) <= index(position))
    if not statically_known(lt(position, size)):
        conditions.append(index(position) < index(size))
    return conditions


def divisible(position: Size, step: Size) -> list[Scalar]:
    """What must hold for `position` to be a multiple of `step`."""
    if isinstance(step, int) and step == 1:
        return []
    rest = position % step
    return [] if isinstance(rest, int) and rest == 0 else [index(rest).equals(index(0))]


def guarded(conditions: Iterable[Scalar], value: Scalar, other: Scalar) -> Scalar:
    """`value`, evaluated where all conditions hold, else `other`."""
    condition_of_all: Scalar | None = None
    for condition in conditions:
        condition_of_all = condition if condition_of_all is None else condition_of_all & condition
    return value if condition_of_all is None else guarded_scalar(condition_of_all, value, other)


def zero(dtype: DType) -> Scalar:
    """The constant 0."""
    return constant(0, dtype)


def reduction_order(dims: Sequence[int], ndim: int) -> Order:
    """LANES where the innermost logical dim is among those reduced, else COLUMNS."""
    return LANES if ndim - 1 in dims else COLUMNS


# Operators on Values that rules of several families use.


def convert(value: Value, dtype: DType) -> Value:
    """A Value in another dtype; itself where it has that dtype."""
    return value if value.dtype is dtype else OPERATORS["to_dtype"](value, dtype)


def widened(value: Value) -> Value:
    """A Value in the dtype in which arithmetic on it is done: float32 for the 16-bit floats."""
    return convert(value, compute_dtype(value.dtype))


def same_known(a: Size, b: Size) -> bool:
    """Whether two sizes are equal by what is known, without a guard."""
    return a is b or statically_known(eq(a, b))


def require_floating(type_: TensorType, op: str) -> None:
    """D001 unless the dtype is floating-point or complex."""
    if not (type_.dtype.is_floating_point or type_.dtype.is_complex):
        fail("D001", f"{op}: the dtype must be floating-point", input=type_, hint="convert with .float() first")


# Arrays for samples and numpy meanings.


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Normally distributed float32 numbers."""
    return rng.standard_normal(shape).astype(np.float32)


def integers(rng: np.random.Generator, low: int, high: int, *shape: int) -> Array:
    """Uniform int64 numbers in [low, high)."""
    return rng.integers(low, high, shape, dtype=np.int64)


def compute_array(array: Array) -> Array:
    """An array in the dtype in which its sums are made: 16-bit floats as float32."""
    narrow = array.dtype.itemsize == 2 and array.dtype.kind not in "iu"
    return array.astype(np.float32) if narrow else array
