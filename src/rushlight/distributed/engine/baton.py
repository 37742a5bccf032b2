"""Threads of which exactly one runs at a time, in an order that a seed draws."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Protocol

from rushlight.runtime.generator import default_generator


class Awaited(Protocol):
    """What a runner waits for."""

    def is_ready(self) -> bool:
        """Whether the runner may go on."""
        ...


class _Runner:
    """One thread: what it waits for, and the process's state that is its own while it runs."""

    def __init__(self, random_state: tuple[int, int]) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.awaits: Awaited | None = None
        self.is_done = False
        self.thread = 0
        self.random_state = random_state

    @property
    def can_run(self) -> bool:
        return not self.is_done and (self.awaits is None or self.awaits.is_ready())


class Baton:
    """Hands the turn from one of `count` threads to another. `stuck` is called when none of those left can go on.

    After `stuck` at least one must be able to. The default random generator is a thread's own.
    """

    def __init__(self, count: int, seed: int, stuck: Callable[[], None]) -> None:
        self._draw = random.Random(seed)
        self._before = default_generator.position()
        self._runners = [_Runner(self._before) for _ in range(count)]
        self._stuck = stuck
        self._finished = threading.Event()

    def start(self) -> None:
        """Gives the first turn, once all threads are there or will come to `enter`."""
        self._next(None).turn.release()

    def join(self) -> None:
        """Waits until all threads are done."""
        self._finished.wait()
        default_generator.go_to(self._before)

    def enter(self, me: int) -> None:
        """Begins a thread: waits for its first turn."""
        runner = self._runners[me]
        runner.turn.acquire()
        runner.thread = threading.get_ident()
        default_generator.go_to(runner.random_state)

    def leave(self, me: int) -> None:
        """Ends a thread."""
        self._runners[me].is_done = True
        if all(runner.is_done for runner in self._runners):
            self._finished.set()
        else:
            self._next(None).turn.release()

    def is_done(self, runner: int) -> bool:
        """Whether a thread has ended."""
        return self._runners[runner].is_done

    def runs_here(self, runner: int) -> bool:
        """Whether this is the thread of a runner that has not ended."""
        found = self._runners[runner]
        return found.thread == threading.get_ident() and not found.is_done

    def awaited(self, runner: int) -> Awaited | None:
        """What a thread waits for."""
        return self._runners[runner].awaits

    def turn(self, me: int, awaited: Awaited | None = None) -> None:
        """Lets others run: until `awaited` is ready, or for as long as the draw says."""
        runner = self._runners[me]
        runner.awaits = awaited
        chosen = self._next(awaited)
        if chosen is not runner:
            runner.random_state = default_generator.position()
            chosen.turn.release()
            runner.turn.acquire()
            default_generator.go_to(runner.random_state)
        runner.awaits = None

    def _next(self, awaited: Awaited | None) -> _Runner:
        able = [runner for runner in self._runners if runner.can_run]
        if not able:
            self._stuck()
            able = [runner for runner in self._runners if runner.can_run]
        return able[self._draw.randrange(len(able))]
