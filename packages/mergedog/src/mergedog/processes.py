"""How processes end: in order when they are asked to, and with the process that started them."""

import ctypes
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

PR_SET_PDEATHSIG = 1
ASKED = (signal.SIGTERM, signal.SIGHUP)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask Linux for a signal when the parent is gone, however it ended; elsewhere nothing happens."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, number)


def end_with_parent() -> None:
    """Be asked to end when the parent is gone."""
    die_with_parent(signal.SIGTERM)


@contextmanager
def ended_in_order() -> Generator[None]:
    """Leave the block by an exception when the process is asked to end, so that what it started is ended too.

    A signal that nobody handles ends Python at once: no `finally` runs, and children go on alone.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        for asked in ASKED:
            signal.signal(asked, signal.SIG_IGN)  # asked once is enough: what ends now is not interrupted
        raise SystemExit(128 + number)

    before = {asked: signal.signal(asked, leave) for asked in ASKED}
    try:
        yield
    finally:
        for asked, handler in before.items():
            signal.signal(asked, handler)
