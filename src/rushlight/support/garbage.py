"""Python's collector of cycles, out of the way while compilers make many objects that stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """A scope without automatic collections: what is traced or compiled lives on, so looking for cycles is in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
