"""`torch.overrides`: asks objects with `__torch_function__`; functions of this package do not ask by themselves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NoReturn

import rushlight
from rushlight.eager.tensor import Tensor
from rushlight.torch.passing import refuse

__all__ = [
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


def _overrides(value: object) -> bool:
    method = getattr(type(value), "__torch_function__", None)
    return method is not None and getattr(method, "__name__", "") != "_disabled_torch_function_impl"


def has_torch_function(relevant_args: Iterable[object]) -> bool:
    """Return whether one of several arguments has a `__torch_function__`."""
    return any(_overrides(value) for value in relevant_args)


def has_torch_function_unary(value: object) -> bool:
    """Return whether an argument has a `__torch_function__`."""
    return _overrides(value)


def has_torch_function_variadic(*values: object) -> bool:
    """Return whether one of the arguments has a `__torch_function__`."""
    return has_torch_function(values)


def handle_torch_function(
    public_api: Function, relevant_args: Sequence[object], *args: object, **kwargs: object
) -> Any:
    """Return what the first `__torch_function__` that does not decline makes of a call.

    Classes are asked before their bases, otherwise from left to right. Errors: TypeError where all decline.
    """
    asked: list[object] = []
    for value in relevant_args:
        if _overrides(value) and all(type(value) is not type(other) for other in asked):
            at = next((place for place, other in enumerate(asked) if issubclass(type(value), type(other))), len(asked))
            asked.insert(at, value)
    types = tuple([type(value) for value in asked])
    for value in asked:
        method: Any = getattr(value, "__torch_function__", None)
        result = method(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join([kind.__name__ for kind in types])
    raise TypeError(f"no implementation found for {resolve_name(public_api) or public_api} on types {names}")


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
    found: dict[str, ModuleType] = {"torch": rushlight}
    for name in names:
        module: Any = rushlight
        for part in name.split("."):
            module = getattr(module, part, None)
        if module is not None:
            found[f"torch.{name}"] = module
    return found


@functools.cache
def _functions() -> dict[str, tuple[str, Function]]:
    """Functions by their full names, with their module's."""
    found: dict[str, tuple[str, Function]] = {}
    for module, names in _modules().items():
        for name in names.__all__:
            value = getattr(names, name)
            if inspect.isfunction(value):
                found[f"{module}.{name}"] = (module, value)
    for name, value in inspect.getmembers(Tensor, inspect.isfunction):
        if not name.startswith("_"):
            found[f"torch.Tensor.{name}"] = ("torch.Tensor", value)
    return found


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


class TorchFunctionMode:
    """Refused with A006 when it is entered: functions are not intercepted; `TorchDispatchMode` is."""

    def __enter__(self) -> NoReturn:
        refuse("torch.overrides.TorchFunctionMode", "functions are not intercepted; a TorchDispatchMode sees operators")

    def __exit__(self, *reason: object) -> None:
        """Nothing: it cannot be entered."""
