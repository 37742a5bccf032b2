"""What operators of several operands share: PyTorch's dtype promotion, broadcasting and its gradient, strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from rushlight.ir.dtype import BY_NAME, DTYPES, DType, Kind, bool_, complex64, complex128, float32, float64, int64
from rushlight.ir.type import CPU, Device, TensorType, contiguous_strides
from rushlight.ir.value import Value
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require
from rushlight.sym import (
    Size,
    broadcast_sizes,
    divides,
    eq,
    example_says,
    lt,
    maximum,
    minimum,
    ne,
    statically_known,
)

DEFAULT_FLOAT = float32
"""The dtype that operators have where they are given none."""
DEFAULT_DTYPE: list[DType] = [float32]
"""The dtype of Python floats, to which integers are raised: `set_default_dtype` replaces it."""
_ORDER = "strides: a result's dims are in the order of the operands' strides"

# torch.promote_types of torch 2.13, row by column; `-` where it raises. Both follow the order of ir.dtype.DTYPES:
# bool, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64 and
# complex128.
_PROMOTION = """
    bool u8   i8   i16  i32  i64  -    -    -    f16  bf16 f32  f64  c64  c128
    u8   u8   i16  i16  i32  i64  -    -    -    f16  bf16 f32  f64  c64  c128
    i8   i16  i8   i16  i32  i64  -    -    -    f16  bf16 f32  f64  c64  c128
    i16  i16  i16  i16  i32  i64  -    -    -    f16  bf16 f32  f64  c64  c128
    i32  i32  i32  i32  i32  i64  -    -    -    f16  bf16 f32  f64  c64  c128
    i64  i64  i64  i64  i64  i64  -    -    -    f16  bf16 f32  f64  c64  c128
    -    -    -    -    -    -    u16  -    -    f16  bf16 f32  f64  -    -
    -    -    -    -    -    -    -    u32  -    f16  bf16 f32  f64  -    -
    -    -    -    -    -    -    -    -    u64  f16  bf16 f32  f64  -    -
    f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
    bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128
    f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
    f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
    c64  c64  c64  c64  c64  c64  -    -    -    c64  c64  c64  c128 c64  c128
    c128 c128 c128 c128 c128 c128 -    -    -    c128 c128 c128 c128 c128 c128
