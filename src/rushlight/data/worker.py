"""Worker threads of a DataLoader.

Each worker has a queue of tasks and a queue of results; the loader hands tasks out in turn and takes results in the
same turn, so batches come in order. Threads, not processes: nothing is pickled or copied, and numpy and file reads
release the interpreter's lock.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from rushlight.support.errors import fail


@dataclass(frozen=True)
class WorkerInfo:
    """Facts about a worker: `id` from 0 to `num_workers` - 1, a `seed` of its own, and the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Local(threading.local):
    info: WorkerInfo | None = None


_local = _Local()


def get_worker_info() -> WorkerInfo | None:
    """Return the current worker thread's facts; None outside a DataLoader's workers."""
    return _local.info


Fetch = Callable[[Any], object]
"""The function that makes a batch of a task."""


class Outcome(NamedTuple):
    """The outcome of a task: its value, or the error that stopped it."""

    value: object
    error: BaseException | None


_STOP = object()


class Worker:
    """One thread: `submit` tasks, `receive` their outcomes in the same order, `stop` it at the end.

    It ends with its `owner` too, after the task that it is at.
    """

    def __init__(self, info: WorkerInfo, start: Callable[[], Fetch], owner: object) -> None:
        self.id = info.id
        self._tasks: SimpleQueue[object] = SimpleQueue()
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        # A daemon: a dataset that blocks forever must not keep the interpreter from exiting.
        self._thread = threading.Thread(
            target=_serve,
            # The callback wakes the thread. It is a method of C: one in Python could lose an interrupt.
            args=(info, start, weakref.ref(owner, self._tasks.put), self._tasks, self._outcomes),
            name=f"rushlight-loader-{info.id}",
            daemon=True,
        )
        self._thread.start()

    def submit(self, task: object) -> None:
        """Queue a task."""
        self._tasks.put(task)

    def receive(self, timeout: float) -> object:
        """Wait for the oldest task's value; its error is raised here with the worker's traceback. 0 waits forever."""
        try:
            value, raised = self._outcomes.get(timeout=timeout or None)
        except Empty:
            fail("R005", f"DataLoader: worker {self.id} did not answer within {timeout} seconds")
        if raised is None:
            return value
        try:
            raised.add_note(f"raised in worker thread {self.id} of a DataLoader")
            if isinstance(raised, StopIteration):  # it would end the loop as if there were no more batches
                raise RuntimeError("the dataset raised StopIteration") from raised
            raise raised
        finally:
            del raised  # the traceback refers to this frame

    def stop(self) -> None:
        """Let the thread end after its current task, without waiting for it."""
        while not self._tasks.empty():
            try:
                self._tasks.get_nowait()
            except Empty:
                break
        self._tasks.put(_STOP)

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end; return whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()


def _serve(
    info: WorkerInfo,
    start: Callable[[], Fetch],
    owner: weakref.ref[object],
    tasks: SimpleQueue[object],
    outcomes: SimpleQueue[Outcome],
) -> None:
    """The thread's loop. Every task gets an outcome, also when the start failed, so that no caller hangs."""
    _local.info = info
    run: Fetch | None = None
    while (task := tasks.get()) is not _STOP and owner() is not None:
        try:
            run = run or start()
            outcome = Outcome(run(task), None)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the batch is asked for
            outcome = Outcome(None, error)
        outcomes.put(outcome)
        del task, outcome
