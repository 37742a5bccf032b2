"""One budget of calls for all processes of a state folder, and a log of who made them.

A ring of times in a file under a lock: call `i` may happen 60 seconds after call `i - per_minute`, and an hour after
call `i - per_hour`. A caller reserves its time, lets go of the lock, and sleeps until then. A process that is killed
while it sleeps wastes one call and holds up nobody.
"""

import fcntl
import json
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mergedog.clock import Clock
from mergedog.policy import Rate

MINUTE, HOUR = 60.0, 3600.0
SLOT = struct.Struct("<d")
HEADER = struct.Struct("<QQ")  # how many calls were reserved, and how many slots the ring has


@dataclass(frozen=True, slots=True)
class Governor:
    """Hands out times for calls. `minute` and `hour` are the lengths of the two windows in seconds."""

    path: Path
    rate: Rate
    clock: Clock
    minute: float = MINUTE
    hour: float = HOUR

    def wait_turn(self) -> float:
        """Sleep until a call may be made, and return for how long that was."""
        at = self.reserve()
        seconds = max(0.0, at - self.clock.now())
        if seconds:
            self.clock.sleep(seconds)
        return seconds

    def reserve(self) -> float:
        """Return the time of this caller's call."""
        with self._locked() as file:
            count, slots = self._header(file)
            last = self._slot(file, count - 1, slots) if count else 0.0
            at = max(self.clock.now(), last)  # a clock that was set back does not free anything
            for calls, window in ((self.rate.per_minute, self.minute), (self.rate.per_hour, self.hour)):
                if count >= calls:
                    at = max(at, self._slot(file, count - calls, slots) + window)
            os.pwrite(file, SLOT.pack(at), HEADER.size + SLOT.size * (count % slots))
            os.pwrite(file, HEADER.pack(count + 1, slots), 0)
        return at

    @contextmanager
    def _locked(self) -> Generator[int]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _header(self, file: int) -> tuple[int, int]:
        """Return count and slots; a ring for another policy keeps its newest calls."""
        slots = max(self.rate.per_minute, self.rate.per_hour, 1)
        header = os.pread(file, HEADER.size, 0)
        if len(header) < HEADER.size:
            return 0, slots
        count, before = HEADER.unpack(header)
        if before == slots:
            return count, slots
        kept = [self._slot(file, index, before) for index in range(max(0, count - min(before, slots)), count)]
        for index, at in enumerate(kept):
            os.pwrite(file, SLOT.pack(at), HEADER.size + SLOT.size * index)
        return len(kept), slots

    def _slot(self, file: int, index: int, slots: int) -> float:
        (at,) = SLOT.unpack(os.pread(file, SLOT.size, HEADER.size + SLOT.size * (index % slots)))
        return float(at)


@dataclass(frozen=True, slots=True)
class Attribution:
    """A file of JSON lines: when which pull request made which call, and how long that waited."""

    path: Path
    pull: int
    clock: Clock

    def note(self, call: str, waited: float) -> None:
        """Append a line, in one write, so that processes do not mix theirs."""
        line = {"at": round(self.clock.now(), 3), "pull": self.pull, "call": call, "waited": round(waited, 3)}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)


@dataclass(frozen=True, slots=True)
class Turnstile:
    """What every call passes: the governor, then the log."""

    governor: Governor
    attribution: Attribution

    def enter(self, call: str) -> None:
        """Wait for the turn of a call, and note it."""
        self.attribution.note(call, self.governor.wait_turn())
