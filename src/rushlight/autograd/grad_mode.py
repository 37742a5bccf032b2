"""Modes of recording, under PyTorch's module name."""

from __future__ import annotations

from rushlight.eager.autograd.modes import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from rushlight.eager.boundary import checked
from rushlight.support.peer_names import absent_name

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_multithreading = [True]


class set_multithreading_enabled:  # noqa: N801 - PyTorch's name
    """Accepts whether backward passes may use several threads, for the program or in a `with`.

    The steps of a pass run in the caller's thread one after the other; kernels use all threads, whatever is set.
    """

    __slots__ = ("_before",)

    @checked
    def __init__(self, mode: bool) -> None:
        self._before = _multithreading[0]
        _multithreading[0] = mode

    def __enter__(self) -> None:
        """The mode is on since the call."""

    def __exit__(self, *error: object) -> None:
        _multithreading[0] = self._before


def is_multithreading_enabled() -> bool:
    """Return what was set last."""
    return _multithreading[0]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
