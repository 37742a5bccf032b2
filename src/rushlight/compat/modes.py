"""Modes of PyTorch that change nothing here, and one of ours."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rushlight.eager.boundary import checked
from rushlight.support import settings
from rushlight.support.errors import require, warn_always, warns_always

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_warn_always",
    "strict",
    "use_deterministic_algorithms",
]

_PRECISIONS = ("highest", "high", "medium")
_DEBUG_MODES = ("default", "warn", "error")
_debug_mode = [0]


@checked
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accept whether only deterministic algorithms may run: all are, each operation gives the same bits each time."""
    _debug_mode[0] = 0 if not mode else 1 if warn_only else 2


def are_deterministic_algorithms_enabled() -> bool:
    """Return what was asked for last; False if nothing was."""
    return _debug_mode[0] > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether a warning, not an error, was asked for where an algorithm is not deterministic."""
    return _debug_mode[0] == 1


@checked
def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Accept "default", "warn" or "error", or 0, 1 or 2: see `use_deterministic_algorithms`."""
    named = debug_mode in _DEBUG_MODES
    valid = named or (type(debug_mode) is int and debug_mode in range(3))
    require(valid, "A002", f"set_deterministic_debug_mode: 0, 1, 2, default, warn or error, not {debug_mode}")
    _debug_mode[0] = _DEBUG_MODES.index(str(debug_mode)) if named else int(debug_mode)


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2: what was asked for last."""
    return _debug_mode[0]


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


@checked
def set_warn_always(b: bool) -> None:
    """Set whether Rushlight's warnings are given each time, not once in a process."""
    require(isinstance(b, bool), "A001", "set_warn_always: a bool is expected", b=b)
    warn_always(b)


def is_warn_always_enabled() -> bool:
    """Return whether warnings are given each time."""
    return warns_always()
