"""Loops and functions that run long without an operator: how they are found, and which are known."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

from rushlight.capture.interpreter.binding import SUSPENDING
from rushlight.capture.interpreter.frame import Body, Frame
from rushlight.capture.interpreter.leaving import LeavingInterpreter
from rushlight.capture.interpreter.native_loops import NativeLoop, loop_at
from rushlight.capture.interpreter.slots import HEAP_TYPE
from rushlight.capture.interpreter.tracebacks import called_from
from rushlight.capture.resume.balance import OF_GRAPH
from rushlight.capture.resume.graphless import is_leaf
from rushlight.support import settings

ALL = sys.maxsize  # instructions: those that are left of a call


class Long:
    """What Python runs in one compiled function: loops and instructions of C, by body and position, and `codes`."""

    __slots__ = ("_loops", "codes", "instructions")

    def __init__(self, codes: set[CodeType]) -> None:
        self._loops: dict[tuple[int, int], NativeLoop] = {}
        self.instructions: set[tuple[int, int]] = set()
        self.codes = codes

    def add(self, frame: Frame, head: int, depth: int) -> NativeLoop | None:
        """Has Python run a loop of a frame from now on, which begins with so many values on the stack."""
        loop = None if frame.names is not None else loop_at(frame.body, head, depth)
        if loop is not None and _can_run(loop, frame):
            return self._loops.setdefault((id(frame.body), head), loop)
        return None

    def at(self, frame: Frame) -> NativeLoop | None:
        """The loop that begins at the next instruction of a frame, if it is one that Python runs."""
        loop = self._loops.get((id(frame.body), frame.position)) if self._loops else None
        return loop if loop is None or _can_run(loop, frame) else None

    def is_native(self, frame: Frame) -> bool:
        """Whether C runs long in the next instruction of a frame."""
        return bool(self.instructions) and (id(frame.body), frame.position) in self.instructions

    def clear(self) -> None:
        """Forgets all."""
        self._loops.clear()
        self.instructions.clear()


def _can_run(loop: NativeLoop, frame: Frame) -> bool:
    return not (loop.returns and frame.generator is not None)


class Patience:
    """Counts the bytecodes that have run without an operator, and in which loops and calls they were.

    A loop is noted by how deep its frame is, its body and its first instruction, with the count of instructions when it
    first came back there and the height of the stack. A call is noted by how deep it is. `inner` counts bytecodes of
    functions that C calls.
    """

    __slots__ = ("_begun", "_long", "_most", "_operators", "_since", "_turns", "inner")

    def __init__(self, long: Long, operators: int = 0) -> None:
        self._long = long
        self._most = settings.get().loop_budget
        self.restart(0, operators)

    def restart(self, count: int, operators: int = 0) -> None:
        """So many operators are there at this count of instructions."""
        self.inner = 0
        self._since, self._operators = count, operators
        self._turns: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._begun: dict[int, tuple[int, Body]] = {}

    def turned(self, frames: Sequence[Frame], count: int) -> None:
        """The innermost frame has come back to an earlier instruction."""
        frame = frames[-1]
        key = len(frames), id(frame.body), frame.position
        if key not in self._turns:
            self._turns[key] = count, len(frame.stack)

    def entered(self, frames: Sequence[Frame], before: int, count: int) -> None:
        """Frames have begun or ended; there were so many `before`."""
        for at in [at for at in self._begun if at >= len(frames)]:
            del self._begun[at]
        if len(frames) > before:
            self._begun[len(frames) - 1] = count, frames[-1].body

    def is_over(self, count: int, operators: int = 0) -> bool:
        """Whether more instructions have run than may; not if an operator is among them."""
        if operators != self._operators:
            self.restart(count, operators)
        return 0 < self._most < count + self.inner - self._since

    def give_up(self, frames: Sequence[Frame], count: int) -> int | None:
        """Has Python run what has taken the time: the outermost loop, or call of a function that calls itself.

        The count at which it began. None where there is none that it can run: then others may run as long.
        """
        begun = self._loop(frames)
        begun = self._call(frames) if begun is None else begun
        self.restart(count, self._operators)
        return begun

    def _loop(self, frames: Sequence[Frame]) -> int | None:
        for depth, frame in enumerate(frames, 1):
            position = frame.position - (depth < len(frames))  # of others that of the call is the last one
            found = [(key[2], *noted) for key, noted in self._turns.items() if key[:2] == (depth, id(frame.body))]
            for head, count, height in sorted(found):
                loop = self._long.add(frame, head, height)
                if loop is not None and position in loop.inside:
                    return count
        return None

    def _call(self, frames: Sequence[Frame]) -> int | None:
        depth = Counter([frame.body for frame in frames])
        for at, frame in enumerate(frames):
            count, begun = self._begun.get(at, (0, None))
            body = frame.body
            if at and begun is body and depth[body] > 1 and frame.function is not None and frame.then is None:
                if body.raw.co_flags & SUSPENDING:
                    return None
                self._long.codes.add(body.raw)
                return count
        return None


class PatientInterpreter(LeavingInterpreter):
    """Runs functions as they are, and loops that run long by CPython."""

    __slots__ = ("_long", "_patience", "count", "gained")

    def __init__(self, is_leaf: Callable[[FunctionType], bool], long: Long) -> None:
        super().__init__(is_leaf)
        self._long = long
        self._patience = Patience(long)
        self.count = 0
        self.gained = 0  # bytecodes that graphs have saved, less those that they have cost

    def is_leaf(self, function: FunctionType) -> bool:
        """Whether a function is called as it is: not while an exception is handled, which it may ask for."""
        if function.__code__ in self._long.codes and self.handled.error is not None:
            return is_leaf(function)
        return super().is_leaf(function)

    def native(self, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """What a call gives that is not interpreted; a program's function sees a frame like its caller's."""
        if type(function) is FunctionType:
            is_of_program = function.__code__ in self._long.codes
        else:
            is_of_program = self.hands_over and issubclass(type(function), type) and function.__flags__ & HEAP_TYPE
        if not is_of_program or not self.frames:
            return function(*args, **kwargs)
        return called_from(self.frames[-1], function, args, kwargs)

    def ran(self, calls: int, saves: int) -> None:
        """A graph has run, with so many calls of operators."""
        self.gained += saves - OF_GRAPH
        if calls:
            self._patience.restart(self.count)

    def came_back(self, frame: Frame, at: int) -> bool:
        """Runs a loop that is known to run long, from its second turn on. True if it has."""
        self.count += at - frame.position
        loop = self._turned(frame)
        if loop is not None:
            self.run_loop(loop)
        return loop is not None

    def _turned(self, frame: Frame) -> NativeLoop | None:
        self._patience.turned(self.frames, self.count)
        if self._patience.is_over(self.count):
            self._patience.give_up(self.frames, self.count)
        return self._long.at(frame) if self.handled.error is None else None

    def go(self, steps: int) -> bool:
        """Carries out some instructions, and loops that run long; False where no frame is left."""
        frames, long = self.frames, self._long
        if steps == ALL:
            self._run_frames(self.base)
            return False
        while True:
            while frames and self.handled.error is None and (loop := long.at(frames[-1])) is not None:
                self.run_loop(loop)
            if not frames or not steps:
                return bool(frames)
            steps -= 1
            self._go_on(frames[-1], len(frames))

    def leave(self, depth: int) -> None:
        """Runs the frame at a depth, a constructor or generator that no graph can leave, until it is left.

        Later calls of that constructor are CPython's.
        """
        frames = self.frames
        caller = frames[depth - 1] if frames[depth].then is not None and depth else None
        if caller is not None:
            self._long.instructions.add((id(caller.body), caller.position - 1))
        before = len(frames)
        self._run_frames(depth)
        self._patience.entered(frames, before, self.count)

    def _go_on(self, frame: Frame, depth: int) -> None:
        at = frame.position
        if self._long.is_native(frame) and self.handled.error is None:
            self.step_natively()
        else:
            self.step()
        frames = self.frames
        self.count += 1
        if len(frames) != depth:
            self._patience.entered(frames, depth, self.count)
        elif frame.position <= at:
            self._patience.turned(frames, self.count)
        if self._patience.is_over(self.count):
            self._patience.give_up(frames, self.count)
