"""`torch.cuda` for scripts that ask for devices before they use the CPU: there are none here."""

from collections.abc import Iterable as _Iterable
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from rushlight.support.errors import require as _require
from rushlight.support.peer_names import absent_name

if _TYPE_CHECKING:
    from rushlight.compat import cuda_amp as amp

__all__ = [
    "amp",
    "device_count",
    "empty_cache",
    "get_rng_state_all",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_rng_state_all",
    "synchronize",
]


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def is_initialized() -> bool:
    """Return False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False: there is no device that could."""
    return False


def empty_cache() -> None:
    """Do nothing: no device holds memory."""


def memory_allocated(device: object = None) -> int:
    """Return 0."""
    return 0


def max_memory_allocated(device: object = None) -> int:
    """Return 0."""
    return 0


def memory_reserved(device: object = None) -> int:
    """Return 0."""
    return 0


def max_memory_reserved(device: object = None) -> int:
    """Return 0."""
    return 0


def memory_stats(device: object = None) -> dict[str, int]:
    """Return an empty dict: no device holds memory."""
    return {}


def reset_peak_memory_stats(device: object = None) -> None:
    """Do nothing: no device holds memory."""


def manual_seed(seed: int) -> None:
    """Do nothing: without devices there is nothing to seed, as in PyTorch."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: without devices there is nothing to seed, as in PyTorch."""


def seed() -> None:
    """Do nothing: without devices there is nothing to seed, as in PyTorch."""


def seed_all() -> None:
    """Do nothing: without devices there is nothing to seed, as in PyTorch."""


def get_rng_state_all() -> list[object]:
    """Return no state, since there is no device."""
    return []


def set_rng_state_all(new_states: _Iterable[object]) -> None:
    """Set the states of no device, one for each. Errors: V001 where states are given."""
    states = list(new_states)
    _require(not states, "V001", "set_rng_state_all: there is no device cuda", states=len(states))


def is_current_stream_capturing() -> bool:
    """Return False: there are no streams."""
    return False


def synchronize(device: object = None) -> None:
    """Do nothing: calls on the CPU have ended when they return."""


def __getattr__(name: str) -> object:
    if name == "amp":
        return _import_module("rushlight.compat.cuda_amp")
    raise absent_name("rushlight.cuda", name, __all__)
