"""Generators of interpreted functions, and what coroutines share with them: frames that are put aside."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import CodeType, GeneratorType
from typing import Any, NoReturn, SupportsIndex
from weakref import ref

from rushlight.capture.code.instructions import Code
from rushlight.capture.interpreter.frame import Consume, Evaluator, Frame, FrameView, Handled, body_of

_RAISING_AGAIN = ("RERAISE", "CLEANUP_THROW")  # the latter around a `yield from`, from 3.12 on
_PASSING = frozenset({"PUSH_EXC_INFO", "CHECK_EXC_MATCH", "BUILD_TUPLE", "COPY", "POP_EXCEPT", "CACHE", "NOP"})
_DELEGATES = (2, 3)  # operands of RESUME behind a `yield from` and an `await`


_STATE = ("_code", "_consume", "_frame", "_handled", "_interpreter", "_running", "_started")


class Resumable:
    """A function whose frame is interpreted, and put aside between its values. `KIND` is what errors call it."""

    __slots__ = ("__name__", "__qualname__", "__weakref__", *_STATE)
    KIND = "generator"
    STOPS: tuple[type[Exception], ...] = (StopIteration,)  # errors that are its end for who asks it for values

    def __init__(self, interpreter: Evaluator, frame: Frame) -> None:
        self.run_by(interpreter)
        self._frame: Frame | None = frame
        self._handled = Handled()
        self._started = False
        self._running = False
        self._code = frame.body.raw
        self.__name__, self.__qualname__ = frame.named
        self._consume: Consume | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object {self.__qualname__} at {id(self):#x}>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def send(self, value: object, /) -> object:
        """The next value. Errors: StopIteration at the end; TypeError for a value before the first one."""
        if value is not None and not self._started:
            raise TypeError(f"can't send non-None value to a just-started {self.KIND}")
        return self._advanced(value, None)

    def throw(self, *given: object) -> object:
        """Raises an error where it waits; the value that it yields next."""
        _thrown(*given)
        return self._advanced(None, given)

    def close(self) -> None:
        """Ends it by GeneratorExit. Errors: RuntimeError where it yields instead."""
        if self._frame is None or not self._started:
            self._frame = None
            return
        try:
            self._advanced(None, (GeneratorExit,))
        except (GeneratorExit, StopIteration):
            return
        raise RuntimeError(f"{self.KIND} ignored GeneratorExit")

    def _view(self) -> FrameView | None:
        """The frame, None when it has ended."""
        frame, contents = self._frame, self._interpreter.contents
        if frame is None:
            return None
        if self._running:
            return FrameView([frame], contents)
        return FrameView([frame], contents, clear=partial(_closed, ref(self)))

    def _is_suspended(self) -> bool:
        return self._frame is not None and self._started and not self._running

    def ended_again(self) -> None:
        """Is told that it is asked for a value after its end. A generator says that it has ended."""

    @property
    def frame(self) -> Frame | None:
        """Its interpreted frame; None of one that has ended, runs, or handles an exception."""
        return None if self._running or self._handled.error is not None else self._frame

    @property
    def is_begun(self) -> bool:
        """Whether its body has begun to run."""
        return self._started

    @property
    def has_ended(self) -> bool:
        """Whether its body runs no more."""
        return self._frame is None

    @property
    def code(self) -> CodeType:
        """Its code object."""
        return self._code

    def run_by(self, interpreter: Evaluator) -> None:
        """Has an interpreter run it from now on."""
        self._interpreter = interpreter
        interpreter.suspends = True

    @classmethod
    def ended(cls, interpreter: Evaluator, code: CodeType, names: tuple[str, str]) -> Resumable:
        """One that has ended."""
        made = cls.__new__(cls)
        made._interpreter = interpreter
        made._frame = made._consume = None
        made._handled, made._started, made._running, made._code = Handled(), True, False, code
        made.__name__, made.__qualname__ = names
        return made

    @classmethod
    def resumed(cls, interpreter: Evaluator, frame: Frame, names: tuple[str, str], begun: bool) -> Resumable:
        """One that goes on where a frame is."""
        made = cls(interpreter, frame)
        made.__name__, made.__qualname__ = names
        made._started = begun
        return made

    def ends_quietly(self) -> bool:
        """Whether closing it runs nothing: no handler is around the place where it waits, or none that is for that."""
        frame = self._frame
        if frame is None or not self._started:
            return True
        scopes = frame.globals, frame.builtins
        return _delegate_ends_quietly(self.delegate()) and _passes_on(frame.body.code, frame.position - 1, scopes)

    def discard(self) -> None:
        """Ends the generator without a word to its frame."""
        self._frame = None

    def note_cleared(self) -> None:
        """Is told that the program clears its frame, before it is closed."""

    def note_death(self) -> None:
        """Is told that nobody holds it any more, before it is closed."""

    def __del__(self) -> None:
        self._interpreter.dies(self)

    def _advanced(self, value: object, thrown: tuple[object, ...] | None) -> object:
        outcome: list[object] = []

        def consume(result: object, finished: bool) -> None:
            outcome[:] = result, finished

        self._interpreter = self._interpreter.for_generator()
        self._interpreter.resume(self, value, thrown, consume)
        result, finished = outcome
        if finished:
            raise StopIteration(result) if result is not None else StopIteration
        return self._interpreter.hands(result)

    def resume(self, interpreter: Evaluator, value: object, consume: Consume) -> bool:
        """Puts the frame on top again, to go on with a value; at the end `consume` is told at once."""
        if self._entered(interpreter, consume):
            assert self._frame is not None
            self._frame.stack.append(value)
            return True
        self.ended_again()
        consume(None, True)
        return False

    def raise_in(self, interpreter: Evaluator, thrown: tuple[object, ...], consume: Consume) -> None:
        """Puts the frame on top again and raises an error in it. One that it delegates to gets the error first."""
        delegate, frame = self.delegate(), self._frame
        error: BaseException | None = None
        if delegate is not None and frame is not None:
            interpreter.push(frame)
            self._running = True
            stop: StopIteration | None = None
            try:
                passed_on = _thrown_further(delegate, thrown)
            except StopIteration as stopped:
                stop = stopped
            except BaseException as raised:  # noqa: BLE001 - the user's, which goes to the frame
                error = raised
            else:
                if passed_on is not _REFUSED:
                    consume(passed_on, False)
                    return
            finally:
                self._running = False
                interpreter.frames.pop()
            if stop is not None:
                self._leave_delegate(frame, stop.value, interpreter, consume)
                return
        error = _thrown(*thrown) if error is None else error
        if self._entered(interpreter, consume):
            interpreter.has_context = True
            if error.__context__ is None and self._handled.error not in (None, error):
                error.__context__ = self._handled.error
        else:
            self.ended_again()
        raise error

    def _leave_delegate(self, frame: Frame, value: object, interpreter: Evaluator, consume: Consume) -> None:
        """Goes on behind a `yield from` whose iterator has returned a value."""
        send = frame.body.operands[frame.position + 1]  # the jump behind RESUME leads back to it
        frame.stack.pop()
        self._entered(interpreter, consume)
        frame.position = frame.body.operands[send]
        if frame.body.code.instructions[frame.position].name == "END_SEND":
            frame.stack.append(None)  # the receiver, which END_SEND takes away
        frame.stack.append(value)

    def delegate(self) -> object:
        """The iterator that a suspended frame delegates to; None if it does not."""
        frame = self._frame
        if frame is None or not self._started or self._running:
            return None
        following = frame.body.code.instructions[frame.position]
        delegates = following.name == "RESUME" and int(str(following.operand)) & 3 in _DELEGATES
        return frame.stack[-1] if delegates else None

    def _entered(self, interpreter: Evaluator, consume: Consume) -> bool:
        """Puts the frame on top; False if it has ended. Errors: ValueError if it runs already."""
        if self._running:
            raise ValueError(f"{self.KIND} already executing")
        if self._frame is None:
            return False
        interpreter.push(self._frame)
        self._running = self._started = True
        self._frame.generator = self
        self._consume = consume
        self._handled.outer = interpreter.handled
        interpreter.handled = self._handled
        return True

    def _left(self, interpreter: Evaluator) -> Consume:
        interpreter.frames.pop().generator = None
        interpreter.handled = self._handled.outer or interpreter.handled
        self._handled.outer = None
        self._running = False
        consume, self._consume = self._consume, None
        assert consume is not None
        return consume

    def yielded(self, interpreter: Evaluator, value: object) -> bool:
        """Puts the frame aside and hands on what it yields."""
        self._left(interpreter)(value, False)
        return True

    def returned(self, interpreter: Evaluator, value: object) -> bool:
        """Ends the frame and hands on what it returns."""
        consume = self._left(interpreter)
        self._frame = None
        consume(value, True)
        return True

    def failed(self, interpreter: Evaluator, error: BaseException) -> BaseException:
        """Ends the frame, which is not on top any more, by an error; the error that who resumed it gets."""
        interpreter.handled = self._handled.outer or interpreter.handled
        self._handled.outer = None
        self._running = False
        self._frame = self._consume = None
        stops = next((stop for stop in self.STOPS if isinstance(error, stop)), None)
        if stops is None:
            return error
        instead = RuntimeError(f"{self.KIND} raised {stops.__name__}")
        instead.__cause__ = instead.__context__ = error
        return instead


def _closed(suspended: ref[Resumable]) -> None:
    """Closes what a frame belongs to, if that lives: a frame does not keep it alive."""
    owner = suspended()
    if owner is not None:
        owner.note_cleared()
        owner.close()


def _step(consume: Consume, advance: Callable[..., object], *args: object) -> None:
    """Advances a generator of CPython's, and hands on what it yields or returns."""
    try:
        made, finished = advance(*args), False
    except StopIteration as stop:
        made, finished = stop.value, True
    consume(made, finished)


