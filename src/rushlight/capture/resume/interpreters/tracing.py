"""The interpreter that traces: it runs frames as far as a graph goes, and writes down what it makes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Container, Iterable, Sequence
from dis import opname
from functools import partial
from operator import attrgetter
from types import CodeType, GeneratorType
from typing import Any, TypeGuard

from rushlight.capture.interpreter.frame import Frame, Suspended
from rushlight.capture.interpreter.generators import Resumable, native_ends_quietly
from rushlight.capture.resume import breaks
from rushlight.capture.resume.breaks import Break, Reason, Retrace
from rushlight.capture.resume.classes import detach
from rushlight.capture.resume.interpreters.promising import PromisingInterpreter
from rushlight.capture.resume.interpreters.timing import CALL_BACK
from rushlight.capture.resume.opaque import Opaque
from rushlight.capture.resume.reached import FixSizes, ReachedObjects, Reroot
from rushlight.capture.values import is_tuple
from rushlight.eager.dispatch import STATE, Scope, State
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import SymBool, SymFloat, SymInt
from rushlight.eager.tracing import TracedNumber
from rushlight.support.errors import (
    ArgumentError,
    DTypeError,
    IndexRangeError,
    MissingLibraryError,
    MissingNameError,
    RushlightError,
    ShapeError,
    before_warnings,
)


@before_warnings
def _break_before(message: str) -> None:
    if STATE.interpreter is not None:
        STATE.interpreter.warns(message)


def forget_frames(made: Iterable[tuple[object, int]]) -> None:
    """Has errors that a trace has made let go of its frames, which are a circle where C has raised them."""
    for value, _ in [*made]:  # more are made where a generator ends that one held
        if issubclass(type(value), BaseException) and isinstance(value, BaseException):
            value.__traceback__ = None


def is_within(frame: Frame) -> bool:
    """Whether a frame is that of a constructor, a generator or a class body, which no graph can leave."""
    return frame.then is not None or frame.generator is not None or frame.names is not None


class TracingInterpreter(PromisingInterpreter):
    """Interprets frames under a tracer. `limit` says how many instructions of the outermost loop it may carry out."""

    __slots__ = (
        "_death",
        "_ends",
        "_open",
        "_variables",
        "fruitful",
        "limit",
        "outside",
        "settings",
        "steady",
    )

    def __init__(self, limit: int | None, reached: ReachedObjects) -> None:
        super().__init__(reached)
        self.limit = limit
        self.settings = scopes_of_call()
        self._variables: dict[str, object] | None = None  # of this thread's scopes, where they last said so
        self.steady = 0
        self.outside = 0  # instructions before the last state that is in no constructor, generator or class body
        self._death: BaseException | None = None  # what the first end of a life raises that no graph can hold
        self.fruitful: set[CodeType] = set()  # of functions in whose calls there are operators
        self._open: list[tuple[CodeType, int]] = []  # the code of the frames, and how many operators were before each
        self._ends = True  # whether generators that die are ended

    def look_for_deaths(self) -> None:
        """Say that a life has ended in the instruction, if one has."""
        if self._deaths and self._death is None:
            self._death = Retrace(self.count, _DIES)

    def raise_death(self) -> None:
        """Says that a life has ended whose end no graph can hold, if one has. Errors: Retrace, or of whole traces."""
        death, self._death = self._death, None
        try:
            if death is not None:
                raise death
        finally:
            del death  # this frame is in its traceback

    def trace(self, frames: list[Frame]) -> bool:
        """Runs frames until they return (True) or the graph ends. Errors: Retrace."""
        self.frames = frames
        self.base = 0
        try:
            with Scope(interpreter=self):
                self._follow(frames)
                returned = self.in_loop(partial(self._trace, frames))
                self._follow(())
                return returned
        finally:
            self.escaped = None  # in whose traceback this call is
            self._variables = None  # which this interpreter is one of
            self.look_for_deaths()

    def leave_generators(self, kept: Container[int]) -> None:
        """Puts an end to generators that have not ended: those that are `kept`, by identity, are built again.

        Errors: Retrace where one is not kept, and does something at its end.
        """
        unfinished = self.close_generators(kept)
        if unfinished:
            raise Retrace(min(unfinished), Reason(breaks.SUSPENDED, "a generator is left before its end"))

    def close_generators(self, kept: Container[int] = frozenset()) -> list[int]:
        """Ends generators, and returns which instructions made those that would do something at their ends."""
        self._ends = False
        unfinished: list[int] = []
        alive = [(held() if type(held) is weakref.ref else held, at) for held, at in self.made.values()]
        for made, at in reversed(alive):
            if issubclass(type(made), Resumable) and isinstance(made, Resumable):
                quiet = id(made) in kept or made.ends_quietly()
                unfinished += [] if quiet else [at]
                made.discard()  # its `finally` blocks are run by the generator that takes its place
            elif type(made) is GeneratorType:
                unfinished += [] if native_ends_quietly(made) else [at]
                made.close()  # now, while what it set in scopes belongs to the trace
        return unfinished

    def dies(self, generator: Suspended) -> None:
        """Ends a generator that nobody holds any more. Where its end cannot be traced the graph has to end before."""
        self.made.pop(id(generator), None)
        if not self._ends or self._death is not None or generator.ends_quietly():
            generator.discard()
            return
        self._death, escaped = Retrace(self.count, _DIES), self.escaped  # unless its end can be traced
        if generator.is_begun:
            try:
                super().dies(generator)
            except BaseException as error:  # noqa: BLE001 - of the trace, or one that Python tells of and drops
                self._death = self._end_by(error)
            else:
                self._death = None
        self.escaped = escaped
        generator.discard()

    def _end_by(self, error: BaseException) -> BaseException:
        """What the trace raises where the end of a generator has raised an error."""
        if isinstance(error, Break):
            return Retrace(self.count, error.reason)
        return Retrace(self.count, Reason.of(error) if _is_of_tracing(error) else _DIES)

    def forget_classes(self) -> None:
        """Has bases that were there before forget the classes that the trace has made of them."""
        self.reached.walk.assumed.settle(self.made)
        for made, _ in self.made.values():
            if issubclass(type(made), type) and isinstance(made, type):
                detach(made, self.made)

    def _trace(self, frames: list[Frame]) -> bool:
        depth, is_outside = len(frames), True
        while frames:
            if self.count == self.limit or self.reason is not None:
                return False
            STATE.tracer.moment = self.count
            frame = frames[-1]
            at = frame.position
            stack = frame.stack[:]
            self.used = self.promised = False
            frame.position = at + 1
            try:
                self.operations_of(frame.body)[at](self, frame, frame.body.operands[at])
            except Break as found:
                self._end(frame, at, stack, found.reason)
                return False
            except BaseException as error:
                if isinstance(error, _AGAIN) or self.is_interrupt(error, frame):
                    self.note_long(error, frame, at)
                    raise
                of_call = is_of_call(self, error)
                if _is_of_tracing(error) and not of_call:
                    self._end(frame, at, stack, Reason.of(error))
                    return False
                note_error(self, error, frame)
                if not self._is_handled() or (not of_call and is_native(frame) and any(map(_stands_in, stack))):
                    self.used |= is_native(frame)  # C may have done a part of what it was to do
                    self._end(frame, at, stack, Reason(breaks.RAISED, f"{type(error).__name__} leaves the function"))
                    return False
                self._unwind(error)
            else:
                if frame.position <= at:
                    self.turned(frame)
            del stack, frame  # what dies in an instruction does so before the next one
            if self._deaths:
                self.look_for_deaths()
            if self.looks.stirred:
                kind = breaks.LARGE if self.looks.stirred in self.looks.large else breaks.RESTLESS
                raise Retrace(self.count, Reason(kind, self.looks.stirred))
            self.count += 1
            if len(frames) != depth:
                self._follow(frames)
                self.switched(depth)
                depth, is_outside = len(frames), not any(map(self._is_within, frames))
            if is_outside:
                self.outside = self.count
            if self._is_steady():
                self.steady = self.count
        return True

    def _follow(self, frames: Sequence[Frame]) -> None:
        """Is told of frames that have begun or ended, and writes down in which there were operators."""
        count = len(STATE.tracer.builder.calls)
        for code, before in self._open[len(frames) :]:
            if count > before:
                self.fruitful.add(code)
        del self._open[len(frames) :]
        self._open += [(frame.body.raw, count) for frame in frames[len(self._open) :]]

    def _is_within(self, frame: Frame) -> bool:
        """Whether no graph can leave a frame: it is of a constructor, or its global variables are of the trace."""
        return is_within(frame) or id(frame.globals) in self.made

    def _end(self, frame: Frame, at: int, stack: list[object], reason: Reason) -> None:
        """Ends the graph before an instruction; by another trace where the instruction has done something."""
        if self.used or not self.frames or self.frames[-1] is not frame:
            raise Retrace(self.count, reason) from None
        frame.position = at
        frame.stack[:] = stack
        self.reason = reason

    def _is_steady(self) -> bool:
        """Whether the graph could end here: no scope is open that outlives it, and no exception is being handled."""
        if self.handled.error is not None or not self._has_settings():
            return False
        return not (
            self.frames and self.frames[-1].stack and issubclass(type(self.frames[-1].stack[-1]), BaseException)
        )

    def _has_settings(self) -> bool:
        """Whether scopes say what they said where the trace began."""
        variables = vars(STATE)
        if variables == self._variables:  # a third of the time that all fields take
            return True
        if scopes_of_call() != self.settings:
            return False
        self._variables = dict(variables)
        return True

    def unsteady_reason(self) -> Reason:
        """Why the graph ends earlier than it could: it cannot end as settings or exceptions now are."""
        if scopes_of_call() != self.settings:
            return Reason(breaks.SCOPE, "a setting of autograd or dispatch changes")
        return self.reason or Reason(breaks.RAISED, "an exception is being handled")

    def _is_handled(self) -> bool:
        return any(frame.body.code.handlers[frame.position - 1] is not None for frame in self.frames)

    def call(self, function: object, args: tuple[object, ...], kwargs: dict[str, object] | None = None) -> object:
        """What a call gives, by a loop of its own, in which C calls nothing."""
        covered = self.stubs.lift(), self.asking
        try:
            return super().call(function, args, kwargs)
        finally:
            self._cover(*covered)

    def _run_frames(self, depth: int) -> None:
        self.used = True
        self.spends(CALL_BACK)
        covered = self.stubs.lift(), self.asking
        try:
            super()._run_frames(depth)
        finally:
            self._cover(*covered)

    def _cover(self, lifted: list[type], asking: frozenset[str]) -> None:
        """Puts stubs back that were away while something else ran than the instruction that calls them."""
        self.asking = asking
        for cls in lifted:
            self.stubs.cover(cls, self)

    def is_interrupt(self, error: BaseException, frame: Frame) -> bool:
        """Whether an error came from outside, and not from the program's own `raise`.

        One that has `escaped` from interpreted frames has been raised there, and C has handed it on.
        """
        name = frame.body.code.instructions[max(frame.position - 1, 0)].name
        raised = error is self.escaped or name in _RAISING
        return isinstance(error, KeyboardInterrupt) and not (raised or _is_raised(error))

    def _raised(self, error: BaseException, frame: Frame) -> None:
        try:
            of_tracing = _is_of_tracing(error) and not is_of_call(self, error)
            if of_tracing or isinstance(error, (Break, *_AGAIN)) or self.is_interrupt(error, frame):
                raise error
            note_error(self, error, frame)
            super()._raised(error, frame)
        finally:
            del error  # this frame is in its traceback


_DIES = Reason(breaks.FINALIZER, "an object dies that does something at the end of its life")
_fields = attrgetter(*[name for name in State.__annotations__ if name != "interpreter"])  # of a thread's scopes
_AGAIN = (Retrace, Reroot, FixSizes)
_RAISING = ("RAISE_VARARGS", "RERAISE")
# Errors that eager code raises too, of the same sizes.
OF_OPERATORS = (ShapeError, DTypeError, IndexRangeError, ArgumentError)
OF_NAMES = (MissingNameError, MissingLibraryError)  # errors of modules, which are those of the call
_STAND_INS = (Opaque, TracedNumber, SymInt, SymFloat, SymBool)


def scopes_of_call() -> tuple[object, ...]:
    """What scopes say that outlive a trace where it ends inside of them."""
    return _fields(STATE)


def is_of_call(interpreter: TracingInterpreter, error: BaseException) -> bool:
    """Whether an error of an operator is handled, and is that of the call. Errors: FixSizes, to know all sizes."""
    if not isinstance(error, OF_OPERATORS) or not interpreter._is_handled():
        return False
    if interpreter.reached.may_fix:
        raise FixSizes from None
    return not STATE.tracer.scope.symbols


def note_error(interpreter: TracingInterpreter, error: BaseException, frame: Frame) -> None:
    """Writes down a handled error that C has made, or an operator."""
    made = is_native(frame) and error is not interpreter.escaped
    if (made or isinstance(error, OF_OPERATORS)) and interpreter._is_handled():
        interpreter.note(error)


def is_native(frame: Frame) -> bool:
    """Whether the instruction that failed is none that raises what the program has made."""
    name = frame.body.code.instructions[max(frame.position - 1, 0)].name
    return name not in _RAISING


def _is_raised(error: BaseException) -> bool:
    """Whether a function that C has called raises an interrupt by a statement: handlers of signals run behind a trace.

    Where functions of the program's trace others it is not known.
    """
    link = error.__traceback__
    if link is None or sys.gettrace() is not None or sys.getprofile() is not None:
        return False
    while link.tb_next is not None:
        link = link.tb_next
    return opname[link.tb_frame.f_code.co_code[link.tb_lasti]] in _RAISING


def _stands_in(value: Any) -> bool:
    """Whether a value stands for another one: an operation may fail at it that does not fail at the other."""
    kind = type(value)
    if is_tuple(value):
        return any(map(_stands_in, value))
    return kind in _STAND_INS or (issubclass(kind, Handle) and value.backing is None)


def _is_of_tracing(error: BaseException) -> TypeGuard[Exception]:
    """Whether an error may say something of tensors without data: Python raises the one that the program gets.

    That a name is missing says nothing of them: `try` and `hasattr` go on with it.
    """
    return isinstance(error, RushlightError) and not isinstance(error, OF_NAMES)
