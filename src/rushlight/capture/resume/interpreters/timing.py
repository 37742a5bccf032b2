"""The tracing interpreter's sense of time: it ends graphs where loops run long without an operator."""

from __future__ import annotations

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.resume import breaks
from rushlight.capture.resume.breaks import Break, Reason, Retrace
from rushlight.capture.resume.interpreters.noting import NotingInterpreter
from rushlight.capture.resume.patience import Long, Patience
from rushlight.capture.resume.reached import ReachedObjects
from rushlight.eager.dispatch import STATE

CALL_BACK = 10  # bytecodes that a call by C of an interpreted function is taken to have, loops apart
_LONG = Reason(breaks.LONG, "a loop or call runs long")
_LONG_CALL = Reason(breaks.LONG, "C calls back for long")


class TimedInterpreter(NotingInterpreter):
    """Ends graphs before what runs `long`, which Python does. Without `patience` there is no end to that.

    `reason` is why a graph ends.
    """

    __slots__ = ("long", "patience", "reason")

    def __init__(self, reached: ReachedObjects) -> None:
        super().__init__(reached)
        self.long: Long | None = None
        self.patience: Patience | None = None
        self.reason: Reason | None = None

    def warns(self, message: str) -> None:
        """Breaks before a function of ours gives a warning."""
        raise Break(breaks.WARNS, message)

    def turned(self, frame: Frame) -> None:
        """Ends the graph where a loop comes back that runs long. Errors: Retrace where one turns out to."""
        if self.long is None or self.patience is None or self.frames[-1] is not frame:
            return
        if self.long.at(frame) is not None:
            self.reason = Reason(breaks.LONG, "a loop runs long")
            return
        self.patience.turned(self.frames, self.count + 1)
        self._look_at_time(self.patience)

    def switched(self, before: int) -> None:
        """Is told of frames that have begun or ended; there were so many `before`. Errors: Retrace."""
        if self.patience is not None:
            self.patience.entered(self.frames, before, self.count - 1)
            self._look_at_time(self.patience)

    def _look_at_time(self, patience: Patience) -> None:
        if patience.is_over(self.count, len(STATE.tracer.builder.calls)):
            begun = patience.give_up(self.frames, self.count)
            if begun is not None:
                raise Retrace(begun, _LONG)

    def note_long(self, error: BaseException, frame: Frame, at: int) -> None:
        """Has Python carry out an instruction from now on in which C has called back for long."""
        if isinstance(error, Retrace) and error.reason is _LONG_CALL and self.long is not None:
            self.long.instructions.add((id(frame.body), at))

    def came_back(self, frame: Frame, at: int) -> bool:
        """Is told of a loop in a function that C has called. Errors: Retrace where it runs long."""
        self.spends(at - frame.position)
        return False

    def spends(self, bytecodes: int) -> None:
        """Counts what C calls back. Errors: Retrace where that runs long."""
        patience = self.patience
        if patience is None:
            return
        patience.inner += bytecodes
        if patience.is_over(self.count, len(STATE.tracer.builder.calls)):
            raise Retrace(self.count, _LONG_CALL)