class InterpretedGenerator(Resumable):
    """A generator whose frame is interpreted. For programs it is one of CPython's, also in the text of errors.

    Where C drives it for long one of CPython's own goes on `instead`.
    """

    __slots__ = ("_instead",)

    def __init__(self, interpreter: Evaluator, frame: Frame) -> None:
        super().__init__(interpreter, frame)
        self._instead: Any = None

    @classmethod
    def ended(cls, interpreter: Evaluator, code: CodeType, names: tuple[str, str]) -> Resumable:
        """One that has ended."""
        made: Any = super().ended(interpreter, code, names)
        made._instead = None
        return made

    @property
    def instead(self) -> Any:
        """The generator of CPython's that goes on in its place; None if it is interpreted."""
        return self._instead

    @property
    def has_ended(self) -> bool:
        """Whether its body runs no more."""
        return self._frame is None and (self._instead is None or self._instead.gi_frame is None)

    def close(self) -> None:
        """Ends it by GeneratorExit. Errors: RuntimeError where it yields instead."""
        if self._instead is None:
            super().close()
        else:
            self._instead.close()

    def discard(self) -> None:
        """Ends the generator without a word to its frame, or lets go of the one that goes on instead."""
        super().discard()
        self._instead = None

    def delegate(self) -> object:
        """The iterator that a suspended frame delegates to; None if it does not."""
        return super().delegate() if self._instead is None else self._instead.gi_yieldfrom

    def _view(self) -> Any:
        return super()._view() if self._instead is None else self._instead.gi_frame

    def _is_suspended(self) -> bool:
        return super()._is_suspended() if self._instead is None else self._instead.gi_suspended

    def _advanced(self, value: object, thrown: tuple[object, ...] | None) -> object:
        if self._instead is None and self._interpreter.hands_over:
            self._instead = self._interpreter.of_python(self)
            self._started |= self._instead is not None
        if self._instead is None:
            return super()._advanced(value, thrown)
        return self._instead.send(value) if thrown is None else self._instead.throw(*thrown)

    def resume(self, interpreter: Evaluator, value: object, consume: Consume) -> bool:
        """Puts the frame on top again, to go on with a value; at the end `consume` is told at once."""
        if self._instead is None:
            return super().resume(interpreter, value, consume)
        _step(consume, self._instead.send, value)
        return False

    def raise_in(self, interpreter: Evaluator, thrown: tuple[object, ...], consume: Consume) -> None:
        """Puts the frame on top again and raises an error in it. One that it delegates to gets the error first."""
        if self._instead is None:
            super().raise_in(interpreter, thrown, consume)
        else:
            _step(consume, self._instead.throw, *thrown)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] - what `isinstance` sees
        return GeneratorType

    def __iter__(self) -> InterpretedGenerator:
        return self

    def __next__(self) -> object:
        return self.send(None)

    def __delattr__(self, name: str) -> None:
        if name in ("__name__", "__qualname__"):
            raise TypeError(f"{name} must be set to a string object")
        super().__delattr__(name)

    @property
    def gi_code(self) -> CodeType:
        """The code object."""
        return self._code

    @property
    def gi_frame(self) -> FrameView | None:
        """The frame, None when it has ended."""
        return self._view()

    @property
    def gi_running(self) -> bool:
        """Whether it runs."""
        return self._running

    @property
    def gi_suspended(self) -> bool:
        """Whether it waits at a `yield`."""
        return self._is_suspended()

    @property
    def gi_yieldfrom(self) -> object:
        """The iterator that it delegates to."""
        return self.delegate()


