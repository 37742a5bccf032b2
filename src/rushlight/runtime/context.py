"""Calling executables: the context that an entry gets, one per calling thread, and what its status asks for.

Words of a context: 0 arena address, 1 arena bytes, 2 arena bytes needed, 3 address of `parallel_for`, 4 address of the
interrupt byte, 5 number of threads, 6 address of the pool, 7 address of the table of host calls, 8 the dict
of the thread's scopes, for eager calls, 9 to 15 reserved.
"""

import ctypes
import os
import signal
import threading
from array import array
from typing import Any

from rushlight.runtime import allocator, native, pool
from rushlight.support import settings
from rushlight.support.errors import fail

WORDS = 16
ARENA, ARENA_BYTES, ARENA_NEED, PARALLEL_FOR, INTERRUPT, THREADS, POOL = range(7)
SCOPES = 8

ARENA_TOO_SMALL = 1
INTERRUPTED = 2
FIRST_ASSERT = 16

RELEASE_ABOVE_WORK = 50_000
"""Work (in scalar operations, roughly) above which a call hands the interpreter lock over and uses threads."""

_KEEP_ARENA_BYTES = 64 << 20
_FIRST_ARENA_BYTES = 64 << 10


class Context:
    """What one calling thread passes to entries; `address` is the `ctx` argument."""

    __slots__ = ("_call_long", "address", "arena", "call_short", "words")

    def __init__(self) -> None:
        functions = native.functions()
        self.words = array("q", [0] * WORDS)
        self.address = self.words.buffer_info()[0]
        self.words[PARALLEL_FOR] = functions.parallel_for
        self.words[POOL] = pool.pool_address()
        self.words[THREADS] = pool.get_num_threads()
        self.call_short = _poisoned(functions.call_held)
        self.arena = allocator.CPU.allocate(_FIRST_ARENA_BYTES)
        self._set_arena(self.arena)
        self.look_at_thread()

    def look_at_thread(self) -> None:
        """Find out again which thread this is: only the main thread's calls can be interrupted."""
        functions = native.functions()
        if threading.current_thread() is threading.main_thread():
            _know_python_handler(functions)
            self.words[INTERRUPT] = functions.interrupt_byte
            self._call_long = _poisoned(functions.call_watched)
        else:
            self.words[INTERRUPT] = functions.no_interrupt_byte
            self._call_long = _poisoned(functions.call_released)

    def call(self, entry: int, descriptors: int, work: int = 0, commit: tuple[object, ...] = ()) -> int:
        """Run the entry at address `entry` on the descriptor pointers at `descriptors`. Returns the final status.

        `commit` is empty or holds one commit (`commit_text`), which is made when the status is 0. The arena grows as
        asked. An interrupted call raises what the signal's handler raises (KeyboardInterrupt), or runs again when it
        raises nothing. What remains is 0, or `FIRST_ASSERT` + the number of a failed assert.
        """
        if work < RELEASE_ABOVE_WORK:
            call = self.call_short
        else:
            if not pool.POOL.ready:
                pool.POOL.ensure_started()
            self.words[THREADS] = pool.POOL.get_num_threads()
            call = self._call_long
        status = call(entry, self.address, descriptors, *commit)
        return self.settle(status, call, entry, descriptors, commit) if status else 0

    def release_arena(self) -> None:
        """Give a large arena back to the allocator, whose other users may need it; the next call asks again."""
        self._set_arena(allocator.CPU.allocate(_FIRST_ARENA_BYTES))

    def settle(
        self, status: int, call: native.Call, entry: int, descriptors: int, commit: tuple[object, ...] = ()
    ) -> int:
        """Does what the status of `call(entry, self.address, descriptors, *commit)` asks for, until it is 0."""
        while status and status < FIRST_ASSERT:
            self._answer(status)
            status = call(entry, self.address, descriptors, *commit)
        if self.arena.nbytes > _KEEP_ARENA_BYTES:
            self.release_arena()
        return status

    def _answer(self, status: int) -> None:
        if status == ARENA_TOO_SMALL:
            need = self.words[ARENA_NEED]
            if need <= self.words[ARENA_BYTES]:
                fail("X001", "call: an executable asks for a larger arena than it needs", need=need)
            self._set_arena(allocator.CPU.allocate(need))
        elif status == INTERRUPTED:
            _raise_from_signal_handlers()
        else:
            fail("X001", f"call: an executable returned the unknown status {status}")

    def _set_arena(self, arena: allocator.Storage) -> None:
        self.arena = arena
        self.words[ARENA] = arena.address
        self.words[ARENA_BYTES] = arena.nbytes


def _poisoned(call: native.Call) -> native.Call:
    """The call itself; with the setting `poison` one that fills the arena first."""
    poison = settings.get().poison
    if not poison:
        return call

    def call_on_poison(entry: int, context: int, descriptors: int, *commit: object) -> int:
        arena = current().arena
        ctypes.memset(arena.address, poison, arena.nbytes)
        return call(entry, context, descriptors, *commit)

    return call_on_poison


LOCAL = threading.local()
"""`LOCAL.context` is the calling thread's context once it has one: for those in a hurry."""


def current() -> Context:
    """The calling thread's context."""
    try:
        return LOCAL.context
    except AttributeError:
        context = LOCAL.context = Context()
        return context


def call(entry: int, descriptors: int, work: int = 0, commit: tuple[object, ...] = ()) -> int:
    """Run an entry in the calling thread's context; see `Context.call`."""
    try:
        context: Context = LOCAL.context
    except AttributeError:
        context = current()
    return context.call(entry, descriptors, work, commit)


_check_signals: Any = ctypes.pythonapi.PyErr_CheckSignals
_check_signals.argtypes = ()
_check_signals.restype = ctypes.c_int
_get_signal: Any = ctypes.pythonapi.PyOS_getsig
_get_signal.argtypes = (ctypes.c_int,)
_get_signal.restype = ctypes.c_void_p


def _raise_from_signal_handlers() -> None:
    """Run Python's handlers of the signals that came; ctypes raises what they raise."""
    _check_signals()


def _know_python_handler(functions: native.NativeFunctions) -> None:
    """Tell native code the address of Python's own signal handler: the one behind every handler written in Python.

    A process started in the background ignores SIGINT at first; a handler is put there for a moment to see it.
    """
    slot = ctypes.c_int64.from_address(functions.python_handler)
    handler = signal.getsignal(signal.SIGINT)
    if slot.value or handler is None:  # None: some library's own, which could not be put back
        return
    if not callable(handler):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    slot.value = _get_signal(signal.SIGINT) or 0
    if not callable(handler):
        signal.signal(signal.SIGINT, handler)


def _after_fork_in_child() -> None:
    context: Context | None = getattr(LOCAL, "context", None)
    if context is not None:
        context.look_at_thread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
