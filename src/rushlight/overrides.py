"""Overrides of functions on tensors by `__torch_function__`, of classes and of modes: who is asked, and for what.

A class of tensors, or any other, that has the class method `__torch_function__(func, types, args, kwargs)` answers all
functions that get one of its instances. Properties of tensors do not ask.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from rushlight.eager.dispatch import STATE
from rushlight.eager.override.answering import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    answer,
    relevant,
)
from rushlight.eager.override.foreign import disabled
from rushlight.eager.tensor import Tensor
from rushlight.support.peer_names import absent_name

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

Function = Callable[..., Any]
_disabled_torch_function_impl: object = disabled


def has_torch_function(relevant_args: Iterable[object]) -> bool:
    """Return whether one of several arguments has a `__torch_function__` that is asked now."""
    return bool(STATE.functions) or bool(relevant(relevant_args))


def has_torch_function_unary(value: object) -> bool:
    """Return whether an argument has a `__torch_function__` that is asked now."""
    return has_torch_function((value,))


def has_torch_function_variadic(*values: object) -> bool:
    """Return whether one of the arguments has a `__torch_function__` that is asked now."""
    return has_torch_function(values)


def handle_torch_function(
    public_api: Function, relevant_args: Iterable[object], *args: object, **kwargs: object
) -> Any:
    """Return what the innermost mode, or the first override that does not decline, makes of a call.

    Classes are asked before their bases, otherwise from left to right. Errors: A001 where all decline.
    """
    return answer(public_api, relevant(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[object]]) -> Callable[[Function], Function]:
    """Return a decorator of functions that first ask the arguments which `dispatcher` returns."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def is_tensor_like(value: object) -> bool:
    """Return whether a value is a tensor, or has a `__torch_function__`."""
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def _modules() -> dict[str, ModuleType]:
    names = ("fft", "linalg", "special", "nn.functional")
    rushlight = sys.modules["rushlight"]  # not imported: it is made of this module, among others
    modules: dict[str, ModuleType] = {"torch": rushlight}
    for name in names:
        module: Any = rushlight
        for part in name.split("."):
            module = getattr(module, part, None)
        if module is not None:
            modules[f"torch.{name}"] = module
    return modules


@functools.cache
def _functions() -> dict[str, tuple[str, Function]]:
    """Functions by their full names, with their module's."""
    functions: dict[str, tuple[str, Function]] = {}
    for module, names in _modules().items():
        for name in names.__all__:
            value = getattr(names, name)
            if inspect.isfunction(value):
                functions[f"{module}.{name}"] = (module, value)
    for name, value in inspect.getmembers(Tensor, inspect.isfunction):
        if not name.startswith("_"):
            functions[f"torch.Tensor.{name}"] = ("torch.Tensor", value)
    return functions


def get_overridable_functions() -> dict[Any, list[Function]]:
    """Return the functions on tensors, by module."""
    listed: dict[Any, list[Function]] = {}
    for module, function in _functions().values():
        listed.setdefault(module, []).append(function)
    return listed


def get_testing_overrides() -> dict[Function, Function]:
    """Return for each function on tensors one with its parameters that returns -1."""
    return {function: _constant(function) for _, function in _functions().values()}


def _constant(function: Function) -> Function:
    @functools.wraps(function)
    def override(*args: object, **kwargs: object) -> int:
        return -1

    return override


def get_ignored_functions() -> set[Function]:
    """Return functions that take no tensors."""
    creating = ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "tensor", "zeros")
    rushlight = sys.modules["rushlight"]
    return {getattr(rushlight, name) for name in creating}


def get_default_nowrap_functions() -> set[Function]:
    """Return functions whose results a subclass leaves as they are: none."""
    return set()


def resolve_name(f: object) -> str | None:
    """Return a function's name, such as `torch.Tensor.add`; None for one that is not known."""
    return next((name for name, (_, function) in _functions().items() if function is f), None)


def is_tensor_method_or_property(func: object) -> bool:
    """Return whether a function is a method or a property of tensors."""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
