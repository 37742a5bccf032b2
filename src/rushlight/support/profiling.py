"""Samples the stack while tracing, exporting and compiling, for a flame graph by line of Python.

With `RUSHLIGHT_COMPILE_PROFILE=folder` each trace, export and compilation leaves two files there: one that speedscope
and its kin show, and one that lists the functions that took the most time themselves. A thread looks at the stack about
every millisecond, so that what is measured runs as it always does.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from rushlight.support import lazy, settings

_INTERVAL_S = 0.001
_LISTED = 5
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_numbers = itertools.count(1)
_busy = threading.Lock()  # of the profile that is being taken: those inside it, or beside it, are not

Place = tuple[str, str, int]  # a function's name, its file, and its first line


@contextmanager
def profiled(name: str) -> Generator[None]:
    """Profiles this thread inside the scope, if the settings ask for it."""
    folder = settings.get().compile_profile
    if not folder or not _busy.acquire(blocking=False):
        yield
        return
    sampler = _Sampler(threading.get_ident())
    sampler.start()
    try:
        yield
    finally:
        sampler.finish()
        _busy.release()
        _write(folder, f"{name}-{os.getpid()}-{next(_numbers)}", sampler)


class _Sampler(threading.Thread):
    """Samples one thread's stack. `samples` are stacks, outermost function first, and how long each was seen in ms."""

    def __init__(self, target: int) -> None:
        super().__init__(name="rushlight-profiler", daemon=True)
        self.samples: list[tuple[tuple[Place, ...], float]] = []
        self._target = target
        self._ended = threading.Event()

    def run(self) -> None:
        """Samples until it is told to end."""
        before = time.perf_counter()
        while not self._ended.wait(_INTERVAL_S):
            stack = _stack(self._target)
            now = time.perf_counter()
            self.samples.append((stack, (now - before) * 1e3))
            before = now

    def finish(self) -> None:
        """Ends the thread."""
        self._ended.set()
        self.join()


def _stack(thread: int) -> tuple[Place, ...]:
    frame = sys._current_frames().get(thread)  # the one way to look at another thread
    frames: list[Place] = []
    while frame is not None:
        code = frame.f_code
        frames.append((code.co_qualname, code.co_filename, code.co_firstlineno))
        frame = frame.f_back
    return tuple(reversed(frames))


def _write(folder: str, name: str, sampler: _Sampler) -> None:
    os.makedirs(folder, exist_ok=True)
    places: dict[Place, int] = {}
    stacks = [[places.setdefault(frame, len(places)) for frame in stack] for stack, _ in sampler.samples]
    weights = [spent for _, spent in sampler.samples]
    profile = {
        "type": "sampled",
        "name": name,
        "unit": "milliseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": stacks,
        "weights": weights,
    }
    frames = [{"name": frame[0], "file": frame[1], "line": frame[2]} for frame in places]
    content = {"$schema": _SCHEMA, "shared": {"frames": frames}, "profiles": [profile]}
    with open(os.path.join(folder, f"{name}.speedscope.json"), "w", encoding="utf-8") as file:
        file.write(lazy.json.dumps(content))
    with open(os.path.join(folder, f"{name}.txt"), "w", encoding="utf-8") as file:
        file.write(_summary(name, sampler))


def _summary(name: str, sampler: _Sampler) -> str:
    """Return the functions with the most time, without the time of their callees."""
    total = sum([spent for _, spent in sampler.samples])
    alone: dict[Place, float] = {}
    for stack, spent in sampler.samples:
        for frame in stack[-1:]:
            alone[frame] = alone.get(frame, 0.0) + spent
    most = sorted(alone.items(), key=lambda pair: -pair[1])[:_LISTED]
    rows = [f"{spent:9.1f} ms  {site[0]} ({site[1]}:{site[2]})" for site, spent in most]
    return "\n".join([f"{name}: {total:.1f} ms; most of it, without calls:", *rows, ""])
