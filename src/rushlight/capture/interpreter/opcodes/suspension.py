"""Generators and coroutines: making them, yielding, delegating."""

from __future__ import annotations

from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from rushlight.capture.code.instructions import VERSION
from rushlight.capture.interpreter.coroutines import InterpretedAsyncGenerator, InterpretedCoroutine, Wrapped
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.generators import InterpretedGenerator
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import iterator_of, lookup

_KEEPS_RECEIVER = VERSION > 11
_ITERABLE_COROUTINE = 256


@operation("RETURN_GENERATOR")
def return_generator(interpreter: Interpreter, frame: Frame, operand: int) -> bool:
    """Gives the caller a generator that goes on from here."""
    flags = frame.body.raw.co_flags
    kind = InterpretedGenerator
    if flags & CO_COROUTINE:
        kind = InterpretedCoroutine
    elif flags & CO_ASYNC_GENERATOR:
        kind = InterpretedAsyncGenerator
    return interpreter.deliver(kind(interpreter, frame))


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
    awaits = frame.body.raw.co_flags & (CO_COROUTINE | _ITERABLE_COROUTINE)
    if type(value) in (CoroutineType, InterpretedCoroutine) and not awaits:
        raise TypeError("cannot 'yield from' a coroutine object in a non-coroutine generator")
    if type(value) not in (GeneratorType, CoroutineType, InterpretedGenerator, InterpretedCoroutine):
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

    if type(receiver) is InterpretedGenerator or type(receiver) is InterpretedCoroutine:
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
    """Begins an `await`; the operand says whether `async with` does."""
    value = frame.stack[-1]
    if operand and not _can_be_awaited(value):
        method = "__aenter__" if operand == 1 else "__aexit__"
        kind = type(value).__name__
        raise TypeError(f"'async with' received an object from {method} that does not implement __await__: {kind}")
    awaitable: Any = _awaitable(interpreter, value)
    if type(awaitable) in (CoroutineType, InterpretedCoroutine) and awaitable.cr_await is not None:
        raise RuntimeError("coroutine is being awaited already")
    frame.stack[-1] = awaitable


def _is_coroutine(value: Any) -> bool:
    if type(value) in (CoroutineType, InterpretedCoroutine):
        return True
    return type(value) in (GeneratorType, InterpretedGenerator) and value.gi_code.co_flags & _ITERABLE_COROUTINE


def _can_be_awaited(value: object) -> bool:
    return _is_coroutine(value) or lookup(type(value), "__await__") is not MISSING


def _awaitable(interpreter: Interpreter, value: object) -> object:
    """The coroutine or iterator that `await` goes over. Errors: TypeError."""
    if _is_coroutine(value):
        return value
    kind = type(value)
    if lookup(kind, "__await__") is MISSING:
        raise TypeError(f"object {kind.__name__} can't be used in 'await' expression")
    iterator = interpreter.call(_bound(value, "__await__"), ())
    if _is_coroutine(iterator):
        raise TypeError("__await__() returned a coroutine")
    if not hasattr(type(iterator), "__next__"):
        raise TypeError(f"__await__() returned non-iterator of type '{type(iterator).__name__}'")
    return iterator


def _bound(owner: object, name: str) -> object:
    """A method that the protocol looks up on the class, bound."""
    method = lookup(type(owner), name)
    bind = getattr(type(method), "__get__", None)
    return method if bind is None else bind(method, owner, type(owner))


@operation("GET_AITER")
def get_aiter(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Begins an `async for`."""
    value = frame.stack[-1]
    if lookup(type(value), "__aiter__") is MISSING:
        raise TypeError(f"'async for' requires an object with __aiter__ method, got {type(value).__name__}")
    iterator = interpreter.call(_bound(value, "__aiter__"), ())
    if lookup(type(iterator), "__anext__") is MISSING:
        raise TypeError(
            "'async for' received an object from __aiter__ that does not implement __anext__: "
            + type(iterator).__name__
        )
    frame.stack[-1] = iterator


@operation("GET_ANEXT")
def get_anext(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes what is to be awaited for the next value of an `async for`."""
    value = frame.stack[-1]
    if lookup(type(value), "__anext__") is MISSING:
        raise TypeError(f"'async for' requires an iterator with __anext__ method, got {type(value).__name__}")
    following = interpreter.call(_bound(value, "__anext__"), ())
    if type(value) not in (AsyncGeneratorType, InterpretedAsyncGenerator):
        try:
            following = _awaitable(interpreter, following)
        except Exception as error:
            kind = type(following).__name__
            raise TypeError(f"'async for' received an invalid object from __anext__: {kind}") from error
    frame.stack.append(following)


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
    """Marks what an asynchronous generator gives who iterates over it."""
    frame.stack[-1] = Wrapped(frame.stack[-1])
