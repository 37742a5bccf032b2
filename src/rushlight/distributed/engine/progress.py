"""The calls of one process that are under way, and who moves them on.

MPI matches the collectives of a communicator by the order in which ranks begin them. A call may consist of several, one
after another, and how far it has come differs among ranks. So a call begins only when all earlier ones of its group
have begun their last collective: all ranks begin all collectives in the order of the program. Whoever waits for a call
moves all of them on, and while nobody waits a thread does, so that data move while the program computes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Protocol

_TICK = 5e-4  # seconds between two looks of the thread: 64 KB on a link of 1 Gbit/s


class Moving(Protocol):
    """A call as `Progress` sees it: whether it has begun its last collective, and is complete or has failed."""

    has_begun_all: bool
    is_over: bool

    @property
    def line(self) -> Hashable | None:
        """What calls stand in line for: its group's communicator; None of a message, which waits for no other."""
        ...

    def step(self) -> None:
        """Go on as far as it goes without waiting; raises nothing."""
        ...


class Progress:
    """The calls of a process that are under way, in the order of the program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Moving] = []
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def add(self, call: Moving) -> None:
        """Begin a call, or let it stand in line."""
        with self._lock:
            self._calls.append(call)
            self._push()

    def push(self) -> None:
        """Move all calls on as far as they go."""
        with self._lock:
            self._push()

    def in_background(self) -> None:
        """Let a thread move calls on, as long as there are any."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
            self._thread.start()
        self._wanted.set()

    def close(self) -> None:
        """Make no more calls of MPI in the background: it is about to end."""
        with self._lock:
            self._is_closed = True

    def _push(self) -> None:
        held: set[Hashable] = set()  # lines whose next call cannot begin yet
        over = False
        for call in self._calls:
            if call.line in held:
                continue
            call.step()
            over |= call.is_over
            if call.line is not None and not (call.has_begun_all or call.is_over):
                held.add(call.line)
        if over:
            self._calls = [call for call in self._calls if not call.is_over]

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            with self._lock:
                if self._is_closed:
                    return
                self._push()
                if not self._calls:
                    self._wanted.clear()
            time.sleep(_TICK)
