"""Recognising matrix products by their loop structure."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.ir.dtype import float32, float64
from rushlight.ir.scalar import BLOCKED, Scalar
from rushlight.schedule.nodes import Node
from rushlight.schedule.terms import free_axes
from rushlight.sym import Size, SizeExpr, axis_size, product

# Below this many multiplications, or with fewer rows or columns, packing costs more than it saves. A size that is not
# known is taken to be large: the artifact serves all.
MIN_WORK = 16384
MIN_ROWS = 4
MIN_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class GemmShape:
    """A contraction seen as C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n].

    Each letter is a set of axes.
    """

    batch: tuple[SizeExpr, ...]
    rows: tuple[SizeExpr, ...]
    columns: tuple[SizeExpr, ...]
    inner: tuple[SizeExpr, ...]
    a: Scalar
    b: Scalar


def match_gemm(node: Node) -> GemmShape | None:
    """The GEMM that a node is, or None for one that stays small. The order of the sum is the same either way."""
    contraction = node.contraction
    if contraction is None or contraction.type not in (float32, float64) or contraction.attr("order") != BLOCKED:
        return None
    a, b = contraction.operands
    inner = contraction.attr("axes")
    in_a, in_b = free_axes(a), free_axes(b)
    batch = tuple([axis for axis in node.axes if axis in in_a and axis in in_b])
    rows = tuple([axis for axis in node.axes if axis in in_a and axis not in in_b])
    columns = tuple([axis for axis in node.axes if axis in in_b and axis not in in_a])
    if len(batch) + len(rows) + len(columns) != len(node.axes) or not rows or not columns:
        return None
    shape = GemmShape(batch, rows, columns, inner, a, b)
    m, n, k = (product(_sizes(axes)) for axes in (rows, columns, inner))
    if _is_below(m, MIN_ROWS) or _is_below(n, MIN_COLUMNS) or _is_below(product((m, n, k)), MIN_WORK):
        return None
    return shape


def _is_below(size: Size, least: int) -> bool:
    return isinstance(size, int) and size < least


def _sizes(axes: tuple[SizeExpr, ...]) -> list[Size]:
    return [axis_size(axis) for axis in axes]
