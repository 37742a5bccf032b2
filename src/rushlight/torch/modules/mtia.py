"""`torch.mtia`: there is no such device."""

from __future__ import annotations

__all__ = ["device_count", "empty_cache", "is_available", "synchronize"]


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def empty_cache() -> None:
    """Do nothing: no device holds memory."""


def synchronize(device: object = None) -> None:
    """Do nothing: calls on the CPU have ended when they return."""
