"""Modes of PyTorch that are always on here, and one of ours."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rushlight.eager.boundary import checked
from rushlight.support import settings
from rushlight.support.errors import require

_PRECISIONS = ("highest", "high", "medium")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Do nothing: every operation gives the same bits each time."""


def are_deterministic_algorithms_enabled() -> bool:
    """Return True."""
    return True


@checked
def set_float32_matmul_precision(precision: str) -> None:
    """Accept a precision; products of float32 are computed in float32 whatever it is."""
    valid = isinstance(precision, str) and precision in _PRECISIONS
    require(valid, "A002", f"set_float32_matmul_precision: takes one of {', '.join(_PRECISIONS)}, not {precision}")


def get_float32_matmul_precision() -> str:
    """Return "highest"."""
    return "highest"


def strict() -> AbstractContextManager[object]:
    """Make every fallback to a slower path an error (R003) for the statements within."""
    return settings.override(strict_fallbacks=True)
