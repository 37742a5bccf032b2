"""Devices beside the CPU: what a plug-in derives from, which ones there are, and what they leave to the CPU.

A package makes a device known by an entry point of the group `rushlight.backends`, whose name is the device's:

    [project.entry-points."rushlight.backends"]
    mica = "mica:Mica"

A program then says `rl.ones(3, device="mica")`; nothing of the package is imported before.
"""

from __future__ import annotations

from rushlight.eager.dispatch import forget_device
from rushlight.eager.execution.artifact import reset
from rushlight.eager.execution.device import fallback_counts as fallbacks
from rushlight.eager.execution.device import forget_fallbacks as reset_fallbacks
from rushlight.eager.execution.tables import forget_plans
from rushlight.ir.type import Device, TensorType
from rushlight.runtime.backend import (
    GROUP,
    Backend,
    Costs,
    DeviceStorage,
    Event,
    Kernel,
    Region,
    Stream,
    find,
    installed,
    register,
)
from rushlight.support.errors import fail

__all__ = [
    "GROUP",
    "Backend",
    "Costs",
    "DeviceStorage",
    "Event",
    "Kernel",
    "Region",
    "Stream",
    "fallbacks",
    "get",
    "installed",
    "register",
    "reset_fallbacks",
    "type_on",
    "unregister",
]


def get(name: str) -> Backend:
    """Return the backend of a kind of device, its plug-in loaded. Errors: V001, V006."""
    backend = find(name)
    if backend is None:
        fail("V001", f"there is no device {name}", hint="devices: " + ", ".join(("cpu", "meta", *installed())))
    return backend


def unregister(name: str) -> None:
    """Forget a backend and all that was planned for it. Tensors on it that are still there are of no use."""
    forget_device(name)
    for forget in (forget_plans, reset):
        forget()


def type_on(type_: TensorType, device: Device) -> TensorType:
    """Return a type of a tensor on another device."""
    return TensorType(type_.shape, type_.dtype, device, type_.strides, type_.weak)
