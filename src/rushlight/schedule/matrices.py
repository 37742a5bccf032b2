"""Operands that lie in memory as batches of matrices, which a matrix product takes as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.ir.gemm_tile import Format
from rushlight.ir.plan import Address
from rushlight.ir.scalar import OPS, Buffer, Scalar
from rushlight.schedule.terms import as_size
from rushlight.sym import Size, SizeExpr, axis_size, coefficient, product, substitute

Axes = Sequence[SizeExpr]


@dataclass(frozen=True, slots=True)
class Matrices:
    """A batch of matrices in a buffer: first element, distance of rows ("row") or columns ("column"), batch strides.

    The batch index is split in two, outer and inner, each with a stride of its own; all in elements.
    """

    buffer: Buffer
    start: Size
    leading: Size
    outer: Size
    inner: Size
    format: Format = "row"

    @property
    def address(self) -> Buffer | Address:
        """The argument word for its first element."""
        return self.buffer if self.start == 0 else Address(self.buffer, self.start)


def matrices(buffer: Buffer, offset: Size, batch: tuple[Axes, Axes], first: Axes, second: Axes) -> Matrices | None:
    """The matrices that an element offset over some axes walks.

    That is when each group of axes is walked as one, and `first` or `second` with step 1; otherwise None. A single row
    may be taken for a piece of a column.
    """
    steps = [joint_step(offset, axes) for axes in (*batch, first, second)]
    outer, inner, first_step, second_step = steps
    if outer is None or inner is None or first_step is None or second_step is None:
        return None
    start = substitute(offset, dict.fromkeys((*batch[0], *batch[1], *first, *second), 0))
    if second_step == 1:
        return Matrices(buffer, start, first_step, outer, inner)
    return Matrices(buffer, start, second_step, outer, inner, "column") if first_step == 1 or not first else None


def plain_load(term: Scalar, batch: tuple[Axes, Axes], first: Axes, second: Axes) -> Matrices | None:
    """`matrices` of an operand that is one load with a linear address."""
    offset = as_size(term.operands[0]) if term.op is OPS["load"] else None
    return None if offset is None else matrices(term.attr("buffer"), offset, batch, first, second)


def count(axes: Axes) -> Size:
    """How many values some axes have together."""
    return product([axis_size(axis) for axis in axes])


def joint_step(offset: Size, axes: Axes) -> Size | None:
    """The step of several axes walked as one, row-major; None when they do not lie so."""
    step: Size = 0
    expected: Size | None = None
    for axis in reversed(axes):
        if axis_size(axis) == 1:
            continue
        mine = coefficient(offset, axis) if isinstance(offset, SizeExpr) else 0
        if mine is None or (expected is not None and mine != expected):
            return None
        if expected is None:
            step = mine
        expected = mine * axis_size(axis)
    return step
