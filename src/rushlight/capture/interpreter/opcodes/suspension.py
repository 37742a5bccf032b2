"""Generators and coroutines: making them, yielding, delegating."""

from __future__ import annotations

from inspect import CO_COROUTINE
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from rushlight.capture.code.instructions import VERSION
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.generators import InterpretedGenerator
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import iterator_of

_KEEPS_RECEIVER = VERSION > 11
_ITERABLE_COROUTINE = 256


@operation("RETURN_GENERATOR")
def return_generator(interpreter: Interpreter, frame: Frame, operand: int) -> bool:
    """Gives the caller a generator that goes on from here."""
    made = InterpretedGenerator(interpreter, frame)
    return interpreter.deliver(made)


@operation("YIELD_VALUE")
def yield_value(interpreter: Interpreter, frame: Frame, operand: int) -> bool:
    """Suspends the frame with a value."""
    assert frame.generator is not None
    return frame.generator.yielded(interpreter, frame.stack.pop())


@operation("RETURN_VALUE")
def return_value(interpreter: Interpreter, frame: Frame, operand: int) -> bool:
    """Ends the frame with the value on top."""
    value = frame.stack.pop()
    if frame.generator is not None:
        return frame.generator.returned(interpreter, value)
    return interpreter.deliver(value)


@operation("RETURN_CONST")
def return_const(interpreter: Interpreter, frame: Frame, constant: object) -> bool:
    """Ends the frame with a constant."""
    if frame.generator is not None:
        return frame.generator.returned(interpreter, constant)
    return interpreter.deliver(constant)


@operation("GET_YIELD_FROM_ITER")
def get_yield_from_iter(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Begins a `yield from`."""
    value = frame.stack[-1]
    if type(value) is CoroutineType and not frame.body.raw.co_flags & (CO_COROUTINE | _ITERABLE_COROUTINE):
        raise TypeError("cannot 'yield from' a coroutine object in a non-coroutine generator")
    if type(value) not in (GeneratorType, CoroutineType, InterpretedGenerator):
        frame.stack[-1] = iterator_of(interpreter, value)


@operation("SEND")
def send(interpreter: Interpreter, frame: Frame, target: int) -> bool:
    """Sends a value to the iterator below; jumps with what that returns at its end."""
    stack = frame.stack
    receiver, value = stack[-2], stack[-1]
    interpreter.advances(receiver)

    def consume(result: object, finished: bool) -> None:
        if not finished:
            stack[-1] = result
            return
        if _KEEPS_RECEIVER:
            stack[-1] = result
        else:
            stack[-2:] = [result]
        frame.position = target

    if type(receiver) is InterpretedGenerator:
        return receiver.resume(interpreter, value, consume)
    try:
        result = _sent(interpreter, receiver, value)
    except StopIteration as stop:
        consume(stop.value, True)
    else:
        consume(result, False)
    return False


def _sent(interpreter: Interpreter, receiver: Any, value: object) -> object:
    """What an iterator yields that gets a value; one without `send` gets None alone."""
    if value is None and type(receiver) is not CoroutineType:
        return interpreter.call(next, (receiver,))
    return receiver.send(value)


@operation("END_SEND")
def end_send(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Drops the iterator of a `yield from`."""
    del frame.stack[-2]


@operation("CLEANUP_THROW")
def cleanup_throw(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Turns a StopIteration that was raised in a `yield from` into its value."""
    stack = frame.stack
    error = stack[-1]
    if isinstance(error, StopIteration):
        stack[-3:] = [None, error.value]
        return
    interpreter.reraises = True
    raise error


@operation("GET_AWAITABLE")
def get_awaitable(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Begins an `await`."""
    value = frame.stack[-1]
    if isinstance(value, CoroutineType):
        return
    if isinstance(value, GeneratorType) and value.gi_code.co_flags & _ITERABLE_COROUTINE:
        return
    method = getattr(type(value), "__await__", None)
    if method is None:
        raise TypeError(f"object {type(value).__name__} can't be used in 'await' expression")
    frame.stack[-1] = interpreter.call(method, (value,))


@operation("GET_AITER")
def get_aiter(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Begins an `async for`."""
    value = frame.stack[-1]
    method = getattr(type(value), "__aiter__", None)
    if method is None:
        raise TypeError(f"'async for' requires an object with __aiter__ method, got {type(value).__name__}")
    frame.stack[-1] = interpreter.call(method, (value,))


@operation("GET_ANEXT")
def get_anext(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes what is to be awaited for the next value of an `async for`."""
    value = frame.stack[-1]
    method = getattr(type(value), "__anext__", None)
    if method is None:
        raise TypeError(f"'async for' requires an iterator with __anext__ method, got {type(value).__name__}")
    frame.stack.append(interpreter.call(method, (value,)))
    if not isinstance(frame.stack[-1], (CoroutineType, AsyncGeneratorType)):
        awaits = getattr(type(frame.stack[-1]), "__await__", None)
        if awaits is not None:
            frame.stack[-1] = interpreter.call(awaits, (frame.stack[-1],))


@operation("END_ASYNC_FOR")
def end_async_for(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Ends an `async for` on StopAsyncIteration; raises anything else again."""
    error = frame.stack[-1]
    if isinstance(error, StopAsyncIteration):
        del frame.stack[-2:]
        return
    interpreter.reraises = True
    raise error


@operation("ASYNC_GEN_WRAP")
def async_gen_wrap(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Refuses: asynchronous generators run as they are."""
    raise SystemError("an asynchronous generator is not interpreted")
