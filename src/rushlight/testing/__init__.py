"""What tests are made of: comparing tensors, and programs by chance on sizes that nobody knows."""

from __future__ import annotations

from rushlight.support.peer_names import absent_name
from rushlight.testing.close import assert_close
from rushlight.testing.drawn import make_tensor
from rushlight.testing.fuzz import Finding, Report, unbacked_fuzz

__all__ = ["Finding", "Report", "assert_close", "make_tensor", "unbacked_fuzz"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
