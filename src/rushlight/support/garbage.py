"""Python's collector of cycles, out of the way while compilers make many objects that stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """A scope without automatic collections: traced and compiled objects live on, so a search is wasted."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
