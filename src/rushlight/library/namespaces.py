"""Operators by namespace, as `rl.ops.mine.clipped` and `rl.ops.aten.add.Tensor`: how programs and graphs name them."""

from __future__ import annotations

import functools

from rushlight.compat import creation, functions, layers, operators
from rushlight.eager import creation as making
from rushlight.eager import random
from rushlight.eager.override.operator_function import OperatorFunction, function_of, is_operator
from rushlight.library.operators import OPERATORS, CustomOpDef
from rushlight.nn import functional
from rushlight.ops import OPERATORS as REGISTRY
from rushlight.support.errors import error, fail
from rushlight.support.peer_names import count_absent

__all__ = ["Namespace", "Overloads"]

_OWN = ("aten", "prims")
"""PyTorch's namespaces: their operators are Rushlight's own."""
_FUNCTIONS = (operators, functions, creation, making, random, layers, functional)


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
        """Call the function."""
        found = [vars(module)[self._name] for module in _FUNCTIONS if self._name in vars(module)]
        if not found:
            fail("A006", f"torch.ops.aten.{self._name} does not exist here", hint="no function has this name")
        return found[0](*args, **options)


@functools.cache
def _overloads(name: str) -> Overloads:
    return Overloads(name)


class Namespace:
    """The operators of one namespace, as attributes. `PATH` is what names of it begin with in messages."""

    PATH = "rushlight.ops"

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{self.PATH}.{self.name}"

    def __getattr__(self, name: str) -> CustomOpDef | Overloads | OperatorFunction:
        operator = OPERATORS.get(f"{self.name}::{name}")
        if operator is None:
            if name.startswith("__"):
                raise AttributeError(name)
            if self.name in _OWN:
                return function_of(name) if is_operator(name) else _overloads(name)
            count_absent(f"torch.ops.{self.name}.{name}")
            raise error("N001", f"{self!r} has no {name}: nothing registered it")
        return operator

    def __dir__(self) -> list[str]:
        if self.name in _OWN:
            return sorted([name for name in REGISTRY if name.isidentifier()])
        return sorted([name.partition("::")[2] for name in OPERATORS if name.startswith(f"{self.name}::")])
