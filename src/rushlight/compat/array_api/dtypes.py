"""Dtypes in the array API standard: promotion, kinds, casts and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.compat.limits import FloatLimits, IntegerLimits
from rushlight.eager.arguments import default_dtype, element_type
from rushlight.eager.creation import scalar_tensor
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import (
    DType,
    Kind,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    from_numpy_dtype,
    int8,
    int16,
    int32,
    int64,
    real_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.ops.promote import promote_dtypes
from rushlight.support.errors import fail

SIGNED: Mapping[str, DType] = {"int8": int8, "int16": int16, "int32": int32, "int64": int64}
UNSIGNED: Mapping[str, DType] = {"uint8": uint8, "uint16": uint16, "uint32": uint32, "uint64": uint64}
REAL: Mapping[str, DType] = {"float32": float32, "float64": float64}
COMPLEX: Mapping[str, DType] = {"complex64": complex64, "complex128": complex128}
KINDS: Mapping[str, Mapping[str, DType]] = {
    "bool": {"bool": bool_},
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED | UNSIGNED,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": SIGNED | UNSIGNED | REAL | COMPLEX,
}
"""The standard's dtypes by the names of its kinds. `isdtype` counts 16-bit floats as real floating too."""


def promoted_dtype(a: DType, b: DType) -> DType:
    """The dtype that two dtypes promote to: the standard's table, and PyTorch's where it says nothing.

    Errors: D001 for pairs that neither has, such as uint64 and int64.
    """
    if a is b:
        return a
    if a.kind is Kind.INT and b.kind is Kind.INT:
        promoted = from_numpy_dtype(np.promote_types(a.numpy, b.numpy))
        if promoted is not None and promoted.kind is Kind.INT:
            return promoted
    elif Kind.INT in (a.kind, b.kind):
        return max(a, b, key=lambda dtype: dtype.kind)  # as PyTorch, which lacks most unsigned ones
    return promote_dtypes(a, b)


def promoted(x1: object, x2: object) -> tuple[Any, Any]:
    """Two operands of which at least one is a tensor, tensors converted to their common dtype.

    A number that comes first is made a tensor of the result's dtype; one that comes second stays a number.
    """
    if isinstance(x1, Tensor):
        if isinstance(x2, Tensor) and x1.dtype is not x2.dtype:
            dtype = promoted_dtype(x1.dtype, x2.dtype)
            return x1.to(dtype), x2.to(dtype)
        return x1, x2
    return scalar_tensor(x1, dtype=result_type(x1, x2)), x2


def result_type(*arrays_and_dtypes: object) -> DType:
    """Return the dtype to which tensors, dtypes and numbers promote; numbers only raise the kind.

    Errors: A001 without a tensor or dtype, D001 for dtypes without a common one.
    """
    promoted: DType | None = None
    for argument in arrays_and_dtypes:
        dtype = argument if isinstance(argument, DType) else argument.dtype if isinstance(argument, Handle) else None
        if dtype is not None:
            promoted = dtype if promoted is None else promoted_dtype(promoted, dtype)
    if promoted is None:
        fail("A001", "result_type: at least one tensor or dtype is expected", given=arrays_and_dtypes)
    for argument in arrays_and_dtypes:
        number = _number_dtype(argument)
        if number is not None and number.kind > promoted.kind:
            promoted = promote_dtypes(promoted, number)
    return promoted


def _number_dtype(value: object) -> DType | None:
    """The default dtype of a Python number's kind; None for what is no number."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, complex):
        return complex64
    return default_dtype() if isinstance(value, float) else int64 if isinstance(value, int) else None


def can_cast(from_: object, to: DType, /) -> bool:
    """Return whether promotion of a dtype, or a tensor's, with another one gives that other one."""
    source = from_.dtype if isinstance(from_, Handle) else from_
    if not isinstance(source, DType) or not isinstance(to, DType):
        fail("D004", "can_cast: takes a tensor or dtype, and a dtype", from_=from_, to=to)
    if source.kind is Kind.INT and to.kind is Kind.INT:
        return np.can_cast(source.numpy, to.numpy)
    return promoted_dtype(source, to) is to


def isdtype(dtype: object, kind: Any) -> bool:
    """Return whether a dtype is another one, is of a named kind, or is one of a tuple of these.

    A dtype of NumPy's stands for the one that holds the same numbers. Errors: A002 for a name that is no kind, D004 for
    what is no dtype.
    """
    if isinstance(dtype, np.dtype):
        dtype = element_type(dtype)
    if not isinstance(dtype, DType):
        fail("D004", "isdtype: not a dtype", dtype=dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, part) for part in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in KINDS:
        fail("A002", "isdtype: no such kind of dtypes", kind=kind, hint=f"kinds: {', '.join(KINDS)}")
    floating = dtype.is_floating_point and kind in ("real floating", "numeric")
    return floating or dtype in KINDS[kind].values()


def sum_dtype(dtype: DType) -> DType:
    """The dtype of sums and products: the default integer of its signedness for smaller ones, else its own."""
    if dtype.kind is Kind.INT and not dtype.signed:
        return uint64
    return int64 if dtype.kind in (Kind.INT, Kind.BOOL) else dtype


class FloatInfo(FloatLimits):
    """Limits of a floating-point dtype; `dtype` is the dtype itself, not its name."""

    def __init__(self, type: DType) -> None:
        super().__init__(type)
        self.dtype = real_dtype(type)


class IntegerInfo(IntegerLimits):
    """Limits of an integer dtype; `dtype` is the dtype itself, not its name."""

    def __init__(self, type: DType) -> None:
        super().__init__(type)
        self.dtype = type


def finfo(type: Any, /) -> FloatInfo:
    """Return the limits of a floating-point dtype, of a tensor's, or of a complex one's parts."""
    return FloatInfo(type.dtype if isinstance(type, Handle) else type)


def iinfo(type: Any, /) -> IntegerInfo:
    """Return the limits of an integer dtype, or of a tensor's."""
    return IntegerInfo(type.dtype if isinstance(type, Handle) else type)
