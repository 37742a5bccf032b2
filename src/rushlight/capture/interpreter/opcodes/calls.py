"""Calls, functions, attributes, classes, imports and formatted strings."""

from __future__ import annotations

import sys
from types import CellType, CodeType, FunctionType
from typing import Any

from rushlight.capture.code.instructions import NULL_FIRST
from rushlight.capture.interpreter.frame import NULL, Frame
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import (
    attribute_of,
    delete_attribute,
    is_iterable,
    listed,
    store_attribute,
)


@operation("CALL")
def call(interpreter: Interpreter, frame: Frame, operand: tuple[int, tuple[str, ...]]) -> bool:
    """Calls a function with so many arguments, the last ones by name."""
    count, names = operand
    return _call(interpreter, frame, count, names)


@operation("CALL_KW")
def call_kw(interpreter: Interpreter, frame: Frame, count: int) -> bool:
    """Calls a function whose keywords' names are on top of the stack."""
    return _call(interpreter, frame, count, frame.stack.pop())


def _call(interpreter: Interpreter, frame: Frame, count: int, names: tuple[str, ...]) -> bool:
    stack = frame.stack
    base = len(stack) - count - 2
    first, second = stack[base], stack[base + 1]
    arguments = stack[base + 2 :]
    if NULL_FIRST:
        function = second if first is NULL else first
        if first is not NULL:
            arguments.insert(0, second)
    else:
        function = first
        if second is not NULL:
            arguments.insert(0, second)
    kwargs: dict[str, object] = {}
    if names:
        split = len(arguments) - len(names)
        kwargs = dict(zip(names, arguments[split:], strict=True))
        del arguments[split:]
    del stack[base:]
    return interpreter.invoke(function, tuple(arguments), kwargs)


@operation("CALL_FUNCTION_EX")
def call_function_ex(interpreter: Interpreter, frame: Frame, with_keywords: int) -> bool:
    """Calls a function with a tuple of arguments and a dict of keywords."""
    stack = frame.stack
    count = 2 + (with_keywords & 1)
    values = stack[-count:]
    kwargs = dict(values[2]) if with_keywords & 1 else {}
    if NULL_FIRST:
        function, args = values[0], values[1]
        size = count + 1
    else:
        function, args = stack[-count - 1], values[1]
        size = count + 1
    if type(args) is not tuple:
        args = _arguments(interpreter, function, args)
    del stack[-size:]
    return interpreter.invoke(function, args, kwargs)


def _arguments(interpreter: Interpreter, function: object, args: Any) -> tuple[object, ...]:
    """The values of an iterable that is the only one with a star in a call."""
    if is_iterable(args):
        return tuple(listed(interpreter, args))
    name = getattr(function, "__qualname__", str(function))
    module = getattr(function, "__module__", None)
    prefix = f"{module}." if module not in (None, "builtins") else ""
    raise TypeError(f"{prefix}{name}() argument after * must be an iterable, not {type(args).__name__}")


@operation("MAKE_FUNCTION")
def make_function(interpreter: Interpreter, frame: Frame, flags: int) -> None:
    """Makes a function of a code object, its defaults, annotations and closure."""
    stack = frame.stack
    code = stack.pop()
    closure = _closure(stack, code, flags)
    interpreter.runs(*closure)
    function = FunctionType(code, frame.globals, closure=closure)
    if flags & 4:
        _set_annotations(function, stack.pop())
    if flags & 2:
        function.__kwdefaults__ = stack.pop()
    if flags & 1:
        function.__defaults__ = stack.pop()
    stack.append(function)


def _closure(stack: list[Any], code: CodeType, flags: int) -> tuple[CellType, ...]:
    """The closure on the stack; empty cells where another instruction brings it, as from 3.13 on."""
    return stack.pop() if flags & 8 else tuple([CellType() for _ in code.co_freevars])


def _set_annotations(function: FunctionType, annotations: Any) -> None:
    if isinstance(annotations, tuple):
        annotations = dict(zip(annotations[::2], annotations[1::2], strict=True))
    function.__annotations__ = annotations


