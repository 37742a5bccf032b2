"""Runs a function in parts: graphs where there can be some, and between them single instructions as Python has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from rushlight.capture.interpreter import Interpreter
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.invocation import begin
from rushlight.capture.resume.breaks import NOT_NOW, Reason, Retrace
from rushlight.capture.resume.cautious import is_leaf
from rushlight.capture.resume.continuation import Continuation, Exit, Place, are_apart, place_of, state_of
from rushlight.capture.resume.reached import is_passed
from rushlight.support import events
from rushlight.support.provenance import Frame as Line

MOST_PLACES = 64  # of one function; beyond these the rest runs instruction by instruction


class Compiled(Protocol):
    """What runs the graphs of a place. `changing` are arguments that are another object at each call, by position."""

    changing: set[int]

    def __call__(self, *args: Any) -> Any:
        """The Exit and the values of its recipe."""
        ...

    def reset(self) -> None:
        """Forgets all traces."""
        ...


class Part:
    """A place and its graphs. `steps` instructions from it on hold no graph, if that is known.

    What is traced, and what runs the traces, are replaced together, so that threads see both or neither.
    """

    __slots__ = ("_compile", "_current", "reported", "steps")

    def __init__(self, continuation: Continuation, compile_part: Callable[[Continuation], Compiled]) -> None:
        self._compile = compile_part
        self._current = continuation, compile_part(continuation)
        self.steps: int | None = None
        self.reported: set[Exit] = set()

    @property
    def compiled(self) -> Compiled:
        """What runs its graphs."""
        return self._current[1]

    def run(self, before: list[Any]) -> tuple[Exit, list[Any]] | None:
        """Where a graph ends from this state, and the values that it gives; None where there is no graph."""
        if not are_apart(before):
            return None
        while True:
            continuation, compiled = self._current
            given = continuation.given()
            try:
                ended, *leaves = compiled(*[before[at] for at in given])
            except Retrace as again:
                if again.limit == NOT_NOW:
                    return None
                if again.limit <= 0:
                    self.steps = 0
                    return None
                self._replace(replace(continuation, limit=again.limit, reason=again.reason))
                continue
            except Exception as error:  # noqa: BLE001 - Python runs this part, and raises what the program raises
                reason = Reason.of(error)
                events.record("graph_break", reason.kind.code, reason.detail, hint=reason.kind.hint)
                self.steps = 0
                return None
            if compiled.changing:
                passed = continuation.passed | {given[at] for at in compiled.changing}
                self._replace(replace(continuation, passed=passed))
            if not ended.calls:
                self.steps = ended.instructions
                compiled.reset()
            return ended, leaves

    def _replace(self, continuation: Continuation) -> None:
        self._current = continuation, self._compile(continuation)

    def report(self, ended: Exit, frame: Frame) -> None:
        """Records why a graph ended, once."""
        if ended.reason and ended not in self.reported:
            self.reported.add(ended)
            code, instruction = frame.body.raw, frame.body.code.instructions[frame.position]
            line = Line(code.co_filename, instruction.line or 0, code.co_name)
            kind = ended.reason.kind
            events.record("graph_break", kind.code, ended.reason.detail, frame=line, hint=kind.hint)


class Driver:
    """All parts of one function. `compile_part` makes what runs the graphs of a continuation."""

    def __init__(self, function: Callable[..., Any], compile_part: Callable[[Continuation], Compiled]) -> None:
        self.function = function
        self.parts: dict[Place, Part] = {}
        self._compile_part = compile_part

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives. Errors: what the function raises."""
        interpreter = Interpreter(is_leaf)
        begun = begin(interpreter, self.function, args, kwargs)
        if type(begun) is not Frame:
            return begun
        interpreter.frames.append(begun)
        try:
            return interpreter.in_loop(partial(self._run, interpreter))
        finally:
            interpreter.escaped = None

    def _run(self, interpreter: Interpreter) -> Any:
        frames = interpreter.frames
        while frames:
            part = self._part(frames) if _can_be_traced(interpreter) else None
            steps = 1
            if part is not None and part.steps is None:
                before = state_of(frames)
                try:
                    outcome = part.run(before)
                except KeyboardInterrupt as interrupt:  # nothing has happened; it goes to the program's own handlers
                    interpreter.interrupt(interrupt)
                    continue
                if outcome is not None:
                    ended, leaves = outcome
                    built = ended.build(leaves, before)
                    if not ended.shapes:
                        return built[0]
                    frames[:] = ended.frames(built)
                    before.clear()  # what the program has let go of is let go of
                    del outcome, leaves, built
                    part.report(ended, frames[-1])
            elif part is not None:
                steps += part.steps or 0
            for _ in range(steps):
                interpreter.step()
                if not frames:
                    break
        return interpreter.result

    def _part(self, frames: list[Frame]) -> Part | None:
        place = place_of(frames)
        part = self.parts.get(place)
        if part is None:
            if len(self.parts) >= MOST_PLACES:
                return None
            part = self.parts[place] = Part(Continuation.of(frames, is_passed), self._compile_part)
        return part


def _can_be_traced(interpreter: Interpreter) -> bool:
    """Whether a graph may begin here: not while an exception is handled, a class is made, or a closure is not bound."""
    if interpreter.handled.error is not None:
        return False
    for at, frame in enumerate(interpreter.frames):
        if frame.then is not None or frame.generator is not None or frame.names is not None:
            return False
        if at and frame.closure and not frame.position:
            return False
        if any(issubclass(type(value), BaseException) for value in frame.stack):
            return False
    return True
