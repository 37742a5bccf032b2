"""Splits axes by remainders, where a value is zero wherever an index is not a multiple of a step.

An example is the gradient of a strided convolution in its input: each pixel meets the kernel elements whose distance is
a multiple of the stride. Pixels of one remainder meet the same elements and read contiguous operands.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.ir.scalar import OPS, Scalar
from rushlight.schedule.lower.rewrite import as_size
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    coefficient,
    eq,
    floordiv,
    parts,
    statically_known,
)
from rushlight.term import postorder

# The largest step for which each remainder gets a loop of its own.
MOST_PHASES = 4


def phases_of(roots: Iterable[Scalar], axis: SizeExpr) -> list[tuple[SizeExpr, Size]]:
    """For each remainder of an axis, a new axis and the old axis' values; empty if the axis is not split."""
    steps = {step for term in postorder(roots) if term.op is OPS["eq"] for step in _divisors(term, axis)}
    if len(steps) != 1:
        return []
    (step,) = steps
    phases: list[tuple[SizeExpr, Size]] = []
    for remainder in range(step):
        counted = axis_symbol(ceildiv(axis_size(axis) - remainder, step), f"p{remainder}")
        phases.append((counted, counted * step + remainder))
    return phases


def asked_divisor(root: Scalar, axis: SizeExpr) -> int | None:
    """The largest divisor by whose remainders of an axis conditions choose, if it divides the axis."""
    orders = (OPS["eq"], OPS["lt"], OPS["le"])
    found = {divisor for term in postorder([root]) if term.op in orders for divisor in _divisors(term, axis)}
    size = axis_size(axis)
    exact = [divisor for divisor in found if statically_known(eq(floordiv(size, divisor) * divisor, size))]
    return max(exact, default=None)


def _divisors(condition: Scalar, axis: SizeExpr) -> Iterable[int]:
    """The divisors by which a condition asks for a remainder of the axis, counted up by one."""
    for side in (as_size(operand) for operand in condition.operands):
        for _, atoms in parts(side) if isinstance(side, SizeExpr) else ():
            for atom in atoms:
                if atom.op.name == "floordiv" and _walks(atom.operands[0], axis):
                    divisor = atom.operands[1]
                    if isinstance(divisor, int) and divisor <= MOST_PHASES:
                        yield divisor


def _walks(dividend: Size, axis: SizeExpr) -> bool:
    return isinstance(dividend, SizeExpr) and coefficient(dividend, axis) == 1
