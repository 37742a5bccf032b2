"""The loop that interprets frames: a call of one interpreted function by another is a frame more, no recursion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import TypeVar

from rushlight.capture.interpreter.frame import Body, Consume, Evaluator, Frame, Handled, Suspended
from rushlight.capture.interpreter.invocation import begin
from rushlight.capture.interpreter.operations import Operation
from rushlight.capture.interpreter.tracebacks import with_frame, with_line_of, without_own_frames
from rushlight.support import provenance
from rushlight.support.interpreted import WITHIN

Result = TypeVar("Result")


_PACKAGE = __name__.partition(".")[0]


def _set_context(error: BaseException, handled: BaseException | None) -> None:
    """Makes the exception that is being handled the context of a new one, as raising in C does."""
    if handled is None or handled is error:
        return
    link: BaseException | None = handled
    passed: set[int] = set()
    while link is not None and id(link) not in passed:  # the context chain may lead to the new exception
        passed.add(id(link))
        following = link.__context__
        if following is error:
            link.__context__ = None
            break
        link = following
    innermost = error
    seen = {id(error)}
    while innermost.__context__ is not None and id(innermost.__context__) not in seen:
        innermost = innermost.__context__
        seen.add(id(innermost))
        if innermost is handled:
            return
    if innermost is error or not seen & {id(handled)}:
        innermost.__context__ = handled


class Interpreter(Evaluator):
    """Runs functions by their bytecode.

    `frames` are those that run, the innermost last; those below `base` wait for a native call that called back.
    """

    __slots__ = (
        "_is_leaf",
        "base",
        "escaped",
        "frames",
        "handled",
        "hands_over",
        "has_context",
        "has_returned",
        "origin",
        "reraises",
        "result",
        "suspends",
    )

    def __init__(self, is_leaf: Callable[[FunctionType], bool]) -> None:
        self._is_leaf = is_leaf
        self.frames: list[Frame] = []
        self.base = 0
        self.handled = Handled()
        self.hands_over = False
        self.reraises = self.has_context = self.suspends = False
        self.has_returned = False  # the call is over: each generator that outlives it has an interpreter of its own
        self.origin: int | None = None  # the instruction that first raised what is raised again
        self.result: object = None
        self.escaped: BaseException | None = None  # an error that left a loop inside of this one

    def is_leaf(self, function: FunctionType) -> bool:
        """Whether a function is called as it is."""
        return self._is_leaf(function)

    def callee(self, function: object) -> object:
        """What is called in place of a function."""
        return getattr(function, WITHIN, function) if type(function) is FunctionType else function

    def for_generator(self) -> Interpreter:
        """What runs a generator: itself, or another one where its own call is over. Threads may share what is left."""
        return Interpreter(self._is_leaf) if self.has_returned else self

    def call(self, function: object, args: tuple[object, ...], kwargs: dict[str, object] | None = None) -> object:
        """What a call gives, by a loop of its own. Errors: what it raises."""
        begun = begin(self, function, self.given_to(function, args), kwargs or {})
        if type(begun) is not Frame:
            return begun
        self.entered(begun)
        return self.run(begun)

    def entered(self, frame: Frame) -> None:
        """Is told of the frame of a call."""

    def invoke(self, function: object, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        """Has the innermost frame get what a call gives; True where that is a frame of its own."""
        begun = begin(self, function, self.given_to(function, args), kwargs)
        if type(begun) is Frame:
            self.push(begun)
            self.entered(begun)
            return True
        self.frames[-1].stack.append(begun)
        return False

    def push(self, frame: Frame) -> None:
        """Puts a frame on top. Errors: RecursionError where there are as many of the program's as Python allows."""
        if len(self.frames) >= sys.getrecursionlimit() and self._is_too_deep():
            raise RecursionError("maximum recursion depth exceeded")
        self.frames.append(frame)

    def _is_too_deep(self) -> bool:
        """Whether the program calls deeper than Python allows. Calls of ours between its own are not counted."""
        most = sys.getrecursionlimit()
        own = [frame for frame in self.frames if str(frame.globals.get("__name__")).partition(".")[0] != _PACKAGE]
        return len(own) >= most or len(self.frames) >= 2 * most

    def run(self, frame: Frame) -> object:
        """Runs a frame until it returns, which gives the value, or an exception leaves it."""
        outer, handled = self.base, self.handled
        self.base = len(self.frames)
        try:
            self.push(frame)
            self._run()
            result, self.result = self.result, None
            return result
        finally:
            del self.frames[self.base :]
            self.base = outer
            self.handled = handled

    def resume(self, generator: Suspended, value: object, thrown: tuple[object, ...] | None, consume: Consume) -> None:
        """Runs a generator until it yields or ends, which `consume` is told. Errors: what it raises."""
        outer, handled = self.base, self.handled
        self.base = len(self.frames)
        try:
            if thrown is None:
                generator.resume(self, value, consume)
            else:
                try:
                    generator.raise_in(self, thrown, consume)
                except BaseException as raised:
                    if len(self.frames) == self.base:
                        raise
                    self._unwind(raised)
            self._run()
        finally:
            del self.frames[self.base :]
            self.base = outer
            self.handled = handled

    def _run(self) -> None:
        self.in_loop(partial(self._run_frames, self.base))

    def in_loop(self, run: Callable[[], Result]) -> Result:
        """What a function gives that runs frames: meanwhile those from `base` on are lines of the user's."""
        loops = provenance.loops()
        loops.append((self.frames, self.base))
        try:
            return run()
        finally:
            loops.pop()

    def operations_of(self, body: Body) -> list[Operation]:
        """What carries out the instructions of a body."""
        return body.operations

    def _run_frames(self, depth: int) -> None:
        """Runs the frames that are `depth` frames deep or deeper, until none of them is left."""
        frames = self.frames
        while len(frames) > depth:
            frame = frames[-1]
            operations, operands = self.operations_of(frame.body), frame.body.operands
            try:
                while True:
                    at = frame.position
                    frame.position = at + 1
                    if operations[at](self, frame, operands[at]):
                        break
                    if frame.position <= at and self.came_back(frame, at):
                        break
            except BaseException as error:  # noqa: BLE001 - the user's, which goes to the user's handler
                self._raised(error, frame)

    def came_back(self, frame: Frame, at: int) -> bool:
        """Is told that the innermost frame has jumped back from an instruction. True if another may be on top then."""
        return False

    def _raised(self, error: BaseException, frame: Frame) -> None:
        """Goes on after an error that an instruction of a frame has raised: at the user's handler."""
        try:
            self._unwind(error)
        finally:
            del error  # this frame is in its traceback

    def interrupt(self, error: BaseException) -> None:
        """Raises an error in front of the next instruction of the innermost frame."""
        self.frames[-1].position += 1
        try:
            self._unwind(error)
        finally:
            del error

    def step(self) -> None:
        """Carries out one instruction of the innermost frame, or goes to the handler of what that raises."""
        frame = self.frames[-1]
        at = frame.position
        frame.position = at + 1
        try:
            frame.body.operations[at](self, frame, frame.body.operands[at])
        except BaseException as error:
            if not self.frames:
                raise
            self._unwind(error)

    def deliver(self, value: object) -> bool:
        """Ends the innermost frame with a value, which its caller gets."""
        frame = self.frames.pop()
        if frame.then is not None:
            value = frame.then(value)
        if len(self.frames) == self.base:
            self.result = value
        else:
            self.frames[-1].stack.append(value)
        return True

    def _unwind(self, error: BaseException) -> None:
        """Goes to the handler of an exception, or ends the frames that have none."""
        frames = self.frames
        traceback = without_own_frames(error.__traceback__)
        again, chained = self.reraises, self.has_context
        self.reraises = self.has_context = False
        origin, self.origin = self.origin, None
        escaped, self.escaped = self.escaped, None
        if not (again or chained or error is escaped):
            _set_context(error, self.current_error())
        while len(frames) > self.base:
            frame = frames[-1]
            handler = frame.body.code.handlers[frame.position - 1]
            if again and handler is None:
                frame.position = frame.position if origin is None else origin + 1
                traceback = with_line_of(frame, traceback)
            elif not again:  # what is raised again has been in this frame
                traceback = with_frame(frame, traceback)
            error.__traceback__ = traceback
            if handler is not None:
                del frame.stack[handler.depth :]
                if handler.pushes_origin:
                    frame.stack.append(frame.position - 1 if origin is None else origin)
                frame.stack.append(error)
                frame.position = handler.target
                return
            again, origin = False, None
            frames.pop()
            frame.stack.clear()  # of which no traceback knows
            if frame.generator is not None:
                error = frame.generator.failed(self, error)
                traceback = error.__traceback__
        self.escaped = error
        try:
            raise error
        finally:  # a frame of the traceback that holds the error would be a circle
            del error, escaped

    def current_error(self) -> BaseException | None:
        """The exception that is being handled, as `sys.exception()` gives it."""
        state: Handled | None = self.handled
        while state is not None:
            if state.error is not None:
                return state.error
            state = state.outer
        return None


provenance.stands_for_frames(Interpreter.in_loop.__code__)
