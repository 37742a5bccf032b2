"""Finds operands that are batches of matrices in memory, which a product can read without packing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.ir.gemm_tile import Format
from rushlight.ir.plan import Address
from rushlight.ir.scalar import OPS, Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.schedule.lower.rewrite import as_size, linear_offset, loads
from rushlight.sym import Size, SizeExpr, axis_size, coefficient, free_symbols, parts, product, substitute

Axes = Sequence[SizeExpr]

# Steps between elements that lie close together: one wide load has those between as well.
NEAR = range(1, Target.WIDE_LOAD_STRIDE + 1)
_LARGE = 1 << 30


@dataclass(frozen=True, slots=True)
class Matrices:
    """A batch of matrices in a buffer: first element, stride of rows or columns, batch strides.

    Format "row" has contiguous rows, "column" contiguous columns. The batch index is split in two, outer and inner,
    each with a stride of its own. All strides are in elements.
    """

    buffer: Buffer
    start: Size
    leading: Size
    outer: Size
    inner: Size
    format: Format = "row"

    @property
    def address(self) -> Buffer | Address:
        """The launch argument for the first element."""
        return self.buffer if self.start == 0 else Address(self.buffer, self.start)


def matrices(buffer: Buffer, offset: Size, batch: tuple[Axes, Axes], first: Axes, second: Axes) -> Matrices | None:
    """The matrices that an element offset over some axes covers, or None.

    Each group of axes must have one joint stride, and `first` or `second` stride 1. A single row may be read as a
    column.
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


def made_format(term: Scalar, inner: Axes, columns: Axes) -> Format:
    """Whether a prologue writes `b` by rows or by columns: along the longer contiguous runs."""
    offsets = [_offset(read) for read in loads(term)]
    return "column" if _piece(offsets, inner) > _piece(offsets, columns) else "row"


def _offset(read: Scalar) -> Size | None:
    if len(read.operands) == 1:
        return as_size(read.operands[0])
    return as_size(linear_offset(read.operands, read.attr("buffer").type.strides))


def _piece(offsets: Sequence[Size | None], axes: Axes) -> int:
    """The length of contiguous runs along the last of some axes; unknown sizes count as large."""
    steps = [_step(offset, axes[-1]) for offset in offsets if axes]
    size = axis_size(axes[-1]) if axes else 1
    if not steps or not all(step in NEAR for step in steps):
        return 1
    return size // max(step for step in steps if isinstance(step, int)) if isinstance(size, int) else _LARGE


def _step(offset: Size | None, axis: SizeExpr) -> int | None:
    """The largest distance of neighbours along an axis, if constant; `axis // 2` grows by at most 1."""
    step = 0
    for factor, atoms in () if offset is None else parts(offset):
        if atoms == (axis,) or (len(atoms) == 1 and atoms[0].op.name == "floordiv" and atoms[0].operands[0] is axis):
            step += max(factor, 0)
        elif any(axis in free_symbols(atom) for atom in atoms):
            return None
    return step


def count(axes: Axes) -> Size:
    """The number of values of some axes together."""
    return product([axis_size(axis) for axis in axes])


def joint_step(offset: Size, axes: Axes) -> Size | None:
    """The stride of several axes walked as one, row-major; None if they have no common stride."""
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
