"""Coroutines and asynchronous generators of interpreted functions."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from types import AsyncGeneratorType, CodeType, CoroutineType
from typing import Any, NoReturn, SupportsIndex

from rushlight.capture.interpreter.frame import Evaluator, Frame, FrameView
from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.interpreter.tracebacks import outer_frame

_WARNINGS: Any = warnings  # what it does with a coroutine that nobody awaited has no stub


class InterpretedCoroutine(Resumable):
    """A coroutine whose frame is interpreted. For programs it is one of CPython's, also in the text of errors."""

    __slots__ = ("cr_origin",)
    KIND = "coroutine"

    def __init__(self, interpreter: Evaluator, frame: Frame) -> None:
        super().__init__(interpreter, frame)
        depth = sys.get_coroutine_origin_tracking_depth()
        self.cr_origin = tuple(itertools.islice(_callers(interpreter.frames[:-1]), depth)) if depth else None

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] - what `isinstance` sees
        return CoroutineType

    def __await__(self) -> Awaited:
        return Awaited(self)

    @property
    def cr_code(self) -> CodeType:
        """The code object."""
        return self._code

    @property
    def cr_frame(self) -> FrameView | None:
        """The frame, None when it has ended."""
        return self._view()

    @property
    def cr_running(self) -> bool:
        """Whether it runs."""
        return self._running

    @property
    def cr_suspended(self) -> bool:
        """Whether it waits at an `await`."""
        return self._is_suspended()

    @property
    def cr_await(self) -> object:
        """What it awaits."""
        return self.delegate()

    def ends_quietly(self) -> bool:
        """Whether closing it runs nothing: of one that has not begun there is a warning."""
        return (self._frame is None or self._started) and super().ends_quietly()

    def ended_again(self) -> None:
        """Is told that it is asked for a value after its end. Errors: RuntimeError."""
        raise RuntimeError("cannot reuse already awaited coroutine")

    def note_cleared(self) -> None:
        """Has the program warned, as Python does, where nobody has awaited it."""
        if self._frame is not None and not self._started:
            self._interpreter.native(_WARNINGS._warn_unawaited_coroutine, (self,), {})

    def note_death(self) -> None:
        """Warn, as Python does, of one that nobody has awaited."""
        if self._frame is not None and not self._started:
            _WARNINGS._warn_unawaited_coroutine(self)


def _callers(frames: list[Frame]) -> Iterator[tuple[str, int, str]]:
    """File, line and name of functions that wait for an inner one: interpreted ones, then those around them."""
    for frame in reversed(frames):
        yield frame.place()
    outer = outer_frame()
    while outer is not None:
        yield outer.f_code.co_filename, outer.f_lineno, outer.f_code.co_name
        outer = outer.f_back


class Awaited:
    """What goes over a coroutine for an object of C that awaits it."""

    __slots__ = ("_coroutine", "close", "send", "throw")

    def __init__(self, coroutine: InterpretedCoroutine) -> None:
        self._coroutine = coroutine
        self.send, self.throw, self.close = coroutine.send, coroutine.throw, coroutine.close

    def __iter__(self) -> Awaited:
        return self

    def __next__(self) -> object:
        return self._coroutine.send(None)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("cannot pickle 'coroutine_wrapper' object")


class Wrapped:
    """What an asynchronous generator gives who iterates over it; other values are of who drives all."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class InterpretedAsyncGenerator(Resumable):
    """An asynchronous generator whose frame is interpreted."""

    __slots__ = ("_closed", "_hooked", "steps")
    KIND = "async generator"
    STOPS = (StopIteration, StopAsyncIteration)

    def __init__(self, interpreter: Evaluator, frame: Frame) -> None:
        super().__init__(interpreter, frame)
        self._closed = self._hooked = False
        self.steps = False  # whether one of its steps has begun and not ended

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] - what `isinstance` sees
        return AsyncGeneratorType

    def __aiter__(self) -> InterpretedAsyncGenerator:
        return self

    def __anext__(self) -> AsyncStep:
        return self._step("__anext__()", None, None)

    def asend(self, value: object, /) -> AsyncStep:
        """What gives the next value when it is awaited."""
        return self._step("__anext__()/asend()", value, None)

    def athrow(self, *given: object) -> AsyncStep:
        """What raises an error where it waits when it is awaited."""
        return self._step("aclose()/athrow()", None, given)

    def aclose(self) -> AsyncStep:
        """What ends it when it is awaited."""
        return self._step("aclose()/athrow()", None, ())

    def _step(self, name: str, value: object, thrown: tuple[object, ...] | None) -> AsyncStep:
        self._interpreter = self._interpreter.for_generator()
        first = sys.get_asyncgen_hooks().firstiter
        if not self._hooked and first is not None:
            self._interpreter.call(first, (self,))
        self._hooked = True
        return AsyncStep(self, self._interpreter, name, value, thrown)

    @property
    def ag_code(self) -> CodeType:
        """The code object."""
        return self._code

    @property
    def ag_frame(self) -> FrameView | None:
        """The frame, None when it has ended."""
        return self._view()

    @property
    def ag_running(self) -> bool:
        """Whether one of its steps is awaited."""
        return self.steps

    @property
    def ag_await(self) -> object:
        """What it awaits."""
        return self.delegate()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or ended by an error that was raised in it."""
        return self._closed

    def close_for_good(self) -> None:
        """Has later steps end at once."""
        self._closed = True


