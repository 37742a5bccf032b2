"""What `torch.distributed` has for programs that its launcher starts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from rushlight.torch.submodule import Submodule

F = TypeVar("F", bound=Callable[..., object])

__all__ = ["default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)


def record(fn: F, error_handler: object = None) -> F:
    """Return the function: `rushlight launch` prints the first failure of all ranks by itself."""
    return fn


constants = Submodule("Constants of process groups.", default_pg_timeout=default_pg_timeout)
elastic = Submodule(
    "What a launcher's ranks use.",
    multiprocessing=Submodule("Processes of a job.", errors=Submodule("Errors of ranks.", record=record)),
)
