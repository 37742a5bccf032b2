"""Devices that are not there: what `torch.mps` and others answer."""

from __future__ import annotations

from rushlight.torch.submodule import Submodule

__all__ = ["absent_device"]


def _is_available() -> bool:
    """Return False."""
    return False


def _device_count() -> int:
    """Return 0."""
    return 0


def _empty_cache() -> None:
    """Do nothing: no device holds memory."""


def _synchronize(device: object = None) -> None:
    """Do nothing: calls on the CPU have ended when they return."""


def absent_device(name: str) -> Submodule:
    """Return the module of a kind of device of which there is none."""
    return Submodule(
        f"`torch.{name}`: there is no such device.",
        device_count=_device_count,
        empty_cache=_empty_cache,
        is_available=_is_available,
        synchronize=_synchronize,
    )
