"""`spawn`: a function in several processes, which are ranks of a job or stand alone."""

from __future__ import annotations

import functools
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any

from rushlight.distributed import get_rank, is_mpi_available
from rushlight.distributed.spawning import on_processes
from rushlight.support.errors import require

_RUNNER = ("-m", "rushlight", "run")  # so that `import torch` is Rushlight in them too


class ProcessException(Exception):
    """A process of `spawn` has failed: which one, by its number and by the system's."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid


class ProcessRaisedException(ProcessException):
    """A process has ended by an exception, whose traceback is in the message."""


class ProcessExitedException(ProcessException):
    """A process has ended with a status other than 0, or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name


class ProcessContext:
    """The processes that `spawn(..., join=False)` has started."""

    def __init__(self, processes: Sequence[BaseProcess], failures: Sequence[Any]) -> None:
        self.processes = list(processes)
        self._failures = failures

    def pids(self) -> list[int]:
        """The system's numbers of the processes."""
        return [int(process.pid or 0) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes, `timeout` seconds at most; whether all have ended.

        When one has failed, the others are ended, by a signal after `grace_period` seconds. Errors:
        ProcessRaisedException, ProcessExitedException.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            running = [process for process in self.processes if process.is_alive()]
            failed = next((at for at, process in enumerate(self.processes) if process.exitcode), None)
            if failed is not None:
                self._end(grace_period)
                self._raise(failed)
            left = None if until is None else until - time.monotonic()
            if not running or (left is not None and left <= 0):
                return not running
            connection.wait([process.sentinel for process in running], left)

    def _end(self, grace_period: float | None) -> None:
        until = time.monotonic() + (grace_period or 0)
        for process in self.processes:
            process.join(max(until - time.monotonic(), 0))
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, index: int) -> None:
        process, failures = self.processes[index], self._failures[index]
        pid, status = int(process.pid or 0), int(process.exitcode or 0)
        if not failures.empty():
            text = f"\n\n-- Process {index} terminated with the following error:\n{failures.get()}"
            raise ProcessRaisedException(text, index, pid)
        if status < 0:
            name = signal.Signals(-status).name
            raise ProcessExitedException(f"process {index} terminated with signal {name}", index, pid, status, name)
        raise ProcessExitedException(f"process {index} terminated with exit code {status}", index, pid, status)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., object],
    args: Sequence[object] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in unconnected processes; `join=False` does not wait for them.

    Tensors among the arguments are shared. Errors: those of `ProcessContext.join`.
    """
    require(nprocs >= 1, "A002", "start_processes: there is at least one process", nprocs=nprocs)
    context: Any = multiprocessing.get_context(start_method)
    failures = [context.SimpleQueue() for _ in range(nprocs)]
    processes: list[BaseProcess] = []
    for index, failure in enumerate(failures):
        process: Any = context.Process(target=_guarded, args=(fn, index, tuple(args), failure), daemon=daemon)
        process.start()
        processes.append(process)
    started = ProcessContext(processes, failures)
    if not join:
        return started
    started.join()
    return None


def _guarded(fn: Callable[..., object], index: int, args: tuple[object, ...], failures: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        return
    except Exception:  # noqa: BLE001 - raised in the process that waits
        failures.put(traceback.format_exc())
        sys.exit(1)


def spawn(
    fn: Callable[..., object],
    args: Sequence[object] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes, of which each is rank `i` of a job that MPI connects.

    What a rank raises is raised here. `init_process_group` finds the job, whatever address it is given. Processes that
    the program does not wait for (`join=False`), that get what is inherited alone, as a queue, or that there is no MPI
    for, are those of `start_processes`. Errors: W008, and those of `start_processes`.
    """
    require(nprocs >= 1, "A002", "multiprocessing.spawn: there is at least one process", nprocs=nprocs)
    if not join or not is_mpi_available() or any(map(_is_inherited, args)):
        return start_processes(fn, args, nprocs, join, daemon, start_method)
    runner = _RUNNER if "rushlight.torch.finder" in sys.modules else ()
    on_processes(functools.partial(_on_rank, fn), nprocs, tuple(args), runner)
    return None


def _is_inherited(value: object) -> bool:
    """Whether a value goes to a process when it is started, and in no other way: locks, queues, shared numbers."""
    module = type(value).__module__
    return module.startswith("multiprocessing.") and module != "multiprocessing.managers"


def _on_rank(fn: Callable[..., object], *args: object) -> None:
    fn(get_rank(), *args)
