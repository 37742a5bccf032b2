"""`torch.library` beyond `rushlight.library`: what programs register for native code that is not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.library import OPERATORS
from rushlight.library import register_fake as _register_fake
from rushlight.torch.passing import refuse, say_passed

__all__ = ["fallthrough_kernel", "register_fake", "wrap_triton"]


def register_fake(op: object, func: Callable[..., object] | None = None, /, **options: Any) -> Any:
    """Register how types follow from types. For an operator of native code that is not here, nothing happens."""
    if isinstance(op, str) and op.partition(".")[0] not in OPERATORS:
        say_passed(f"torch.library.register_fake of {op}", "the operator is of native code, which is not here")
        return func if func is not None else lambda function: function
    return _register_fake(op, func, **options)


def wrap_triton(triton_kernel: object, /) -> object:
    """Raise A006."""
    refuse("torch.library.wrap_triton", "kernels are made by the compiler here")


def fallthrough_kernel(*args: object) -> object:
    """Raise A006."""
    refuse("torch.library.fallthrough_kernel", "there are no kernels by key")
