"""Signals while a function is traced: handlers find the program's state as it is, so they run when the trace has ended.

In a trace the state has stand-ins, and what it held before is put back: a handler that sets a flag would be undone. The
default handler of SIGINT is left alone: a trace that it interrupts has not happened.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


class Interrupted(BaseException):
    """Leaves the graphs of a function with an error that a handler of a signal has raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def held_signals(*, wraps: bool = False) -> Generator[Collection[int]]:
    """Has Python's handlers of signals run behind the block; gives the numbers of those that have come.

    If it `wraps`, Interrupted has what one of them raises.
    """
    handlers = _handlers() if threading.current_thread() is threading.main_thread() else {}
    if not handlers:
        yield ()
        return
    arrived: dict[int, None] = {}
    holding = [True]

    def hold(number: int, frame: FrameType | None) -> None:
        if holding[0]:
            arrived[number] = None
        else:  # an interrupt has left it where it was
            handlers[number](number, frame)

    try:
        for number in handlers:
            signal.signal(number, hold)
        yield arrived
    finally:
        holding[0] = False
        for number, handler in handlers.items():
            if signal.getsignal(number) is hold:
                signal.signal(number, handler)
        error = _raised_again(tuple(arrived))
        if error is not None and wraps:
            raise Interrupted(error) from None
        if error is not None:
            raise error


def _handlers() -> dict[int, Handler]:
    found = {number: signal.getsignal(number) for number in signal.Signals}
    return {
        number: handler
        for number, handler in found.items()
        if callable(handler) and handler is not signal.default_int_handler
    }


def _raised_again(numbers: Sequence[int]) -> BaseException | None:
    """What the first handler raises that raises anything, when signals have come once more."""
    first = None
    for number in numbers:
        try:
            signal.raise_signal(number)
        except BaseException as error:  # noqa: BLE001 - whatever it is, others run too
            first = first or error
    return first
