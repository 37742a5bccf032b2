"""`torch.ops`: the operators that a program registers by `torch.library`, by namespace."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module as import_of
from typing import Any

from rushlight.library import namespaces
from rushlight.support.errors import error
from rushlight.torch import libraries

__all__ = ["import_module", "load_library", "loaded_libraries"]

loaded_libraries: set[str] = set()


class Namespace(namespaces.Namespace):
    """The operators of one namespace, as attributes: a program's own, or functions of a library's names."""

    PATH = "torch.ops"

    def __getattr__(self, name: str) -> Any:
        library = libraries.FUNCTIONS.get(self.name)
        found = None if library is None or name.startswith("__") else getattr(import_of(library), name, None)
        return super().__getattr__(name) if found is None else _Packet(found)


class _Packet:
    """A function as an operator, whose only overload is itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.default = self

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function."""
        return self._function(*args, **options)


def load_library(path: object) -> None:
    """Define the operators of a native library, if they exist here: native code for PyTorch is not loaded (N003)."""
    module = libraries.module_of(path)
    if module is not None:
        import_of(module)
        loaded_libraries.add(str(path))
        return
    raise error("N003", "torch.ops.load_library: native code for PyTorch cannot be loaded", path=str(path))


def import_module(module: object) -> None:
    """Do nothing: a module's operators exist when it is imported."""


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return Namespace(name)
