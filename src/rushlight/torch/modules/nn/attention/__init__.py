"""`torch.nn.attention`: attention has one way here, whatever a program prefers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum

from rushlight.torch.passing import say_passed

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's ways to compute attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: object, set_priority: bool = False) -> Generator[None]:
    """Accept a preference for the calls within, and change nothing; an event says so."""
    say_passed("torch.nn.attention.sdpa_kernel", "attention has one way here")
    yield
