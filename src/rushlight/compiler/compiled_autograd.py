"""Compiled autograd: backward passes become programs, hooks and the sums of gradients included.

```python
with rl.compiler.compiled_autograd.enable(rl.compile):
    loss.backward()
```
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from rushlight.capture.tape.engine import CACHE, disable, enable, is_enabled, reset
from rushlight.eager.boundary import checked
from rushlight.support import settings

__all__ = ["disable", "enable", "is_enabled", "override", "program_count", "programs", "reset", "set_enabled"]

_enable = enable
_disable = disable


@checked
def set_enabled(value: bool) -> None:
    """Turn compiled autograd on or off for the process, as RUSHLIGHT_COMPILED_AUTOGRAD does at its start."""
    settings.update(compiled_autograd=value)


@checked
def override(value: bool) -> AbstractContextManager[object]:
    """Return a context in which compiled autograd is on or off, for calls that do not say it themselves."""
    return settings.override(compiled_autograd=value)


def programs() -> list[str]:
    """Return the text of the program of each backward pass that is compiled, for reading."""
    return CACHE.texts()


def program_count() -> int:
    """Return how many programs there are: another one for another structure of the tape, or for sizes that change."""
    return len(CACHE)
