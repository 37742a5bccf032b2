"""Programs: grids as native code that records the first fault of a thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.build.executable import Executable, NativeExecutable
from rushlight.codegen.llvm.kernel.grid import FAULTS, RECORD
from rushlight.support.errors import fail
from rushlight.support.provenance import user_frames

WORDS = 4


class Program(Executable):
    """An executable whose launches end with an error where a thread raced, or left its buffer."""

    __slots__ = ("_faults", "_inner", "_lock")

    def __init__(self, inner: NativeExecutable, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        super().__init__(inputs, outputs, inner.summary, inner.cached)
        self._inner = inner
        self._lock = threading.Lock()
        record = inner.symbol(RECORD)
        self._faults = None if record is None else (ctypes.c_int64 * WORDS).from_address(record)

    @staticmethod
    def of(inner: NativeExecutable, inputs: Sequence[Any]) -> Program:
        """The program of native code, with that which runs once before it."""
        made = Program(inner, inner.input_types, inner.output_types)
        if isinstance(inner.once, NativeExecutable):
            device = next(type_.device for type_ in inputs if type_.shape)
            types = [rl.backends.type_on(type_, device) for type_ in inner.once.output_types]
            made.once = Program(inner.once, inner.once.input_types, types)
            made.reads = inner.reads
        return made

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
