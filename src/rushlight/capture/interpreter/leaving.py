"""The interpreter that has CPython run loops, and what C calls back."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import FunctionType

from rushlight.capture.interpreter.frame import Frame, Suspended
from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.native_loops import NativeLoop, hand_over
from rushlight.capture.interpreter.suspended import of_python
from rushlight.capture.interpreter.tracebacks import without_own_frames


def _always(function: FunctionType) -> bool:
    return True


class LeavingInterpreter(Interpreter):
    """Runs functions, and has CPython run what it is told to."""

    __slots__ = ()

    def of_python(self, generator: Suspended) -> object:
        """A generator of CPython's own that goes on in place of one, which then ends; None for none."""
        made = (
            of_python(generator)
            if issubclass(type(generator), Resumable) and isinstance(generator, Resumable)
            else None
        )
        return None if made is generator else made

    def step_natively(self) -> None:
        """Carries out one instruction like `step`; what C calls, and generators, run natively."""
        frame = self.frames[-1]
        hand_over(frame.stack)
        if not frame.body.code.instructions[frame.position].name.startswith("CALL"):
            self.step()
            return
        with self._as_it_is():
            self.step()

    @contextmanager
    def _as_it_is(self) -> Generator[None]:
        """Has functions run as they are that are called by way of this interpreter."""
        is_leaf, self._is_leaf = self._is_leaf, _always
        self.hands_over = True
        try:
            yield
        finally:
            self._is_leaf, self.hands_over = is_leaf, False

    def run_loop(self, loop: NativeLoop) -> None:
        """Has CPython run a loop at which the innermost frame is; an error goes to its handler.

        Functions that it calls by way of this interpreter run as they are.
        """
        frame = self.frames.pop()
        try:
            with self._as_it_is():
                returned, value = loop.run(frame)
        except BaseException as error:  # noqa: BLE001 - the user's, which goes to the user's handler
            self._left_by(frame, error)
            return
        self.frames.append(frame)
        if returned:
            self.deliver(value)

    def _left_by(self, frame: Frame, error: BaseException) -> None:
        """Goes on after an error that has left a frame, of which it is in the traceback."""
        try:
            error.__traceback__ = without_own_frames(error.__traceback__)
            frame.stack.clear()
            if frame.generator is not None:
                error = frame.generator.failed(self, error)
            if len(self.frames) == self.base:
                raise error
            self._unwind(error)
        finally:
            del error
