"""Races in the worker: a process that times one pair of choices after the other, while others are compiled here.

A choice whose code crashes or hangs costs the worker's life, and no more: the next question starts another one.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import json
import math
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, NamedTuple

import numpy as np

from rushlight.build.native import Chooser, compile_code
from rushlight.ir.graph import Graph
from rushlight.ir.text import format_graph
from rushlight.support import events, settings
from rushlight.support.errors import RushlightError
from rushlight.tune.measure import Answer, Array, Choice
from rushlight.tune.worker import CODE, GRAPH, SETTINGS, SUMMARY

IDLE_S = 30.0
LIMIT_S = 30.0
COMPILING = 2  # threads that compile ahead
LOST: Answer = (math.inf, math.inf)
"""What is known of a choice whose code cannot be made, crashes or hangs: it is not faster."""


class Span(NamedTuple):
    """When the worker answered a question, in seconds of `time.perf_counter`."""

    begin: float
    end: float


class Worker:
    """One process that answers one question at a time, from the first question until it is idle."""

    def __init__(self, threads: int, idle_s: float = IDLE_S, limit_s: float = LIMIT_S) -> None:
        self.spans: list[Span] = []
        self.started = 0
        self._words = [sys.executable, "-m", "rushlight.tune.worker", str(threads), str(idle_s)]
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def ask(self, **question: str) -> dict[str, Any] | None:
        """The answer to a question; None where the process died over it, or was late. A dead process is replaced."""
        with self._lock:
            begin = time.perf_counter()
            try:
                return self._exchange(json.dumps(question).encode() + b"\n")
            finally:
                self.spans.append(Span(begin, time.perf_counter()))

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._end()

    def _exchange(self, line: bytes) -> dict[str, Any] | None:
        for _ in range(2):  # a process that was idle may end before it reads this question
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            said = b""
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(line)
                process.stdin.flush()
                if not select.select([process.stdout], [], [], self._limit_s)[0]:
                    break
                said = process.stdout.readline()
            if said.endswith(b"\n"):
                return json.loads(said)
            if process.wait() != 0:
                break
        self._end()
        return None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self.started += 1
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
            # An idle process ends by itself: somebody waits for it, so that it does not stay as a zombie.
            threading.Thread(target=self._await, args=(self._process,), daemon=True).start()
        return self._process

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        with self._lock:
            if self._process is process:
                self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


class IsolatedRace(Generic[Choice]):
    """A race whose code is compiled here, ahead of time and by several threads, and timed by a worker."""

    def __init__(
        self, graph: Graph, operands: Sequence[Array], chooser: Callable[[Choice], Chooser], worker: Worker
    ) -> None:
        self._graph = graph
        self._chooser = chooser
        self._worker = worker
        self._folder = tempfile.TemporaryDirectory(prefix="rushlight-tune-")
        self._compiling = ThreadPoolExecutor(COMPILING, "rushlight-tune")
        self._names: dict[Choice, Future[str]] = {}
        self._lock = threading.Lock()
        self._path = Path(self._folder.name)
        (self._path / GRAPH).write_text(format_graph(graph, facts=True), encoding="utf-8")
        (self._path / SETTINGS).write_text(json.dumps(settings.values()), encoding="utf-8")
        for number, operand in enumerate(operands):
            np.save(self._path / f"{number}.npy", operand)

    def prepare(self, choice: Choice) -> Future[str]:
        """Begins to compile a choice."""
        with self._lock:
            if choice not in self._names:
                self._names[choice] = self._compiling.submit(
                    contextvars.copy_context().run, self._compile, choice, str(len(self._names))
                )
            return self._names[choice]

    def run(self, choice: Choice, best: Choice) -> Answer:
        """The seconds of a choice and of the best so far; infinitely many where that cannot be told."""
        try:
            mine, other = (self.prepare(one).result() for one in (choice, best))
        except (RushlightError, OSError) as cause:
            events.record("tuning", "failed", f"{self._graph.name}: {choice} cannot be compiled: {cause}"[:200])
            return LOST
        found = self._worker.ask(folder=str(self._path), choice=mine, best=other)
        if found is None:
            events.record("tuning", "crashed", f"{self._graph.name}: the worker ended over {choice}")
            return LOST
        return found["seconds"], found["best_seconds"]

    def close(self) -> None:
        """Removes the files."""
        self._compiling.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def _compile(self, choice: Choice, name: str) -> str:
        code, summary = compile_code(self._graph, self._chooser(choice))
        (self._path / f"{name}.{CODE}").write_bytes(code)
        (self._path / f"{name}.{SUMMARY}").write_bytes(summary.to_json())
        return name


_workers: dict[tuple[int, int], Worker] = {}
_workers_lock = threading.Lock()


def shared_worker(threads: int) -> Worker:
    """The process that times code of so many threads; one that was forked off has its own."""
    with _workers_lock:
        return _workers.setdefault((os.getpid(), threads), Worker(threads))


@atexit.register
def _close_workers() -> None:
    """Ends the workers of this process, and closes their pipes."""
    for (owner, _), worker in _workers.items():
        if owner == os.getpid():
            worker.close()
