"""PyTorch's older names of tensor types: `FloatTensor(2, 3)`, `x.type("torch.LongTensor")`, and what Tensor() makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.eager.arguments import default_dtype, element_type, is_tensor, place, set_default_dtype
from rushlight.eager.boundary import checked
from rushlight.eager.creation import empty, tensor
from rushlight.eager.handle import Handle
from rushlight.eager.tensor_meta import Size
from rushlight.eager.tracing import TracedNumber
from rushlight.ir.dtype import (
    FLOAT8,
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.ir.type import Device
from rushlight.support.errors import error, fail, require

_NAMES: dict[DType, str] = {
    bool_: "BoolTensor",
    uint8: "ByteTensor",
    uint16: "UInt16Tensor",
    uint32: "UInt32Tensor",
    uint64: "UInt64Tensor",
    int8: "CharTensor",
    int16: "ShortTensor",
    int32: "IntTensor",
    int64: "LongTensor",
    float16: "HalfTensor",
    bfloat16: "BFloat16Tensor",
    float32: "FloatTensor",
    float64: "DoubleTensor",
    complex64: "ComplexFloatTensor",
    complex128: "ComplexDoubleTensor",
    **{dtype: f"{dtype.name.capitalize()}Tensor" for dtype in FLOAT8},
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


class LegacyType(type):
    """The class of FloatTensor and its like: calling one makes a tensor of its dtype, and `isinstance` asks for it."""

    dtype: DType

    def __call__(cls, *args: object, device: object = None) -> Any:
        """A tensor of the dtype: from data, or undefined in a shape."""
        return made(args, cls.dtype, device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Handle) and instance.dtype is cls.dtype and instance.device.type == "cpu"


def _typed(dtype: DType) -> LegacyType:
    name = _NAMES[dtype]
    return LegacyType(name, (), {"dtype": dtype, "__doc__": f"Tensors of {dtype.name} on the CPU."})


BoolTensor, ByteTensor, CharTensor, ShortTensor = _typed(bool_), _typed(uint8), _typed(int8), _typed(int16)
IntTensor, LongTensor, HalfTensor, BFloat16Tensor = _typed(int32), _typed(int64), _typed(float16), _typed(bfloat16)
FloatTensor, DoubleTensor = _typed(float32), _typed(float64)


def type_name(dtype: DType, device: Device) -> str:
    """What `x.type()` says, in PyTorch's words, which programs compare it with: "torch.FloatTensor"."""
    return f"torch.{'' if device.type == 'cpu' else device.type + '.'}{_NAMES[dtype]}"


def named_type(given: object) -> DType | None:
    """The dtype that `x.type(given)` asks for: a dtype, FloatTensor or its like, or such a name.

    A002 for a text that is no such name, V001 where it is that of another device.
    """
    if isinstance(given, LegacyType):
        return given.dtype
    if not isinstance(given, str):
        return element_type(given)
    package, _, name = given.rpartition(".")
    if package in ("torch", "rushlight") and name in _DTYPES:
        return _DTYPES[name]
    root, _, device = package.partition(".")
    if root in ("torch", "rushlight") and name in _DTYPES:
        place(device)
    raise error(
        "A002", f"type: {given!r} is not the name of a tensor type", hint="names: torch.FloatTensor and its like"
    )


def made(args: Sequence[object], dtype: DType | None, device: object) -> Any:
    """The tensor that a legacy constructor makes, such as Tensor or FloatTensor.

    The arguments are nothing, sizes one by one, a `Size`, a sequence or array of data, or a tensor, which is returned
    as it is. The dtype is the default one unless one is given. Errors: A001.
    """
    given, wanted = args[0] if len(args) == 1 else None, dtype or default_dtype()
    if is_tensor(given):
        fits = dtype is None or given.dtype is dtype
        require(fits, "A001", f"{_NAMES[wanted]}: the tensor has another dtype", tensor=given, hint="use to()")
        return given
    if isinstance(given, (list, tuple, range, np.ndarray)) and not isinstance(given, Size):
        return tensor(given, dtype=wanted, device=device)
    sizes = given if isinstance(given, Size) else (tuple(args) or (0,))
    for size in sizes:
        number = size.is_integer if isinstance(size, TracedNumber) else hasattr(type(size), "__index__")
        if isinstance(size, bool) or not number:
            fail("A001", "Tensor: sizes, or a sequence of data, is expected", given=size, hint="use rl.tensor(data)")
    return empty(sizes, dtype=wanted, device=device)


@checked
def set_default_tensor_type(t: object) -> None:
    """Set the dtype of Python floats from the name of a tensor type, as `torch.DoubleTensor`."""
    dtype = named_type(t)
    if dtype is None:
        fail("A001", "set_default_tensor_type: a type of tensors is expected", type=t)
    set_default_dtype(dtype)
