"""Whether a function is being traced."""

from rushlight.eager.dispatch import STATE
from rushlight.support.interpreted import WITHIN

__all__ = ["is_compiling"]


def is_compiling() -> bool:
    """Return whether the function that calls is being traced, by `rl.compile` or `rl.export`.

    In a compiled function it is true between graphs too, so that each call takes the same way. Programs ask so to leave
    out what reads values while it is traced. What they do instead should compute the same.

    ```python
    if not rl.compiler.is_compiling() and bool(mask.all()):
        mask = None
    ```
    """
    return STATE.tracer is not None


def _is_compiled() -> bool:
    return True


setattr(is_compiling, WITHIN, _is_compiled)
