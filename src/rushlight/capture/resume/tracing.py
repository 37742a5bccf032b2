"""The interpreter that traces: it runs frames as far as a graph goes, and writes down what it makes."""

from __future__ import annotations

import sys

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.generators import InterpretedGenerator
from rushlight.capture.resume.breaks import Break, Retrace
from rushlight.capture.resume.cautious import CautiousInterpreter, is_mutable
from rushlight.eager.dispatch import STATE
from rushlight.support import provenance
from rushlight.support.errors import CompileError, DataDependentError, NotSupportedError

_CREATING = frozenset(
    {"BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_SLICE", "MAKE_FUNCTION", "GET_ITER"}
    | {"SET_FUNCTION_ATTRIBUTE"}
)


class TracingInterpreter(CautiousInterpreter):
    """Interprets frames under a tracer. `limit` says how many instructions of the outermost loop it may carry out."""

    __slots__ = ("limit", "reason", "settings", "steady")

    def __init__(self, limit: int | None, given: set[int]) -> None:
        super().__init__(given)
        self.limit = limit
        self.reason = ""
        self.settings = _settings()
        self.steady = 0

    def trace(self, frames: list[Frame]) -> bool:
        """Runs frames until they return (True) or the graph ends. Errors: Retrace."""
        self.frames = frames
        self.base = 0
        loops = provenance.loops()
        loops.append((frames, 0))
        try:
            return self._trace(frames)
        finally:
            loops.pop()
            generators = [(made, at) for made, at in self.made.values() if type(made) is InterpretedGenerator]
            unfinished = [at for made, at in generators if made.gi_suspended]
            for made, _ in generators:
                made.discard()  # its `finally` blocks are run by the generator that takes its place
            if unfinished:
                raise Retrace(min(unfinished), "a generator is left before its end")

    def _trace(self, frames: list[Frame]) -> bool:
        while frames:
            if self.count == self.limit:
                return False
            frame = frames[-1]
            at = frame.position
            stack = frame.stack[:]
            self.used = False
            frame.position = at + 1
            try:
                frame.body.operations[at](self, frame, frame.body.operands[at])
                self._note_made(frame, at)
            except Break as found:
                self._end(frame, at, stack, found.reason)
                return False
            except BaseException as error:
                if isinstance(error, Retrace) or _is_interrupt(error, frame):
                    raise
                if _is_of_tracing(error):
                    self._end(frame, at, stack, str(error).partition("\n")[0])
                    return False
                if not self._is_handled():
                    self._end(frame, at, stack, f"{type(error).__name__} leaves the function")
                    return False
                self._unwind(error)
            self.count += 1
            if self._is_steady():
                self.steady = self.count
        return True

    def _end(self, frame: Frame, at: int, stack: list[object], reason: str) -> None:
        """Ends the graph before an instruction; by another trace where the instruction has done something."""
        if self.used or not self.frames or self.frames[-1] is not frame:
            raise Retrace(self.count, reason) from None
        frame.position = at
        frame.stack[:] = stack
        self.reason = reason

    def _is_steady(self) -> bool:
        """Whether the graph could end here: no scope is open that outlives it, and no exception is being handled."""
        if self.handled.error is not None or _settings() != self.settings:
            return False
        return not (
            self.frames and self.frames[-1].stack and issubclass(type(self.frames[-1].stack[-1]), BaseException)
        )

    def _is_handled(self) -> bool:
        return any(frame.body.code.handlers[frame.position - 1] is not None for frame in self.frames)

    def _run_frames(self, frames: list[Frame], base: int) -> None:
        self.used = True
        while len(frames) > base:
            frame = frames[-1]
            operations, operands = frame.body.operations, frame.body.operands
            try:
                while True:
                    at = frame.position
                    frame.position = at + 1
                    changed = operations[at](self, frame, operands[at])
                    self._note_made(frame, at)
                    if changed:
                        break
            except (Break, Retrace):
                raise
            except BaseException as error:
                if _is_of_tracing(error) or _is_interrupt(error, frame):
                    raise
                self._unwind(error)

    def _note_made(self, frame: Frame, at: int) -> None:
        """Writes down what an instruction has made."""
        name = frame.body.code.instructions[at].name
        if name in _CREATING:
            self.note(frame.stack[-1])
        elif name == "UNPACK_EX":
            for value in frame.stack[-1 - (frame.body.operands[at] & 255) :]:
                if type(value) is list:
                    self.note(value)
        elif frame.stack and sys.getrefcount(frame.stack[-1]) <= 2 and is_mutable(type(frame.stack[-1])):
            self.note(frame.stack[-1])  # only the stack has it
        elif name == "MAKE_CELL":
            self.note(frame.locals[frame.body.operands[at]])
        elif name == "RETURN_GENERATOR":
            self.note(self.frames[-1].stack[-1] if len(self.frames) > self.base else self.result)


def _settings() -> tuple[object, ...]:
    """What scopes say that outlive a trace where it ends inside of them."""
    return STATE.grad, STATE.autocast, STATE.device, STATE.modes, STATE.functions


def _is_interrupt(error: BaseException, frame: Frame) -> bool:
    """Whether an error came from outside, and not from the program's own `raise`."""
    name = frame.body.code.instructions[max(frame.position - 1, 0)].name
    return isinstance(error, KeyboardInterrupt) and name not in ("RAISE_VARARGS", "RERAISE")


def _is_of_tracing(error: BaseException) -> bool:
    """Whether an error says what tracing cannot do, rather than what the program did wrong."""
    return isinstance(error, (CompileError, DataDependentError, NotSupportedError))


provenance.stands_for_frames(TracingInterpreter.trace.__code__)
