"""`torch.ops`: the operators that a program registers by `torch.library`, by namespace."""

from __future__ import annotations

from rushlight.library import namespaces
from rushlight.support.errors import error

__all__ = ["import_module", "load_library", "loaded_libraries"]

loaded_libraries: set[str] = set()


class Namespace(namespaces.Namespace):
    """The operators of one namespace, as attributes."""

    PATH = "torch.ops"


def load_library(path: object) -> None:
    """Raise N003: a library of PyTorch's native operators needs PyTorch."""
    raise error("N003", "torch.ops.load_library: native code for PyTorch cannot be loaded", path=str(path))


def import_module(module: object) -> None:
    """Do nothing: a module's operators exist when it is imported."""


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return Namespace(name)
