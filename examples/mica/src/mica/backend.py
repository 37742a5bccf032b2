"""The backend: what Rushlight asks of a device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from mica.arena import Arena
from mica.program import Program
from rushlight.build.native import compile_native
from rushlight.ir.graph import Graph


class Mica(rl.backends.Backend):
    """An accelerator with an arena of its own, one queue, and programs made by Rushlight's code generator."""

    name = "mica"
    costs = rl.backends.Costs(bytes_per_second=2e10, operations_per_second=1e11, launch_seconds=5e-6)

    def __init__(self) -> None:
        self.arena = Arena()
        self.launches = 0

    def allocate(self, nbytes: int) -> int | None:
        """Return the address of fresh memory."""
        return self.arena.allocate(nbytes)

    def free(self, address: int) -> None:
        """Take memory back."""
        self.arena.free(address)

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the host to the arena."""
        self.arena.bytes_at(address, data.size)[:] = data

    def read(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the arena to the host."""
        data[:] = self.arena.bytes_at(address, data.size)

    def compile(self, graph: Graph) -> Program:
        """Return the program of a graph."""
        return Program(compile_native(graph), self.arena)
