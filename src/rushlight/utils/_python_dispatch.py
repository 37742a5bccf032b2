"""Modes and subclasses of tensors below autograd: the names that PyTorch keeps under `torch.utils._python_dispatch`.

A mode sees the operators that are called within it, a subclass those on its tensors. A subclass that holds other
tensors is made by `Tensor._make_wrapper_subclass`; with `__tensor_flatten__` and `__tensor_unflatten__` it can be
compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.handle import PYTHON, Handle
from rushlight.eager.interception import TorchDispatchMode
from rushlight.eager.mutation import Mutation
from rushlight.eager.override.operator_function import OperatorFunction
from rushlight.eager.subclass import flattens, transformed

__all__ = [
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]

H = TypeVar("H", bound=Handle)


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether a value is a tensor of a subclass that can be taken apart and put together again.

    Its class has `__torch_dispatch__`, `__tensor_flatten__` and `__tensor_unflatten__`.
    """
    return isinstance(t, Handle) and flattens(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether tensors of a class can be taken apart and put together again."""
    return isinstance(t, type) and issubclass(t, Handle) and flattens(t)


def transform_subclass(
    t: H, callback: Callable[[str, Handle], Handle], outer_size: object = None, outer_stride: object = None
) -> H:
    """Return a tensor of a subclass with `callback(name, inner)` in place of each inner tensor.

    Sizes and strides are those of `t` unless others are given.
    """
    return transformed(t, callback, outer_size, outer_stride)


def return_and_correct_aliasing(
    func: object, args: Sequence[object], kwargs: Mapping[str, object] | None, out: object
) -> object:
    """Return what `__torch_dispatch__` answers for a call that gave `out`: of one that writes, the tensor written to.

    A view follows its base without further help.

    ```python
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        out = ...
        return return_and_correct_aliasing(func, args, kwargs, out)
    ```
    """
    operator = func.operator if isinstance(func, OperatorFunction) else func
    if not isinstance(operator, Mutation):
        return out
    return (kwargs or {})["out"] if operator.out else args[0]


def _get_current_dispatch_mode_stack() -> list[object]:
    """The active modes, outermost first."""
    return list(STATE.modes)


def _get_current_dispatch_mode() -> object:
    """The innermost active mode, or None."""
    return STATE.modes[-1] if STATE.modes else None


@contextmanager
def _disable_current_modes() -> Generator[list[object]]:
    """A scope in which no mode is active."""
    modes = _get_current_dispatch_mode_stack()
    with Scope(modes=(), included=STATE.included & ~PYTHON):
        yield modes
