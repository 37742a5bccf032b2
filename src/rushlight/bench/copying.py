"""What memory could deliver at most: a copy of as many bytes as a case moves, measured in turns with it.

Of fewer bytes than the caches hold it is one of arrays that are larger. Stores are plain ones, as in most kernels that
are measured. A byte read and the same byte written count as two; that the processor also reads what it is about to
overwrite is not counted, as it is not for the cases.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from rushlight.bench.side_by_side import seconds_side_by_side
from rushlight.runtime import llvm

BYTES = 1 << 28  # of the source, shared by all threads, and the most that a sample copies at once
FEWEST_BYTES = 1 << 25
UNROLLED = 8
PAGE = 4096


class CopyBandwidth:
    """A loop of vector loads and stores over touched memory, each thread on a part of its own."""

    def __init__(self) -> None:
        target = llvm.host_target()
        self._module = llvm.load_object(llvm.compile_object(copy_loop(target.vector_bytes // 4), target))
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self._run: Callable[[int, int, int], None] = function(self._module.address("copy_loop"))
        self._source = np.ones(BYTES, np.uint8)
        self._target = np.zeros(BYTES, np.uint8)
        self._target.fill(1)

    def sample(self, threads: int, moved: float = 2.0 * BYTES) -> float:
        """GB/s of all threads together. Copies about `moved` bytes, repeated so that it takes milliseconds."""
        part = int(min(max(moved / 2, FEWEST_BYTES), BYTES)) // threads // PAGE * PAGE
        times = BYTES // (part * threads)
        shares = [functools.partial(self._copy, number * part, part, times) for number in range(threads)]
        return 2.0 * part * threads * times / seconds_side_by_side(shares) / 1e9

    def _copy(self, start: int, size: int, times: int) -> None:
        source, target = self._source.ctypes.data + start, self._target.ctypes.data + start
        for _ in range(times):
            self._run(target, source, size)


def copy_loop(lanes: int) -> str:
    """LLVM IR of `copy_loop(target, source, bytes)`; `bytes` is a multiple of a page."""
    vector = f"<{lanes} x float>"
    steps = range(UNROLLED)
    lines = [
        "define void @copy_loop(ptr %target, ptr %source, i64 %bytes) {",
        "start: br label %loop",
        "loop: %i = phi i64 [0, %start], [%next, %loop]",
    ]
    for step in steps:
        lines += [
            f"  %at{step} = add i64 %i, {step * lanes * 4}",
            f"  %from{step} = getelementptr i8, ptr %source, i64 %at{step}",
            f"  %v{step} = load {vector}, ptr %from{step}, align 4",
        ]
    for step in steps:
        lines += [
            f"  %to{step} = getelementptr i8, ptr %target, i64 %at{step}",
            f"  store {vector} %v{step}, ptr %to{step}, align 4",
        ]
    lines += [
        f"  %next = add i64 %i, {UNROLLED * lanes * 4}",
        "  %more = icmp ult i64 %next, %bytes",
        "  br i1 %more, label %loop, label %end",
    ]
    return "\n".join([*lines, "end: ret void", "}"])