class AsyncStep:
    """A step of an asynchronous generator, as who awaits it drives it. No `thrown` error: it is closed."""

    __slots__ = ("_begun", "_ended", "_generator", "_interpreter", "_name", "_thrown", "_value")

    def __init__(
        self,
        generator: InterpretedAsyncGenerator,
        interpreter: Evaluator,
        name: str,
        value: object,
        thrown: tuple[object, ...] | None,
    ) -> None:
        self._generator = generator
        self._interpreter = interpreter
        self._name = name
        self._value = value
        self._thrown = thrown
        self._begun = self._ended = False

    def __await__(self) -> AsyncStep:
        return self

    def __iter__(self) -> AsyncStep:
        return self

    def __next__(self) -> object:
        return self.send(None)

    def send(self, value: object, /) -> object:
        """What the generator awaits. Errors: StopIteration with what it gives; what it raises."""
        if self._ended:
            raise RuntimeError(f"cannot reuse already awaited {self._name}")
        thrown = None if self._begun else self._thrown
        if not self._begun:
            value = self._begin(value)
        if thrown == ():
            thrown = (GeneratorExit,)
        return self._result(value, thrown)

    def throw(self, *given: object) -> object:
        """Raises an error where the generator waits."""
        if self._ended:
            raise RuntimeError(f"cannot reuse already awaited {self._name}")
        self._begun = True
        return self._result(None, given)

    def close(self) -> None:
        """Takes the step for ended."""
        self._ended = True

    def _begin(self, value: object) -> object:
        """The first value that is sent. Errors: where the step cannot be taken."""
        generator = self._generator
        if generator.steps:
            self._ended = True
            name = {"__anext__()": "anext()", "__anext__()/asend()": "asend()"}.get(self._name)
            name = ("athrow()" if self._thrown else "aclose()") if name is None else name
            raise RuntimeError(f"{name.removesuffix('()')}(): asynchronous generator is already running")
        if self._thrown is not None:
            if generator.has_ended:
                self._ended = True
                raise StopIteration
            if value is not None:
                raise RuntimeError("can't send non-None value to a just-started coroutine")
            if generator.is_closed and self._thrown:
                self._ended = True
                raise StopAsyncIteration
            if not self._thrown:
                generator.close_for_good()
        elif value is None:
            value = self._value
        self._begun = generator.steps = True
        return value

    def _result(self, value: object, thrown: tuple[object, ...] | None) -> object:
        outcome: list[object] = []

        def consume(result: object, finished: bool) -> None:
            outcome[:] = result, finished

        closes = self._thrown == ()
        try:
            self._interpreter.resume(self._generator, value, thrown, consume)
        except (StopAsyncIteration, GeneratorExit):
            self._end()
            if closes:
                self._generator.close_for_good()
                raise StopIteration from None
            raise
        except BaseException:
            self._end()
            raise
        result, finished = outcome
        if finished:
            self._end()
            self._generator.close_for_good()
            if closes:
                raise StopIteration
            raise StopAsyncIteration
        if type(result) is not Wrapped:
            return result
        self._end()
        if closes:
            raise RuntimeError("async generator ignored GeneratorExit")
        raise StopIteration(result.value)

    def _end(self) -> None:
        self._ended = True
        self._generator.steps = False


for _made, _name in ((InterpretedCoroutine, "coroutine"), (InterpretedAsyncGenerator, "async_generator")):
    _made.__name__ = _made.__qualname__ = _name
    _made.__module__ = "builtins"
Awaited.__name__ = Awaited.__qualname__ = "coroutine_wrapper"
Awaited.__module__ = "builtins"
