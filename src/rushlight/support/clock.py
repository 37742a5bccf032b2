"""CPU time of a compilation by stage, each without the stages inside it.

    with clock.stage("schedule"):
        ...

Stages are named where they run; `rushlight explain` prints what they took.
"""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

_local = threading.local()
_lock = threading.Lock()
_spent_ns: dict[str, int] = {}


@contextmanager
def stage(name: str) -> Generator[None]:
    """Counts the CPU time of this thread towards a stage."""
    outer: list[int] | None = getattr(_local, "inside", None)
    inside = _local.inside = [0]  # what inner stages took
    start = time.thread_time_ns()
    try:
        yield
    finally:
        spent = time.thread_time_ns() - start
        _local.inside = outer
        if outer is not None:
            outer[0] += spent
        with _lock:
            _spent_ns[name] = _spent_ns.get(name, 0) + spent - inside[0]


def spent_ms() -> dict[str, float]:
    """Milliseconds by stage since the last reset, in the order in which stages ended first."""
    with _lock:
        return {name: spent / 1e6 for name, spent in _spent_ns.items()}


def reset() -> None:
    """Forgets all stages."""
    with _lock:
        _spent_ns.clear()
