"""`torch.accelerator`: there is none."""

from __future__ import annotations

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """Return None."""


def synchronize(device: object = None) -> None:
    """Do nothing: calls on the CPU have ended when they return."""
