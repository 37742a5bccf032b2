"""`torch.cpu`: what scripts ask of the CPU as of a device."""

from __future__ import annotations

from typing import Any

from rushlight.amp import GradScaler, autocast
from rushlight.ir.dtype import DType, bfloat16
from rushlight.torch.submodule import Submodule

__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]


def _autocast(enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True) -> autocast:
    """Return `autocast("cpu", ...)`."""
    return autocast("cpu", dtype, enabled, cache_enabled)


def _scaler(*args: Any, **kwargs: Any) -> GradScaler:
    """Return `GradScaler("cpu", ...)`."""
    return GradScaler("cpu", *args, **kwargs)


def is_available() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Do nothing: calls on the CPU have ended when they return."""


amp = Submodule("Automatic mixed precision on the CPU.", GradScaler=_scaler, autocast=_autocast)
