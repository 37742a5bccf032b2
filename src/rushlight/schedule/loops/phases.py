"""Axes that are parted by a remainder, where a value has zeros wherever an index is no multiple of a step.

The gradient of a strided convolution in its input is such a value: each pixel meets those places of the kernel whose
distance is a multiple of the stride. For the pixels of one remainder these are the same, and what they read is as close
together as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.ir.scalar import OPS, Scalar
from rushlight.schedule.lower.rewrite import as_size
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, ceildiv, coefficient, parts
from rushlight.term import postorder

# The largest step for which each remainder has a loop of its own.
MOST_PHASES = 4


def phases_of(roots: Iterable[Scalar], axis: SizeExpr) -> list[tuple[SizeExpr, Size]]:
    """Axes that stand for the values of an axis with each remainder, and these values; none where it is not parted."""
    steps = {step for term in postorder(roots) for step in _steps(term, axis)}
    if len(steps) != 1:
        return []
    (step,) = steps
    found: list[tuple[SizeExpr, Size]] = []
    for remainder in range(step):
        counted = axis_symbol(ceildiv(axis_size(axis) - remainder, step), f"p{remainder}")
        found.append((counted, counted * step + remainder))
    return found


def _steps(term: Scalar, axis: SizeExpr) -> Iterable[int]:
    """The divisors by which a condition asks for a remainder of the axis, counted up by one."""
    if term.op is not OPS["eq"]:
        return
    for side in (as_size(operand) for operand in term.operands):
        for _, atoms in parts(side) if isinstance(side, SizeExpr) else ():
            for atom in atoms:
                if atom.op.name == "floordiv" and _walks(atom.operands[0], axis):
                    divisor = atom.operands[1]
                    if isinstance(divisor, int) and divisor <= MOST_PHASES:
                        yield divisor


def _walks(dividend: Size, axis: SizeExpr) -> bool:
    return isinstance(dividend, SizeExpr) and coefficient(dividend, axis) == 1
