"""How the parts of several tensors lie in one buffer: all parts of the first rank, then all of the second, and so on.

So one gathering brings all tensors of a unit together, and one reduction with scattering takes their gradients apart.
A tensor is cut along dim 0 as `torch.chunk` cuts it: the last ranks may have less, or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rushlight.distributed.tensor.layout import part
from rushlight.eager.memory import Array
from rushlight.ir.process_group import Buffer

Shape = tuple[int, ...]


class Packing:
    """The places of the parts of tensors of some shapes, for a number of ranks."""

    def __init__(self, shapes: Sequence[Shape], ranks: int) -> None:
        self.shapes = tuple(shapes)
        # Of each rank and tensor the first row of dim 0 that is the rank's, and the one after the last.
        rows = [[part((0, shape[0]), ranks, rank) for shape in self.shapes] for rank in range(ranks)]
        self.rows = rows
        self._sizes = [[self._count(at, rows[rank][at]) for at in range(len(self.shapes))] for rank in range(ranks)]
        self.counts = tuple([sum(sizes) for sizes in self._sizes])

    def _count(self, at: int, rows: tuple[int, int]) -> int:
        return (rows[1] - rows[0]) * math.prod(self.shapes[at][1:])

    @property
    def numel(self) -> int:
        """The number of elements of all tensors."""
        return sum(self.counts)

    def join(self, parts: Sequence[Array], out: Buffer) -> None:
        """Put the parts that one rank holds one after another, converted to the buffer's dtype."""
        start = 0
        for one in parts:
            out[start : start + one.size] = one.reshape(-1)
            start += one.size

    def gathered(self, buffer: Buffer, wholes: Sequence[Array]) -> None:
        """Fill whole tensors from the parts of all ranks."""
        start = 0
        for rows, sizes in zip(self.rows, self._sizes, strict=True):
            for whole, (first, last), size in zip(wholes, rows, sizes, strict=True):
                whole[first:last] = buffer[start : start + size].reshape(whole[first:last].shape)
                start += size

    def scattered(self, wholes: Sequence[Array], buffer: Buffer) -> None:
        """Fill a buffer with the parts of whole tensors, those of each rank one after another."""
        start = 0
        for rows, sizes in zip(self.rows, self._sizes, strict=True):
            for whole, (first, last), size in zip(wholes, rows, sizes, strict=True):
                buffer[start : start + size] = whole[first:last].reshape(-1)
                start += size

    def parts(self, rank: int, buffer: Buffer) -> list[Array]:
        """Return the parts of one rank, as views of a buffer that holds them alone."""
        found: list[Array] = []
        start = 0
        for shape, (first, last), size in zip(self.shapes, self.rows[rank], self._sizes[rank], strict=True):
            found.append(np.asarray(buffer[start : start + size]).reshape((last - first, *shape[1:])))
            start += size
        return found
