"""Forms of functions on tensors: with `out=`, in place, and as copies where a function gives views."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rushlight.eager.arguments import required_tensor
from rushlight.eager.autograd.history import requires, shown_by_base
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, dispatch
from rushlight.eager.functions import clone
from rushlight.eager.handle import Handle, fit_empty
from rushlight.eager.mutation import COPY, can_cast
from rushlight.ops.dims import same_shape
from rushlight.support.errors import fail, require
from rushlight.support.provenance import called_name

F = TypeVar("F", bound=Callable[..., Any])


def with_out(function: F) -> F:
    """The function, `checked`, with a keyword `out`: a tensor, or several, that the result is written to.

    One without elements gets memory for the result. Errors: S009 for another shape, D003 for a dtype that the result's
    is not converted to.
    """

    @functools.wraps(function)
    def call(*args: object, out: Any = None, **named: object) -> Any:
        result = function(*args, **named)
        return written(result, out, function.__name__)

    made: Any = checked(call)
    return made


def written(result: Any, out: Any, name: str = "") -> Any:
    """The result, or `out` with it written there: a tensor, or one for each of several results.

    `name` is that of the function, of the one that was called where none is given. Errors: those of `with_out`.
    """
    if out is None:
        return result
    name = name or called_name()
    if not isinstance(result, tuple):
        _fill(name, required_tensor(out), result)
        return out
    parts: Sequence[Any] = out if isinstance(out, (tuple, list)) else ()
    require(len(parts) == len(result), "A004", f"{name}: out is one tensor for each of {len(result)} results", out=out)
    for target, value in zip(parts, result, strict=True):
        _fill(name, required_tensor(target), value)
    return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)


def _fill(name: str, target: Handle, value: Handle) -> None:
    if STATE.grad and (requires(value) or requires(target)):
        fail("A004", f"{name}: with out= nothing is recorded, but a tensor requires gradients", hint="drop out=")
    _store(name, target, value, may_grow=True)


def _store(name: str, target: Handle, value: Handle, may_grow: bool = False) -> None:
    """Writes a value to a tensor. One without elements that `may_grow` gets the value's shape first."""
    if not can_cast(value.dtype, target.dtype):
        fail("D003", f"{name}: {value.dtype.name} cannot be stored in {target.dtype.name}", target=target)
    if may_grow:
        fit_empty(target, value.form.shape)
    fits = same_shape(target.form.shape, value.form.shape)
    require(fits, "S009", f"{name}: the result does not fit its target", target=target, result=value)
    dispatch(COPY, (target, value), {})


def as_function(method: F) -> F:
    """A method as a function, whose first argument is called `input` and must be a tensor: A001."""

    @functools.wraps(method)
    def call(input: Any, *args: object, **named: object) -> Any:
        return method(required_tensor(input), *args, **named)

    made: Any = call
    made.__code__ = made.__code__.replace(co_name=method.__name__)  # errors name the frame of ours that was called
    return made


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a function: its result is written to the first argument, which is returned.

    Errors: those of `with_out`.
    """
    name = f"{function.__name__}_"

    def call(input: Any, *args: object, **named: object) -> Any:
        target = required_tensor(input)
        # What the function saves for its gradient has to stay as it was.
        read = clone(shown_by_base(target)) if requires(target) else target
        _store(name, target, function(read, *args, **named))
        return target

    return _renamed(call, function, name, "In place.")


def as_copies(function: Callable[..., Any]) -> Callable[..., Any]:
    """The form of a function that gives views whose results are row-major copies."""

    def call(*args: object, **named: object) -> Any:
        result = function(*args, **named)
        return tuple([_copied(element) for element in result]) if isinstance(result, (tuple, list)) else _copied(result)

    return with_out(_renamed(call, function, f"{function.__name__}_copy", "As a copy."))


def _copied(view: Any) -> Any:
    return clone(view).contiguous()


def _renamed(call: Any, function: Callable[..., Any], name: str, more: str) -> Any:
    functools.update_wrapper(call, function)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{function.__doc__} {more}"
    call.__code__ = call.__code__.replace(co_name=name)  # errors name the frame of ours that was called
    return call
