"""`torch.profiler`: names that packages import; `rushlight.autograd.profiler` measures named parts."""

from __future__ import annotations

__all__ = ["kineto_available"]


def kineto_available() -> bool:
    """Return False: there is no tracer of devices here."""
    return False
