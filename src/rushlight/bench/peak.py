"""The processor's peak: fused multiply-adds that never leave the registers, measured in the same run.

This is the one benchmark in LLVM text: a ceiling must not depend on the compiler that is measured against it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from rushlight.bench.side_by_side import seconds_side_by_side
from rushlight.runtime import llvm

CHAINS = 12  # independent ones: two units of latency four need eight, and 16 registers hold these and a factor
UNROLLED = 4
ROUNDS = 1 << 22  # so many that starting threads takes less than a hundredth


class FmaPeak:
    """A loop of float32 multiply-adds on any number of threads. It has enough accumulators to hide their latency."""

    def __init__(self) -> None:
        target = llvm.host_target()
        self.lanes = target.vector_bytes // 4
        self._module = llvm.load_object(llvm.compile_object(fma_loop(self.lanes), target))
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
        self._run: Callable[[int, int], None] = function(self._module.address("fma_loop"))

    def sample(self, threads: int) -> float:
        """GFLOP/s of all threads together."""
        memories = [(ctypes.c_float * self.lanes)(*[0.5] * self.lanes) for _ in range(threads)]
        shares = [functools.partial(self._run, ROUNDS, ctypes.addressof(memory)) for memory in memories]
        seconds = seconds_side_by_side(shares)
        return 2.0 * self.lanes * CHAINS * UNROLLED * ROUNDS * threads / seconds / 1e9


def fma_loop(lanes: int) -> str:
    """LLVM IR of `fma_loop(rounds, memory)`: x = x * m + m in each chain, with m and the start read from memory."""
    vector = f"<{lanes} x float>"
    chains = range(CHAINS)
    lines = [
        f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
        "define void @fma_loop(i64 %rounds, ptr %memory) {",
        f"start: %m = load {vector}, ptr %memory, align 4",
        "  br label %loop",
        "loop: %i = phi i64 [0, %start], [%next, %loop]",
        *[f"  %x{chain}.0 = phi {vector} [%m, %start], [%x{chain}.{UNROLLED}, %loop]" for chain in chains],
    ]
    for turn in range(UNROLLED):
        for chain in chains:
            operands = f"{vector} %x{chain}.{turn}, {vector} %m, {vector} %m"
            lines.append(f"  %x{chain}.{turn + 1} = call {vector} @llvm.fma.v{lanes}f32({operands})")
    lines += [
        "  %next = add i64 %i, 1",
        "  %more = icmp ult i64 %next, %rounds",
        "  br i1 %more, label %loop, label %end",
    ]
    lines += ["end:", f"  %s0 = fadd {vector} %x0.{UNROLLED}, %m"]
    lines += [f"  %s{chain} = fadd {vector} %s{chain - 1}, %x{chain}.{UNROLLED}" for chain in chains if chain]
    return "\n".join([*lines, f"  store {vector} %s{CHAINS - 1}, ptr %memory, align 4", "  ret void", "}"])
