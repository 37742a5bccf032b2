"""`torch._subclasses.fake_tensor`: a program is given no tensor of PyTorch's class for tensors without data."""

from __future__ import annotations

__all__ = ["is_fake"]


def is_fake(x: object) -> bool:
    """Return False: code that is traced has tensors of the ordinary class."""
    return False