@operation("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(interpreter: Interpreter, frame: Frame, which: int) -> None:
    """Gives the function on top one of its parts: another function has it, as the first may be of an earlier graph."""
    stack = frame.stack
    function = stack.pop()
    value = stack.pop()
    closure, defaults, by_name = interpreter.parts_of(function)
    if which == 8:
        interpreter.runs(*value)
        closure = value
    made = FunctionType(function.__code__, function.__globals__, closure=closure)
    made.__defaults__ = value if which == 1 else defaults
    made.__kwdefaults__ = value if which == 2 else by_name
    made.__annotations__ = function.__annotations__
    if which == 4:
        _set_annotations(made, value)
    stack.append(made)


@operation("LOAD_ATTR")
def load_attr(interpreter: Interpreter, frame: Frame, operand: tuple[str, bool]) -> None:
    """Takes an attribute, for a call with a null."""
    name, for_call = operand
    value = attribute_of(interpreter, interpreter.owner(frame.stack[-1], name), name)
    if for_call:
        frame.stack[-1:] = (NULL, value) if NULL_FIRST else (value, NULL)
    else:
        frame.stack[-1] = value


@operation("LOAD_SUPER_ATTR")
def load_super_attr(interpreter: Interpreter, frame: Frame, operand: tuple[str, bool]) -> None:
    """Takes an attribute of `super()`."""
    name, for_call = operand
    maker, cls, owner = frame.stack[-3:]
    value = attribute_of(interpreter, interpreter.call(maker, (cls, owner)), name)
    del frame.stack[-2:]
    if for_call:
        frame.stack[-1:] = (NULL, value) if NULL_FIRST else (value, NULL)
    else:
        frame.stack[-1] = value


@operation("STORE_ATTR")
def store_attr(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Sets an attribute."""
    store_attribute(interpreter, frame.stack[-1], name, frame.stack[-2])
    del frame.stack[-2:]


@operation("DELETE_ATTR")
def delete_attr(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Deletes an attribute."""
    delete_attribute(interpreter, frame.stack[-1], name)
    frame.stack.pop()


@operation("LOAD_BUILD_CLASS")
def load_build_class(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes the function that makes classes."""
    frame.stack.append(frame.builtins["__build_class__"])


@operation("LOAD_ASSERTION_ERROR")
def load_assertion_error(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes AssertionError."""
    frame.stack.append(AssertionError)


@operation("SETUP_ANNOTATIONS")
def setup_annotations(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Makes `__annotations__` in a class body that has none."""
    assert frame.names is not None
    if "__annotations__" not in frame.names:
        annotations: dict[str, object] = {}
        interpreter.makes(annotations)
        frame.names["__annotations__"] = annotations


@operation("IMPORT_NAME")
def import_name(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Imports a module."""
    names, level = frame.stack[-1], frame.stack[-2]
    importer = frame.builtins.get("__import__")
    if not callable(importer):
        raise ImportError("__import__ not found")
    module = importer(name, frame.globals, frame.names, names, level)
    interpreter.imports(module)
    frame.stack[-2:] = [module]


@operation("IMPORT_FROM")
def import_from(interpreter: Interpreter, frame: Frame, name: str) -> None:
    """Pushes what a module has under a name."""
    module = frame.stack[-1]
    value = interpreter.attribute(module, name, lambda owner, name: getattr(owner, name, MISSING))
    if value is MISSING:
        package = getattr(module, "__name__", None)
        value = sys.modules.get(f"{package}.{name}")
        if value is None:
            raise _cannot_import(name, module, package)
    frame.stack.append(value)


def _cannot_import(name: str, module: object, package: str | None) -> ImportError:
    path = getattr(module, "__file__", None)
    where = "unknown location" if path is None else path
    return ImportError(f"cannot import name {name!r} from {package!r} ({where})", name=package, path=path)


_CONVERSIONS = {1: str, 2: repr, 3: ascii}


@operation("FORMAT_VALUE")
def format_value(interpreter: Interpreter, frame: Frame, flags: int) -> None:
    """Formats the value of an f-string's field."""
    stack = frame.stack
    spec = stack[-1] if flags & 4 else ""
    value = stack[-2] if flags & 4 else stack[-1]
    if flags & 3:
        value = interpreter.call(_CONVERSIONS[flags & 3], (value,))
    text = interpreter.call(format, (value, spec))
    if flags & 4:
        stack.pop()
    stack[-1] = text


@operation("CONVERT_VALUE")
def convert_value(interpreter: Interpreter, frame: Frame, which: int) -> None:
    """Converts a value of an f-string by str, repr or ascii."""
    frame.stack[-1] = interpreter.call(_CONVERSIONS[which], (frame.stack[-1],))


@operation("FORMAT_SIMPLE")
def format_simple(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Formats a value."""
    frame.stack[-1] = interpreter.call(format, (frame.stack[-1], ""))


@operation("FORMAT_WITH_SPEC")
def format_with_spec(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Formats a value by a specification."""
    text = interpreter.call(format, (frame.stack[-2], frame.stack[-1]))
    frame.stack.pop()
    frame.stack[-1] = text
