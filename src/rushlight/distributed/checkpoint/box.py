"""Boxes of elements: a range along each dim of a tensor, as one rank holds it or one file has it."""

from __future__ import annotations

import math

from rushlight.eager.memory import Array
from rushlight.support.frozen import frozen


@frozen
class Box:
    """The elements from `offsets` on, `sizes` of them along each dim."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.sizes)

    def meet(self, other: Box) -> Box | None:
        """Return what both have; None where that is nothing."""
        starts = tuple([max(pair) for pair in zip(self.offsets, other.offsets, strict=True)])
        ends = [min(pair) for pair in zip(self._ends(), other._ends(), strict=True)]
        sizes = tuple([end - start for start, end in zip(starts, ends, strict=True)])
        return Box(starts, sizes) if all(size > 0 for size in sizes) else None

    def within(self, outer: Box) -> tuple[slice, ...]:
        """Return the slices of this box in an array that holds another, which contains it."""
        starts = [mine - its for mine, its in zip(self.offsets, outer.offsets, strict=True)]
        return tuple([slice(start, start + size) for start, size in zip(starts, self.sizes, strict=True)])

    def of(self, array: Array, outer: Box) -> Array:
        """Return the view of this box on an array that holds another, which contains it."""
        return array[(*self.within(outer), ...)]

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether it lies in a tensor of a shape."""
        inside = zip(self.offsets, self._ends(), shape, strict=False)
        return len(self.offsets) == len(self.sizes) == len(shape) and all(
            0 <= start <= end <= size for start, end, size in inside
        )

    def _ends(self) -> list[int]:
        return [start + size for start, size in zip(self.offsets, self.sizes, strict=True)]


def whole(shape: tuple[int, ...]) -> Box:
    """Return the box of all elements of a shape."""
    return Box((0,) * len(shape), tuple(shape))
