"""The tracing interpreter's word: a compiled function that a trace interprets stays what its callers were promised."""

from __future__ import annotations

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.resume import breaks
from rushlight.capture.resume.breaks import Break
from rushlight.capture.resume.interpreters.timing import TimedInterpreter
from rushlight.capture.resume.reached import ReachedObjects


class PromisingInterpreter(TimedInterpreter):
    """Knows which calls are promised to be one graph: where its own graph would end in their middle, it ends before.

    `promised` says whether the instruction that runs calls such a function.
    """

    __slots__ = ("promised",)

    def __init__(self, reached: ReachedObjects) -> None:
        super().__init__(reached)
        self.promised = False

    def promises(self, promise: str) -> None:
        """Keeps what a compiled function has promised. Breaks before one that has graphs of its own."""
        if promise == breaks.OWN_GRAPHS:
            raise Break(breaks.DISABLED, "a function is called that is compiled by itself")
        self.promised = promise == breaks.ONE_GRAPH

    def entered(self, frame: Frame) -> None:
        """Is told of the frame of a call. It begins with the promise that was made of what is called."""
        super().entered(frame)
        if self.promised:
            self.promised, frame.promised = False, self.count

    def broken(self) -> int | None:
        """The instruction that calls the outermost of the promised functions that have not ended."""
        return next((frame.promised for frame in self.frames if frame.promised is not None), None)
