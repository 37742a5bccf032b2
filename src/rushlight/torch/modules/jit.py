"""`torch.jit`: functions and modules pass through as they are; nothing is compiled, saved or loaded."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Generator
from types import UnionType
from typing import Any, Final, NamedTuple, Optional, TypeVar, Union, get_args, get_origin

from rushlight.torch.modules.futures import Future
from rushlight.torch.passing import Decorator, refuse, say_passed
from rushlight.torch.submodule import Submodule

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "_overload",
    "_overload_method",
    "_script_if_tracing",
    "annotate",
    "annotations",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

T = TypeVar("T")
_AS_IT_IS = "what is given is returned as it is, and runs as Python"

export = Decorator("torch.jit.export", _AS_IT_IS)
ignore = Decorator("torch.jit.ignore", _AS_IT_IS)
interface = Decorator("torch.jit.interface", _AS_IT_IS)
script_if_tracing = _script_if_tracing = Decorator("torch.jit.script_if_tracing", _AS_IT_IS)
script_method = Decorator("torch.jit.script_method", _AS_IT_IS)
unused = Decorator("torch.jit.unused", _AS_IT_IS)
_overload = Decorator("torch.jit._overload", _AS_IT_IS)
_overload_method = Decorator("torch.jit._overload_method", _AS_IT_IS)


class _Sequences(type):
    def __getitem__(cls, of: object) -> object:
        return list


class _BroadcastingList(metaclass=_Sequences):
    """A list in an annotation."""


annotations = Submodule(
    "Types of annotations.",
    Dict=dict,
    List=list,
    Optional=Optional,
    Tuple=tuple,
    **{f"BroadcastingList{size}": _BroadcastingList for size in range(1, 7)},
)


class TracerWarning(Warning):
    """What PyTorch warns of while it traces; programs filter it. It is never given here."""


class Error(RuntimeError):
    """What PyTorch raises of TorchScript; it is never raised here."""


class Attribute(NamedTuple):
    """A value and its type, as modules annotate them for TorchScript."""

    value: Any
    type: Any


class CompilationUnit:
    """A class for `isinstance`: nothing is an instance."""

    def __init__(self, *args: object, **options: object) -> None:
        refuse("torch.jit.CompilationUnit", "there is no TorchScript here")


class ScriptModule:
    """A class for `isinstance`: nothing is an instance."""

    def __init__(self, *args: object, **options: object) -> None:
        refuse("torch.jit.ScriptModule", "there is no TorchScript here")


class ScriptFunction(ScriptModule):
    """A class for `isinstance`: nothing is an instance."""


def script(obj: T, *args: object, **options: object) -> T:
    """Return a function, class or module as it is."""
    say_passed("torch.jit.script", _AS_IT_IS)
    return obj


def trace(func: T, *args: object, **options: object) -> T:
    """Return a function or module as it is; it is not called."""
    say_passed("torch.jit.trace", _AS_IT_IS)
    return func


def trace_module(mod: T, *args: object, **options: object) -> T:
    """Return a module as it is; its methods are not called."""
    say_passed("torch.jit.trace_module", _AS_IT_IS)
    return mod


def freeze(mod: T, *args: object, **options: object) -> T:
    """Return a module as it is."""
    say_passed("torch.jit.freeze", _AS_IT_IS)
    return mod


def optimize_for_inference(mod: T, *args: object, **options: object) -> T:
    """Return a module as it is."""
    say_passed("torch.jit.optimize_for_inference", _AS_IT_IS)
    return mod


def fork(func: Callable[..., T], *args: object, **kwargs: object) -> Future[T]:
    """Call a function at once, as PyTorch does outside of TorchScript, and return a future of its result."""
    future = Future[T]()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[T]) -> T:
    """Return the result of `fork`."""
    return future.wait()


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type; elements of containers, as of `list[Tensor]`, are looked at."""
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, each) for each in target_type)
    origin, parts = get_origin(target_type), get_args(target_type)
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if origin in (Union, UnionType):
        return any(isinstance(obj, each) for each in parts)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is tuple and Ellipsis not in parts:
        return len(parts) == len(obj) and all(map(isinstance, obj, parts))
    if origin is dict:
        return all(isinstance(key, parts[0]) and isinstance(value, parts[1]) for key, value in obj.items())
    return all(isinstance(element, parts[0]) for element in obj)


_strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]
_has_onednn = False


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Keep a strategy, and return the one before; it changes nothing."""
    global _strategy
    before, _strategy = _strategy, strategy
    return before


def enable_onednn_fusion(enabled: bool) -> None:
    """Keep a flag, which changes nothing."""
    global _has_onednn
    _has_onednn = enabled


def onednn_fusion_enabled() -> bool:
    """Return the flag of `enable_onednn_fusion`."""
    return _has_onednn


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Generator[None]:
    """Change nothing."""
    say_passed("torch.jit.optimized_execution", "there is no TorchScript to optimise")
    yield


class strict_fusion:  # noqa: N801 - PyTorch's name
    """A context that changes nothing: kernels are not fused by TorchScript here."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, *args: object) -> None:
        """End."""


def export_opnames(m: object) -> list[str]:
    """Raise A006."""
    refuse("torch.jit.export_opnames", "there is no TorchScript here")


def annotate(the_type: object, the_value: T) -> T:
    """Return the value."""
    return the_value


def is_scripting() -> bool:
    """Return False."""
    return False


def is_tracing() -> bool:
    """Return False."""
    return False


def load(f: object, *args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.jit.load", "there is no TorchScript here; use export.load")


def save(m: object, f: object, *args: object, **options: object) -> None:
    """Raise A006."""
    refuse("torch.jit.save", "there is no TorchScript here; use export.save")
