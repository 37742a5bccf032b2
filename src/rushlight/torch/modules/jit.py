"""`torch.jit`: functions and modules pass through as they are; nothing is compiled, saved or loaded."""

from __future__ import annotations

from typing import Final, Optional, TypeVar

from rushlight.torch.passing import Decorator, refuse, say_passed
from rushlight.torch.submodule import Submodule

__all__ = [
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "_overload",
    "_overload_method",
    "_script_if_tracing",
    "annotate",
    "annotations",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "unused",
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
