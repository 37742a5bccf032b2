"""Questions about tensors that PyTorch answers by functions."""

from __future__ import annotations

import inspect
from typing import TypeGuard

from rushlight.eager.arguments import element_type
from rushlight.eager.boundary import checked
from rushlight.eager.functions import isclose
from rushlight.eager.mutation import can_cast as _can_cast
from rushlight.eager.storage.untyped import UntypedStorage
from rushlight.eager.tensor import Tensor
from rushlight.eager.typed_storage import TypedStorage
from rushlight.ir.dtype import DType
from rushlight.ops.promote import promote_dtypes
from rushlight.support.errors import fail


@checked
def is_tensor(obj: object) -> TypeGuard[Tensor]:
    """Return whether an object is a tensor."""
    return isinstance(obj, Tensor) and not obj.form.type.weak  # as numbers are that stay in a graph


@checked
def is_floating_point(input: Tensor) -> bool:
    """Return whether a tensor's dtype is a real floating-point one."""
    return input.dtype.is_floating_point


@checked
def is_complex(input: Tensor) -> bool:
    """Return whether a tensor's dtype is complex."""
    return input.dtype.is_complex


@checked
def numel(input: Tensor) -> int:
    """Return the number of a tensor's elements."""
    return input.numel()


@checked
def allclose(input: Tensor, other: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are close: `|input - other| <= atol + rtol * |other|`."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@checked
def can_cast(from_: DType, to: DType) -> bool:
    """Return whether in-place operations convert so."""
    return _can_cast(from_, to)


@checked
def promote_types(type1: DType, type2: DType) -> DType:
    """Return the dtype of a result of tensors of two dtypes."""
    first, second = element_type(type1), element_type(type2)
    if first is None or second is None:
        fail("D004", "promote_types: takes two dtypes")
    return promote_dtypes(first, second)


@checked
def is_storage(obj: object) -> bool:
    """Return whether an object is a tensor's memory."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


@checked
def typename(obj: object) -> str:
    """Return the name of an object's type, or of a class or function itself: for tensors, that of `type()`."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    named: object = obj if isinstance(obj, type) or inspect.isroutine(obj) else type(obj)
    path = [getattr(named, "__module__", None), getattr(named, "__qualname__", "")]
    return ".".join([part for part in path if part not in (None, "builtins")])
