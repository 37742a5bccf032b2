"""`torch.utils.checkpoint`: right values and gradients, and the memory of a plain call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from rushlight.torch.passing import say_passed

__all__ = ["checkpoint", "checkpoint_sequential"]

T = TypeVar("T")
_KEPT = "the function is called plainly: what it computes is kept, not computed again"
_OPTIONS = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")


def checkpoint(function: Callable[..., T], *args: object, **options: object) -> T:
    """Call a function. It saves no memory, and an event says so."""
    say_passed("torch.utils.checkpoint", _KEPT)
    return function(*args, **{name: value for name, value in options.items() if name not in _OPTIONS})


def checkpoint_sequential(
    functions: Iterable[Callable[[object], object]], segments: int, input: object, **options: object
) -> object:
    """Call functions, or the modules of a Sequential, one after the other."""
    say_passed("torch.utils.checkpoint", _KEPT)
    for function in functions:
        input = function(input)
    return input
