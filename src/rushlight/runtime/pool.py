"""Worker threads: started when first needed, parked in native code, stopped at exit, forgotten by forked children.

The pool's algorithm is in `pool_text`; here is what only Python can do. Workers are daemon threads that make one call
into the native loop and are detached from the interpreter there. `parallel_for` never waits for a pool that another
caller has: it does the work itself.
"""

import atexit
import ctypes
import os
import threading
import time
from typing import Any

from rushlight import runtime
from rushlight.runtime import placement_text, pool_text
from rushlight.support import events, settings
from rushlight.support.errors import require

SPIN_TURNS = 5000
"""Turns of looking for a job before a worker sleeps: some 120 µs, as threads wait for each other in a kernel."""

_EXIT_PATIENCE_SECONDS = 0.15

_allocate_lock: Any = ctypes.pythonapi.PyThread_allocate_lock
_allocate_lock.argtypes = ()
_allocate_lock.restype = ctypes.c_void_p


_acquire_lock: Any = ctypes.pythonapi.PyThread_acquire_lock
_acquire_lock.argtypes = (ctypes.c_void_p, ctypes.c_int)


def _taken_lock() -> int:
    """A lock on which the next to acquire it sleeps until somebody releases it."""
    lock = int(_allocate_lock())
    _acquire_lock(lock, 1)
    return lock


def _word(byte_offset: int) -> int:
    return byte_offset // 8


class Pool:
    """The process's pool: a block of words that native code works on, and the threads behind it."""

    def __init__(self) -> None:
        self._memory = (ctypes.c_int64 * (pool_text.POOL_WORDS + pool_text.LINE_WORDS))()
        start = ctypes.addressof(self._memory)
        self.address = (start + 63) & -64
        self._words = (ctypes.c_int64 * pool_text.POOL_WORDS).from_address(self.address)
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._wanted = 0
        self._loaded = False
        self._forking = False
        self.ready = False
        """Whether every worker that may help has been started."""

    def set_num_threads(self, count: int) -> None:
        """Let `count` threads work on one operation, the caller included."""
        require(count >= 1, "A002", "set_num_threads: at least one thread is needed", count=count)
        with self._lock:
            self._wanted = min(count, pool_text.MAX_WORKERS + 1)
            self._publish_settings()

    def get_num_threads(self) -> int:
        """Threads that may work on one operation: as set, else as many as the process is allowed processors."""
        if not self._wanted:
            self._wanted = min(
                settings.get().num_threads or runtime.limits.available_cores(), pool_text.MAX_WORKERS + 1
            )
        return self._wanted

    def ensure_started(self) -> None:
        """Start the workers that are missing. Cheap when `ready`."""
        if self.ready:
            return
        with self._lock:
            if not self._loaded:
                runtime.native.functions()
                self._words[_word(pool_text.CALLER_LOCK)] = _taken_lock()
                self._loaded = True
                atexit.register(self.stop)
            try:
                for index in range(len(self._threads), self.get_num_threads() - 1):
                    self._start_worker(index)
            except RuntimeError as error:
                self._wanted = len(self._threads) + 1
                events.record("fallback", "threads", f"{error}: {self._wanted} instead")
            self._publish_settings()

    def _start_worker(self, index: int) -> None:
        line = pool_text.WORKERS + index * 64
        self._words[_word(line + pool_text.WORKER_LOCK)] = _taken_lock()
        thread = threading.Thread(
            target=runtime.native.functions().worker_loop,
            args=(self.address, index),
            name=f"rushlight-{index}",
            daemon=True,
        )
        thread.start()
        self._words[_word(line + placement_text.AVOIDED)] = 0
        self._words[_word(line + placement_text.THREAD)] = thread.native_id or 0
        self._threads.append(thread)

    def _publish_settings(self) -> None:
        wanted = self.get_num_threads()
        self._words[_word(pool_text.SPIN)] = SPIN_TURNS if wanted <= runtime.limits.available_cores() else 0
        self._words[_word(pool_text.JOINERS)] = min(wanted - 1, len(self._threads))
        self.ready = self._loaded and len(self._threads) >= wanted - 1

    def stop(self) -> None:
        """End all workers; they start again when needed."""
        with self._lock:
            if not self._threads:
                return
            self._words[_word(pool_text.JOINERS)] = 0
            self.ready = False
            runtime.native.functions().stop_workers(self.address)
            deadline = time.monotonic() + _EXIT_PATIENCE_SECONDS
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            if not any(thread.is_alive() for thread in self._threads):
                self._threads.clear()
                self._words[_word(pool_text.STOP)] = 0

    def worker_count(self) -> int:
        """Workers that run now."""
        return sum(thread.is_alive() for thread in self._threads)

    # ---------------------------------------------------------------- fork

    def before_fork(self) -> None:
        """Wait until no job runs and keep it so."""
        self._lock.acquire()
        if self._loaded:
            runtime.native.functions().take_pool(self.address)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._loaded:
            runtime.native.functions().free_pool(self.address)
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the workers, which did not come along."""
        ctypes.memset(self.address, 0, pool_text.POOL_WORDS * 8)
        self._threads = []
        self._loaded = False
        self.ready = False
        atexit.unregister(self.stop)
        self._lock.release()


POOL = Pool()
"""The pool of this process."""


def set_num_threads(count: int) -> None:
    """Let `count` threads work on one operation, the caller included."""
    POOL.set_num_threads(count)


def get_num_threads() -> int:
    """Threads that may work on one operation."""
    return POOL.get_num_threads()


def pool_address() -> int:
    """Where the pool's words are: word 6 of a context."""
    return POOL.address


def parallel_for_address() -> int:
    """Where `parallel_for` is: word 3 of a context."""
    return runtime.native.functions().parallel_for


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=POOL.before_fork,
        after_in_parent=POOL.after_fork_in_parent,
        after_in_child=POOL.after_fork_in_child,
    )
