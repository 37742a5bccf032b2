"""Binds the arguments of a call to the parameters of an interpreted function."""

from __future__ import annotations

from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType
from typing import Any

from rushlight.capture.interpreter.frame import UNBOUND, Frame, body_of
from rushlight.capture.interpreter.hooks import Hooks

SUSPENDING = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
"""Flags of code whose calls make generators, coroutines and the like."""


def bind(hooks: Hooks, function: FunctionType, args: tuple[object, ...], kwargs: dict[str, object]) -> Frame:
    """A frame for a call of a function. Errors: the TypeError of a call whose arguments do not fit."""
    closure, defaults, by_name = hooks.parts_of(function)
    code = function.__code__
    body = body_of(code)
    count, flags = code.co_argcount, code.co_flags
    fills = len(args) == count or (flags & CO_VARARGS and len(args) > count)
    if fills and not kwargs and not code.co_kwonlyargcount:
        variables: list[object] = [*args[:count]]
        if flags & CO_VARARGS:
            variables.append(args[count:])
        if flags & CO_VARKEYWORDS:
            variables.append({})
    else:
        variables = _bound(function, (defaults or (), by_name or {}), args, kwargs)
    variables += [UNBOUND] * (body.local_count - len(variables))
    frame = Frame(body, variables, function.__globals__, closure)
    frame.function = function
    if flags & SUSPENDING:
        name: Any = hooks.attribute(function, "__name__", getattr)
        qualname: Any = hooks.attribute(function, "__qualname__", getattr)
        frame.named = name, qualname
    take_closure(frame)
    return frame


def take_closure(frame: Frame) -> None:
    """Gives a frame the cells of its function's closure, which are its last variables."""
    if frame.closure:
        frame.locals[len(frame.locals) - len(frame.closure) :] = frame.closure


def _bound(
    function: FunctionType,
    given: tuple[tuple[object, ...], dict[str, object]],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> list[object]:
    """The values of the parameters, in the order of the code's variables. `given` are the defaults, also by name."""
    code = function.__code__
    defaults, given_by_name = given
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    values: list[object] = [*args[:count], *[UNBOUND] * (count + only - min(len(args), count))]
    extra: dict[str, object] = {}
    wrong = len(args) > count and not code.co_flags & CO_VARARGS
    positional = set(names[: code.co_posonlyargcount])
    places = {name: at for at, name in enumerate(names[: count + only]) if name not in positional}
    for name, value in kwargs.items():
        at = places.get(name)
        if at is None:
            extra[name] = value
        elif values[at] is UNBOUND:
            values[at] = value
        else:
            wrong = True
    wrong = wrong or bool(extra and not code.co_flags & CO_VARKEYWORDS)
    for at, default in enumerate(defaults, count - len(defaults)):
        if values[at] is UNBOUND:
            values[at] = default
    for at in range(count, count + only):
        if values[at] is UNBOUND and names[at] in given_by_name:
            values[at] = given_by_name[names[at]]
    if wrong or any(value is UNBOUND for value in values):
        _refused(function, args, kwargs)
    if code.co_flags & CO_VARARGS:
        values.append(tuple(args[count:]))
    if code.co_flags & CO_VARKEYWORDS:
        values.append(extra)
    return values


def _refused(function: FunctionType, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Raises CPython's own error: a call whose arguments do not fit never reaches the function's code."""
    function(*args, **kwargs)
    raise AssertionError(f"the arguments of {function.__qualname__} do fit")


def binder(function: FunctionType) -> FunctionType:
    """A function of the same parameters that gives their values, in the order of the code's variables.

    CPython binds them, in a tenth of the time that `bind` takes.
    """
    code = function.__code__
    names = code.co_varnames[: parameter_count(code)]
    count, first = code.co_argcount, code.co_posonlyargcount
    rest = count + code.co_kwonlyargcount
    parts = [*names[:first], *["/"][:first], *names[first:count]]
    if code.co_flags & CO_VARARGS:
        parts.append(f"*{names[rest]}")
    elif count < rest:
        parts.append("*")
    parts += names[count:rest]
    if code.co_flags & CO_VARKEYWORDS:
        parts.append(f"**{names[-1]}")
    text = f"lambda {', '.join(parts)}: ({''.join([f'{name}, ' for name in names])})"
    made = FunctionType(compile(text, "<arguments>", "eval").co_consts[0], {})
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return made


def parameter_count(code: CodeType) -> int:
    """How many parameters a function of a code has, with those for the rest of the arguments."""
    rest = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + rest


def make_cells(frame: Frame, index: int) -> None:
    """Turns a local variable into a cell that closures share."""
    value = frame.locals[index]
    frame.locals[index] = CellType() if value is UNBOUND else CellType(value)