InterpretedGenerator.__name__ = InterpretedGenerator.__qualname__ = "generator"
InterpretedGenerator.__module__ = "builtins"
_REFUSED = object()


def _thrown_further(delegate: object, thrown: tuple[object, ...]) -> object:
    """What the delegate yields when an error is raised in it; _REFUSED where it cannot take one."""
    error = thrown[0]
    if isinstance(error, GeneratorExit) or (isinstance(error, type) and issubclass(error, GeneratorExit)):
        close = getattr(delegate, "close", None)
        if close is not None:
            close()
        return _REFUSED
    throw = getattr(delegate, "throw", None)
    return _REFUSED if throw is None else throw(*thrown)


def _thrown(error: object, value: object = None, traceback: Any = None, /) -> BaseException:
    """The exception that `throw` is given, in its old form of three values too."""
    if isinstance(error, BaseException):
        if value is not None:
            raise TypeError("instance exception may not have a separate value")
        made = error
    elif isinstance(error, type) and issubclass(error, BaseException):
        made = value if isinstance(value, error) else error() if value is None else error(value)
    else:
        raise TypeError(
            f"exceptions must be classes or instances deriving from BaseException, not {type(error).__name__}"
        )
    return made if traceback is None else made.with_traceback(traceback)


def native_ends_quietly(generator: GeneratorType[Any, Any, Any]) -> bool:
    """The same of a generator of CPython's."""
    frame = generator.gi_frame
    if frame is None or inspect.getgeneratorstate(generator) != inspect.GEN_SUSPENDED:
        return True
    code = body_of(generator.gi_code).code
    at = next(at for at, instruction in enumerate(code.instructions) if instruction.offset == frame.f_lasti)
    scopes = frame.f_globals, frame.f_builtins
    return _delegate_ends_quietly(generator.gi_yieldfrom) and _passes_on(code, at, scopes)


