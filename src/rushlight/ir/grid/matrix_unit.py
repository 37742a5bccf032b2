"""Matrix units: instructions by which a group of threads multiplies matrices of 16-bit numbers, and where elements lie.

The layouts are those of NVIDIA's PTX ISA, sections "Matrix Fragments for mma.m16n8k16" and "Register Fragments and
Shared Memory Matrix Layouts" of `wgmma`. `a` has rows and depth, `b` columns and depth: an element of either has an
index, its row or column, and a depth.
"""

from __future__ import annotations

from rushlight.support.frozen import frozen
from rushlight.sym import Size, floordiv, mod

CORE = 8
"""The indices and depths of a core matrix, which lies in one piece in the shared memory that `wgmma` reads."""


@frozen
class MatrixUnit:
    """An instruction `result += a b` of a group of threads, whose sums are float32.

    Elements of the result are in registers of the group's threads. Those of `a` and `b` are too, in fragments, unless
    the instruction `reads_shared` memory.
    """

    name: str
    group: int
    rows: int
    columns: int
    depth: int
    reads_shared: bool

    @property
    def result_elements(self) -> int:
        """How many elements of the result a thread has."""
        return self.rows * self.columns // self.group

    def fragment_elements(self, width: int) -> int:
        """How many elements of an operand of this many rows or columns a thread has."""
        return 0 if self.reads_shared else width * self.depth // self.group

    def result_place(self, lane: Size, element: Size) -> tuple[Size, Size]:
        """The row and column of an element that a thread of the group has."""
        row = 16 * floordiv(lane, 32) + floordiv(mod(lane, 32), 4) + 8 * mod(floordiv(element, 2), 2)
        return row, 8 * floordiv(element, 4) + 2 * mod(lane, 4) + mod(element, 2)

    def fragment_place(self, width: int, lane: Size, element: Size) -> tuple[Size, Size]:
        """The index and depth of an element of an operand of 16 rows or 8 columns that a thread has."""
        halves = width // 8  # fragments of 16 rows have two elements of the lower rows, then two of the upper ones
        pair = floordiv(element, 2)
        index = floordiv(lane, 4) + 8 * mod(pair, halves)
        return index, 2 * mod(lane, 4) + mod(element, 2) + 8 * floordiv(pair, halves)

    def fragment_owner(self, width: int, index: Size, depth: Size) -> tuple[Size, Size]:
        """The thread of the group that has an element of an operand, and which of its elements that is."""
        lane = 4 * mod(index, 8) + floordiv(mod(depth, 8), 2)
        return lane, mod(depth, 2) + 2 * (floordiv(index, 8) + width // 8 * floordiv(depth, 8))

    def shared_step(self, width: int, depth: int) -> int:
        """The elements between two pieces of shared memory that `shared_place` lays out."""
        return CORE * width if self.reads_shared else depth + CORE

    def shared_elements(self, width: int, depth: int) -> int:
        """How many elements of shared memory hold an operand of some rows or columns."""
        return self.shared_step(width, depth) * (depth // CORE if self.reads_shared else width)

    def shared_place(self, index: Size, depth: Size, step: int) -> Size:
        """Where an element of an operand lies in shared memory.

        Without `reads_shared`, rows of `step` elements, which is more than their depth, so that threads that read
        several rows find them in other banks. Else core matrices: first those of all indices, then the next depth's.
        """
        if not self.reads_shared:
            return index * step + depth
        within = CORE * mod(index, CORE) + mod(depth, CORE)
        return step * floordiv(depth, CORE) + CORE * CORE * floordiv(index, CORE) + within


MMA = MatrixUnit("mma", 32, 16, 8, 16, reads_shared=False)
"""A warp's instruction, of sm_80 and all later architectures."""
WGMMA = MatrixUnit("wgmma", 128, 64, 64, 16, reads_shared=True)
"""An instruction of four warps, of sm_90a alone."""
UNITS = {unit.name: unit for unit in (MMA, WGMMA)}
"""The units by name."""
