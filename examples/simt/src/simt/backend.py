"""The backend: memory of the host that it does not see, and grids that a processor runs."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight.build.native import Chooser, compile_native
from rushlight.ir.choice import GRID, Blocks, Product
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph import Graph
from rushlight.ir.grid.matrix_unit import MatrixUnit
from simt.program import Program

ALIGNMENT = 64


class Grids(Chooser):
    """Chooses blocks and threads for every graph, and what multiplies matrices of 16-bit numbers."""

    def __init__(self, unit: MatrixUnit | None = None) -> None:
        self.unit = unit

    def key(self, graph: Graph) -> str:
        """Return the fact that code depends on beside the graph."""
        return "grid" if self.unit is None else f"grid {self.unit.name}"

    def choose(self, product: Product) -> GemmTile:
        """Return the tile of a product, which no grid has."""
        return product.tile

    def blocks(self, graph: Graph) -> Blocks:
        """Return the blocks of loops."""
        return replace(GRID, unit=self.unit)

    def prepare(self, graph: Graph, blocks: Blocks) -> None:
        """Nothing is measured."""


class Simt(rl.backends.Backend):
    """A GPU that is emulated: its programs are grids, and it checks what their threads touch.

    A subclass may have another name, and a matrix `unit`. Without one its results have the bits of the CPU's.
    """

    name = "simt"
    unit: MatrixUnit | None = None
    costs = rl.backends.Costs(bytes_per_second=2e12, operations_per_second=3e13, launch_seconds=5e-6)

    def __init__(self) -> None:
        self.arrays: dict[int, NDArray[np.uint8]] = {}

    def allocate(self, nbytes: int) -> int | None:
        """Return the address of fresh memory."""
        try:
            array = np.empty(nbytes + ALIGNMENT, np.uint8)
        except (MemoryError, ValueError):
            return None
        address = -(-array.ctypes.data // ALIGNMENT) * ALIGNMENT
        self.arrays[address] = array
        return address

    def free(self, address: int) -> None:
        """Take memory back."""
        del self.arrays[address]

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the host to memory of the device."""
        _bytes_at(address, data.size)[:] = data

    def read(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy memory of the device to the host."""
        data[:] = _bytes_at(address, data.size)

    def compile(self, graph: Graph) -> Program:
        """Return the program of a graph."""
        return Program(compile_native(graph, Grids(self.unit)))


def _bytes_at(address: int, nbytes: int) -> NDArray[np.uint8]:
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)
