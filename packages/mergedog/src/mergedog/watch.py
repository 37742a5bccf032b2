"""Many pull requests side by side, one process each: the crash of one leaves the others."""

import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from mergedog.clock import Clock

RESTARTS = 5
FIRST_PAUSE_SECONDS = 5.0
LAST_WORDS_SECONDS = 10.0


class Process(Protocol):
    """A process that was started: what `subprocess.Popen` is."""

    def poll(self) -> int | None:
        """Return the exit status, or nothing while it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        ...


@dataclass(slots=True)
class Child:
    """One pull request's process, how often it was started again, and when it may be next."""

    process: Process | None = None
    restarts: int = 0
    not_before: float = 0.0
    status: int | None = None


@dataclass(slots=True)
class Kennel:
    """Starts a process for each pull request, and again if it crashes, later each time."""

    launch: Callable[[int], Process]
    clock: Clock
    children: dict[int, Child] = field(default_factory=dict[int, Child])

    def start(self, numbers: Iterable[int]) -> None:
        """Start the processes."""
        for number in numbers:
            self.children[number] = Child(self.launch(number))

    def tend(self) -> bool:
        """Look after the processes once, and return whether any is left."""
        for number, child in self.children.items():
            self._tend(number, child)
        return any(child.process is not None or child.not_before for child in self.children.values())

    def _tend(self, number: int, child: Child) -> None:
        now = self.clock.now()
        if child.process is None:
            if child.not_before and now >= child.not_before:
                child.process, child.not_before = self.launch(number), 0.0
            return
        child.status = child.process.poll()
        if child.status is None:
            return
        child.process = None
        if child.status != 0 and child.restarts < RESTARTS:
            child.restarts += 1
            child.not_before = now + FIRST_PAUSE_SECONDS * 2 ** (child.restarts - 1)

    def notes(self) -> dict[int, str]:
        """Return what is wrong with processes, by pull request."""
        found: dict[int, str] = {}
        for number, child in self.children.items():
            if child.process is None and child.status:
                again = "starts again soon" if child.not_before else "is not started again"
                found[number] = f"the process ended with {child.status} and {again}"
        return found

    def stop(self) -> None:
        """End all processes; one that does not hear is killed."""
        running = [child.process for child in self.children.values() if child.process is not None]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(LAST_WORDS_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