def _delegate_ends_quietly(delegate: object) -> bool:
    kind = type(delegate)
    if issubclass(kind, Resumable) and isinstance(delegate, Resumable):
        return delegate.ends_quietly()
    if kind is GeneratorType and isinstance(delegate, GeneratorType):
        return native_ends_quietly(delegate)
    return delegate is None or not hasattr(kind, "close")


def _passes_on(code: Code, at: int, scopes: tuple[dict[str, Any], dict[str, Any]]) -> bool:
    """Whether handlers around an instruction catch errors alone, of which the end of a generator is none."""
    handler = code.handlers[at]
    while handler is not None:
        at = handler.target
        while code.instructions[at].name not in _RAISING_AGAIN:
            name, operand = code.instructions[at].name, code.instructions[at].operand
            if name == "CALL_INTRINSIC_1":  # of the whole body, from 3.12 on
                return True
            if name == "POP_JUMP_IF_FALSE" and isinstance(operand, int):
                at = operand
            elif name == "LOAD_GLOBAL" and isinstance(operand, tuple):
                cls = scopes[0].get(operand[0], scopes[1].get(operand[0]))
                if not (isinstance(cls, type) and issubclass(cls, Exception)):
                    return False
                at += 1
            elif name in _PASSING:
                at += 1
            else:
                return False
        handler = code.handlers[at]
    return True