"""
_LONG = {"b": "bfloat", "f": "float", "u": "uint", "i": "int", "c": "complex"}


def _named(short: str) -> DType | None:
    if short in ("-", "bool"):
        return None if short == "-" else bool_
    return BY_NAME[_LONG[short[0]] + short.lstrip("bfuic")]


_PAIRS: dict[tuple[DType, DType], DType | None] = {
    (row, column): _named(short)
    for row, line in zip(DTYPES, _PROMOTION.strip().splitlines(), strict=True)
    for column, short in zip(DTYPES, line.split(), strict=True)
}


def promote_dtypes(a: DType, b: DType) -> DType:
    """The dtype that both dtypes convert to, as `torch.promote_types`; D001 where PyTorch has none."""
    promoted = a if a is b else _PAIRS.get((a, b))
    if promoted is None:
        fail("D001", f"there is no common dtype of {a.name} and {b.name}", hint="convert one operand with .to(dtype)")
    return promoted


def _join(a: DType | None, b: DType | None) -> DType | None:
    return b if a is None else a if b is None else promote_dtypes(a, b)


def _outranked(high: DType | None, low: DType | None) -> DType | None:
    """`high` unless `low` is of a higher kind: an operand of a lower category raises the kind, never the width."""
    if high is None or low is None:
        return high or low
    if high.kind is Kind.COMPLEX or low.kind <= high.kind:
        return high
    if high.kind is Kind.FLOAT:
        return complex128 if high is float64 else complex64
    return promote_dtypes(high, low)


def promote(*types: TensorType | None) -> DType:
    """The dtype of a result, as `torch.result_type`: tensors with dims come first, then 0-d ones, then Python numbers.

    A Python float counts as the default float, and raises integers to it; a Python int never changes an integer dtype.
    """
    wide: DType | None = None
    scalar: DType | None = None
    number: DType | None = None
    for type_ in types:
        if type_ is None:
            continue
        if type_.weak:
            number = _join(number, _default_of(type_.dtype))
        elif type_.shape:
            wide = _join(wide, type_.dtype)
        else:
            scalar = _join(scalar, type_.dtype)
    promoted = _outranked(wide, _outranked(scalar, number))
    assert promoted is not None, "promote needs an operand"
    return promoted


def _default_of(dtype: DType) -> DType:
    if dtype.kind is Kind.FLOAT:
        return DEFAULT_DTYPE[0]
    if dtype.kind is Kind.COMPLEX:
        return complex128 if DEFAULT_DTYPE[0] is float64 else complex64
    return dtype


def promote_numbers(*types: TensorType) -> DType:
    """The dtype of arithmetic on Python numbers alone, which stay numbers: bool, int64, float64 or complex128."""
    return max([type_.dtype for type_ in types], key=lambda dtype: dtype.kind)


def promote_float(*types: TensorType | None) -> DType:
    """`promote`, with integers and bools raised to the default float: for true division and functions such as exp."""
    dtype = promote(*types)
    return dtype if dtype.kind >= Kind.FLOAT else DEFAULT_DTYPE[0]


def promote_sum(dtype: DType) -> DType:
    """The dtype in which integers and bools are summed: int64, as in PyTorch; others are their own."""
    return dtype if dtype.kind >= Kind.FLOAT else int64


def device_of(*types: TensorType | None) -> Device:
    """The one device of the operands; 0-d operands on the CPU, and numbers, go along with any other."""
    only: Device | None = None
    of_numbers = CPU
    for type_ in types:
        if type_ is None or type_.weak or (not type_.shape and type_.device == CPU):
            of_numbers = of_numbers if type_ is None else type_.device
            continue
        require(
            only is None or only == type_.device,
            "V002",
            "operands are on different devices",
            a=only,
            b=type_.device,
        )
        only = type_.device
    return only if only is not None else of_numbers


def is_one(size: Size) -> bool:
    """Whether a size is 1 by what is known: a literal, or a symbol that a guard has related so."""
    return size == 1 if isinstance(size, int) else statically_known(eq(size, 1))


def broadcast(*shapes: Sequence[Size], code: str = "S001") -> tuple[Size, ...]:
    """The common shape, counted from the last dim. Relations between symbols are guarded.

    Errors: S001, or another code, when there is none.
    """
    rank = max([len(shape) for shape in shapes], default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for dim, size in enumerate(shape, offset):
            common = result[dim]
            if common is not size and not (isinstance(size, int) and size == 1):
                is_free = isinstance(common, int) and common == 1
                result[dim] = size if is_free else _common_size(common, size, shapes, code)
    return tuple(result)


def _common_size(a: Size, b: Size, shapes: Sequence[Sequence[Size]], code: str) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        if a != b:
            values: dict[str, Any] = {f"shape{position}": tuple(shape) for position, shape in enumerate(shapes)}
            fail(code, "shapes do not broadcast", **values)
        return a
    return broadcast_sizes(a, b)


@overload
def unbroadcast(grad: Value, like: Value) -> Value: ...


@overload
def unbroadcast(grad: Value, like: object) -> Value | None: ...


def unbroadcast(grad: Value, like: object) -> Value | None:
    """A gradient summed over the dims in which `like` was broadcast, with the shape and dtype of `like`.

    None for a Python number, which has no gradient.
    """
    if not isinstance(like, Value):
        return None
    grad = sum_to(grad, like.shape)
    return grad if grad.dtype is like.dtype else OPERATORS["to_dtype"](grad, like.dtype)


def sum_to(grad: Value, shape: Sequence[Size]) -> Value:
    """A gradient summed over the dims in which `shape` was expanded to the gradient's.

    The bits depend on the elements alone, not on which sizes are known to be 1. The sum of one element is that element.
    The order is that of a sum along the innermost dim if that dim is summed and its size is not 1. Where its size is a
    symbol that may be 1, there are two sums, one of which is over no elements: of -0.0, which changes no bit.
    """
    lead = grad.ndim - len(shape)
    dims = [
        dim for dim in range(grad.ndim) if dim < lead or (is_one(shape[dim - lead]) and not is_one(grad.shape[dim]))
    ]
    if dims and grad.dtype.is_complex:  # sums of complex numbers have no signed start
        grad = OPERATORS["sum"](grad, tuple(dims), True)
    elif dims:
        grad = _sum_repeated(grad, tuple(dims), lead)
    return OPERATORS["reshape"](grad, shape) if lead else grad


def _sum_repeated(grad: Value, dims: Sequence[int], lead: int) -> Value:
    sum_repeated, last = OPERATORS["sum_repeated"], grad.ndim - 1
    size = grad.shape[last]
    several = any(dim != last and not is_one(grad.shape[dim]) for dim in dims)
    if last not in dims or last < lead or not several or _is_not_one(size):
        return sum_repeated(grad, tuple(dims), along=last in dims)
    single = maximum(0, minimum(size, 2 - size))  # 1 for a size of 1, 0 for any other
    rows = sum_repeated(grad, tuple(dims), along=True, share=1 - single)
    return rows + sum_repeated(grad, tuple(dims), along=False, share=single)


def _is_not_one(size: Size) -> bool:
    return size != 1 if isinstance(size, int) else statically_known(ne(size, 1))


def pointwise_strides(types: Sequence[TensorType], shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """The strides of a pointwise result: dense, with dims in the order of the operands' strides.

    PyTorch's rule (TensorIterator): contiguous when all operands are. Else dims are sorted from the innermost out by
    insertion, and the first operand that moves in both of two dims tells which is the inner one. Strides that are
    symbols are compared by their form; where that does not tell, by the example, which is guarded.
    """
    if len(shape) < 2 or all(_has_shape(type_, shape) and _is_contiguous(type_) for type_ in types):
        return contiguous_strides(shape)
    leading = next((type_ for type_ in types if type_.ndim > 1), None)  # a vector orders no two dims
    if leading is not None and 1 not in shape and _has_shape(leading, shape) and _is_contiguous(leading):
        return contiguous_strides(shape)
    strides: list[Size] = [1] * len(shape)
    step: Size = 1
    for dim in _order_by_strides(types, shape):
        strides[dim] = step
        step = step * (1 if shape[dim] == 0 else shape[dim])
    return tuple(strides)


def _has_shape(type_: TensorType, shape: tuple[Size, ...]) -> bool:
    """Whether a tensor is not broadcast, as far as is known."""
    if type_.shape == shape:
        return True
    return type_.ndim == len(shape) and all(
        size == common or (not isinstance(size, int) and statically_known(eq(size, common)))
        for size, common in zip(type_.shape, shape, strict=True)
    )


def _is_contiguous(type_: TensorType) -> bool:
    """Whether the strides are row-major where they matter: those of dims of size 1 do not."""
    rows = zip(type_.shape, type_.strides, contiguous_strides(type_.shape), strict=True)
    return 0 in type_.shape or all(stride == wanted or size == 1 for size, stride, wanted in rows)


def _order_by_strides(types: Sequence[TensorType], shape: tuple[Size, ...]) -> list[int]:
    """The dims from the innermost out.

    An insertion sort, since the comparison leaves pairs open: any other sort would give another order.
    """
    rank = len(shape)
    rows = [(0,) * (rank - type_.ndim) + _effective_strides(type_, shape) for type_ in types]
    order = list(reversed(range(rank)))
    for position in range(1, rank):
        right = position
        for left in range(position - 1, -1, -1):
            outer = _compare_dims(rows, shape, order[left], order[right])
            if outer > 0:
                order[left], order[right] = order[right], order[left]
                right = left
            elif outer < 0:
                break
    return order


def _effective_strides(type_: TensorType, shape: tuple[Size, ...]) -> tuple[Size, ...]:
    offset = len(shape) - type_.ndim
    return tuple(
        [
            0 if size is not shape[dim + offset] and is_one(size) and not is_one(shape[dim + offset]) else stride
            for dim, (size, stride) in enumerate(zip(type_.shape, type_.strides, strict=True))
        ]
    )


def _compare_dims(rows: Sequence[tuple[Size, ...]], shape: tuple[Size, ...], a: int, b: int) -> int:
    """Below 0 where dim `a` is the inner one, above 0 where `b` is, 0 where no operand tells."""
    for row in rows:
        if not (_is_still(row[a]) or _is_still(row[b])):
            outer = _compare(row[a], row[b])
            if outer:
                return outer
            if outer == 0 and _compare(shape[a], shape[b]) == 1:
                return 1
    return 0


def _is_still(stride: Size) -> bool:
    return isinstance(stride, int) and stride == 0


def _compare(a: Size, b: Size) -> int | None:
    """-1, 0 or 1 as `a` is less than, equal to or more than `b`; None where nobody knows."""
    if isinstance(a, int) and isinstance(b, int):
        return (a > b) - (a < b)
    if a == b:
        return 0
    if a == 1 or b == 1:
        return -1 if a == 1 else 1
    inner, outer = divides(a, b), divides(b, a)
    if inner is not outer:
        return -1 if inner else 1
    less = example_says(lt(a, b), _ORDER)
    if less is None or less:
        return None if less is None else -1
    return 0 if example_says(eq(a, b), _ORDER) else 1
