"""The functions that `CALL_INTRINSIC_1` and `CALL_INTRINSIC_2` call: type parameters, `*` imports and more."""

from __future__ import annotations

import functools
import operator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from opcode import opmap
from types import CodeType, FunctionType

from rushlight.capture.interpreter.coroutines import Wrapped
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.opcodes.exceptions import prepare_reraise
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import Native, unary


def _import_star(interpreter: Interpreter, frame: Frame, module: object) -> object:
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name in vars(module) if not name.startswith("_")]
    assert frame.names is not None
    for name in names:
        frame.names[name] = getattr(module, name)
    return None


def _stop_iteration(interpreter: Interpreter, frame: Frame, error: object) -> object:
    flags, stops = frame.body.raw.co_flags, "StopIteration"
    if isinstance(error, StopAsyncIteration) and flags & CO_ASYNC_GENERATOR:
        stops = "StopAsyncIteration"
    elif not isinstance(error, StopIteration):
        return error
    kind = "coroutine" if flags & CO_COROUTINE else "async generator" if flags & CO_ASYNC_GENERATOR else "generator"
    instead = RuntimeError(f"{kind} raised {stops}")
    instead.__cause__ = instead.__context__ = error
    return instead


@operation("IMPORT_STAR")
def import_star(interpreter: Interpreter, frame: Frame, operand: object) -> None:
    """Binds what a module has, before 3.12."""
    _import_star(interpreter, frame, frame.stack.pop())


_OF_ONE: dict[int, Native] = {
    2: _import_star,
    3: _stop_iteration,
    4: lambda interpreter, frame, value: Wrapped(value),
    5: lambda interpreter, frame, value: unary(interpreter, "__pos__", operator.pos, value),
    6: lambda interpreter, frame, value: tuple(value),
}
_PREPARE_RERAISE = 1  # among those of two operands


@operation("CALL_INTRINSIC_1")
def call_intrinsic_1(interpreter: Interpreter, frame: Frame, which: int) -> None:
    """Calls a function of one operand that only instructions can call."""
    function = _OF_ONE.get(which)
    value = frame.stack[-1]
    if function is None:
        frame.stack[-1] = _native("CALL_INTRINSIC_1", which, frame)(value)
    else:
        frame.stack[-1] = function(interpreter, frame, value)


@operation("CALL_INTRINSIC_2")
def call_intrinsic_2(interpreter: Interpreter, frame: Frame, which: int) -> None:
    """Calls a function of two operands that only instructions can call."""
    below, top = frame.stack[-2:]
    if which == _PREPARE_RERAISE:
        result = prepare_reraise(below, top)
    else:
        result = _native("CALL_INTRINSIC_2", which, frame)(below, top)
    frame.stack[-2:] = [result]


def _native(name: str, which: int, frame: Frame) -> FunctionType:
    """A function that is the instruction alone; type parameters take their module from it."""
    return FunctionType(_code(name, which), frame.globals)


@functools.cache
def _code(name: str, which: int) -> CodeType:
    """The code of `-value` or of `left + right`, with another instruction in place of the operator."""
    if name == "CALL_INTRINSIC_1":
        template, replaced, follows = (lambda value: -value).__code__, opmap["UNARY_NEGATIVE"], 0
    else:
        template, replaced, follows = (lambda left, right: left + right).__code__, opmap["BINARY_OP"], 1
    text = bytearray(template.co_code)
    at = next(at for at in range(0, len(text), 2) if text[at] == replaced)
    text[at : at + 2] = bytes([opmap[name], which])
    text[at + 2 : at + 2 + 2 * follows] = bytes([opmap["NOP"], 0] * follows)  # in place of the operator's cache
    return template.replace(co_code=bytes(text))
