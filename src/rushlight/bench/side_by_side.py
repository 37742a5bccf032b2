"""Ceilings of several processors: a share of the work on each."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence


def seconds_side_by_side(shares: Sequence[Callable[[], None]]) -> float:
    """The seconds until all shares are done. Each has a thread, pinned to its processor where the system allows it.

    Threads that have just been started may stay on one processor for longer than a sample takes.
    """
    bind = getattr(os, "sched_setaffinity", None)
    processors = sorted(os.sched_getaffinity(0)) if bind else []

    def run(index: int, share: Callable[[], None]) -> None:
        if bind:
            bind(0, {processors[index % len(processors)]})
        share()

    workers = [threading.Thread(target=run, args=pair) for pair in enumerate(shares)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - started
