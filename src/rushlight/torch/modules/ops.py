"""`torch.ops`: the operators that a program registers by `torch.library`, by namespace."""

from __future__ import annotations

import functools

import rushlight
from rushlight import fx
from rushlight.library import OPERATORS, CustomOpDef
from rushlight.nn import functional
from rushlight.ops import OPERATORS as REGISTRY
from rushlight.support.errors import error
from rushlight.support.peer_names import count_absent
from rushlight.torch.passing import refuse

__all__ = ["import_module", "load_library", "loaded_libraries"]

loaded_libraries: set[str] = set()


class Overloads:
    """An operator of PyTorch's own namespace: a function of Rushlight's with its name. All overloads are that one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"aten.{self._name}"

    def __getattr__(self, name: str) -> Overloads:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: object, **options: object) -> object:
        function = getattr(rushlight, self._name, None) or getattr(functional, self._name, None)
        if function is None:
            refuse(f"torch.ops.aten.{self._name}", "no function has this name")
        return function(*args, **options)


@functools.cache
def _aten(name: str) -> Overloads:
    return Overloads(name)


class Namespace:
    """The operators of one namespace, as attributes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> CustomOpDef | Overloads | fx.ops.OperatorFunction:
        operator = OPERATORS.get(f"{self.name}::{name}")
        if operator is None:
            if name.startswith("__"):
                raise AttributeError(name)
            if self.name == "aten":
                return fx.ops.function_of(name) if name in REGISTRY else _aten(name)
            count_absent(f"torch.ops.{self.name}.{name}")
            raise error("N001", f"torch.ops.{self.name} has no {name}: nothing registered it")
        return operator

    def __dir__(self) -> list[str]:
        return sorted(name.partition("::")[2] for name in OPERATORS if name.startswith(f"{self.name}::"))


def load_library(path: object) -> None:
    """Raise N003: a library of PyTorch's native operators needs PyTorch."""
    raise error("N003", "torch.ops.load_library: native code for PyTorch cannot be loaded", path=str(path))


def import_module(module: object) -> None:
    """Do nothing: a module's operators exist when it is imported."""


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return Namespace(name)
