"""Binds the arguments of a call to the parameters of an interpreted function."""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CellType, FunctionType

from rushlight.capture.interpreter.frame import UNBOUND, Frame, body_of
from rushlight.capture.interpreter.hooks import Hooks

REST = CO_VARARGS | CO_VARKEYWORDS


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


def make_cells(frame: Frame, index: int) -> None:
    """Turns a local variable into a cell that closures share."""
    value = frame.locals[index]
    frame.locals[index] = CellType() if value is UNBOUND else CellType(value)
