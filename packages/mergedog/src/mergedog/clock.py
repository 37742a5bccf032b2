"""Time as an argument: seconds since the epoch, and sleep."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits. Tests and simulations hand in a `ManualClock`."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        time.sleep(max(0.0, seconds))


@dataclass
class ManualClock:
    """A clock that moves only when someone sleeps, so that simulations take no time."""

    time: float = 1_700_000_000.0

    def now(self) -> float:
        """Return the simulated seconds."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Advance the simulated time at once."""
        self.time += max(0.0, seconds)
