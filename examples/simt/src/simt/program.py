"""Programs: grids as native code that records the first fault of a thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from rushlight.build.executable import Executable, NativeExecutable
from rushlight.codegen.llvm.kernel.grid import FAULTS, RECORD
from rushlight.support.errors import fail
from rushlight.support.provenance import user_frames

WORDS = 4


class Program(Executable):
    """An executable whose launches end with an error where a thread raced, or left its buffer."""

    __slots__ = ("_faults", "_inner", "_lock")

    def __init__(self, inner: NativeExecutable) -> None:
        super().__init__(inner.input_types, inner.output_types, inner.summary, inner.cached)
        self._inner = inner
        self._lock = threading.Lock()
        record = inner.symbol(RECORD)
        self._faults = None if record is None else (ctypes.c_int64 * WORDS).from_address(record)
        if isinstance(inner.once, NativeExecutable):
            self.once = Program(inner.once)
            self.reads = inner.reads

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Any, ...] = ()) -> None:
        """Run, and say what a thread did wrong. Errors: V008."""
        with self._lock:
            self._inner.launch(addresses, work, commit)
            if self._faults is None or not self._faults[0]:
                return
            what, buffer, byte, thread = self._faults
            ctypes.memset(self._faults, 0, ctypes.sizeof(self._faults))
        where = "shared memory" if buffer < 0 else f"argument {buffer}"
        frame = next((frame for frame in user_frames() if frame.filename != __file__), None)
        fail("V008", f"simt: thread {thread} {FAULTS[what]}", frame=frame, memory=where, byte=byte)
