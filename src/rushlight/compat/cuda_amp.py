"""`torch.cuda.amp` for scripts that use it where devices are: there are none here, so that all of it is off."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.amp import autocast_mode, grad_scaler
from rushlight.ir.dtype import DType, float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(autocast_mode.autocast):  # noqa: N801 - PyTorch's name
    """`amp.autocast("cuda", ...)`: off, with a warning."""

    def __init__(self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`amp.GradScaler("cuda", ...)`: off, with a warning."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable[..., object] | None = None, *, cast_inputs: DType | None = None) -> Callable[..., Any]:
    """`amp.custom_fwd` for "cuda"."""
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


custom_bwd = functools.partial(autocast_mode.custom_bwd, device_type="cuda")
