"""Automatic mixed precision: `autocast`, `GradScaler`, and what custom functions need under them."""

from rushlight.amp import autocast_mode, grad_scaler
from rushlight.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from rushlight.amp.grad_scaler import GradScaler
from rushlight.support.peer_names import absent_name

__all__ = [
    "GradScaler",
    "autocast",
    "autocast_mode",
    "custom_bwd",
    "custom_fwd",
    "grad_scaler",
    "is_autocast_available",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
