"""Scans such as `cumsum`: each result is the one before it on the scanned axis, plus one step.

Computing each result alone would take as many steps as there are elements before it. So the axis becomes a serial loop,
and code generation carries the results from one iteration to the next. A step waits for the one before, so several rows
run at once, in the lanes of vectors if they are contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.ir.kernel import Axis, AxisKind, Loop, Statement, Store
from rushlight.ir.scalar import chain_axis
from rushlight.schedule.loops.kernels import MOST_TERMS, Step, finish_kernel
from rushlight.schedule.loops.nest import LoopNest
from rushlight.schedule.loops.tiles import BLOCK_WIDTH, in_blocks
from rushlight.schedule.lower.rewrite import Substitution, free_axes, loads, step_along
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, floordiv, substitute
from rushlight.term import postorder

# Rows that are unrolled, so that their dependence chains overlap.
ROWS = 4


def build_scan(nest: LoopNest, name: str) -> Step | None:
    """The launch of a nest with scans; None if it has none, or stores of several shapes."""
    shapes = {store.inner for store in nest.stores}
    if nest.is_conditional or len(shapes) != 1:
        return None
    axes = (*nest.outer, *shapes.pop())
    axis = _scan_axis(nest, axes)
    if axis is None:
        return None
    running = axis_symbol(axis_size(axis), "run")
    backwards = _direction(nest, axis) < 0
    nest.map(Substitution({axis: axis_size(axis) - 1 - running if backwards else running}))
    for element in nest.stores:
        element.inner = ()
    others = tuple([other for other in axes if other is not axis])
    if not others:
        return finish_kernel(nest, name, (), (_turns(nest, running, {}),), axis_size(running))
    if _lie_side_by_side(nest, others[-1], running):
        return _columns(nest, name, others, running)
    return _rows(nest, name, others, running)


def _scan_axis(nest: LoopNest, axes: tuple[SizeExpr, ...]) -> SizeExpr | None:
    return next((axis for axis in reversed(axes) if _direction(nest, axis)), None)


def _direction(nest: LoopNest, axis: SizeExpr) -> int:
    """1 if chains run forward from 0, -1 if they run backward from the end, 0 if there is no scan."""
    for term in postorder(nest.roots()):
        chained = chain_axis(term)
        if chained is None or axis in free_axes(term.operands[0]):
            continue
        length = axis_size(chained)
        if length - axis == 1:
            return 1
        if length + axis == axis_size(axis):
            return -1
    return 0


def _lie_side_by_side(nest: LoopNest, row: SizeExpr, running: SizeExpr) -> bool:
    """Whether more operands are contiguous along the row axis than along the scanned axis."""
    offsets = [store.offset for store in nest.stores]
    offsets += [read.operands[0] for root in nest.roots() for read in loads(root) if read.operands]
    along_rows, along = (sum([step_along(offset, axis) == 1 for offset in offsets]) for axis in (row, running))
    return along_rows > along


def _columns(nest: LoopNest, name: str, others: tuple[SizeExpr, ...], running: SizeExpr) -> Step:
    """Vectorises over rows."""
    near = in_blocks(axis_size(others[-1]), BLOCK_WIDTH, "near")
    turns = _turns(nest, running, {others[-1]: near.position})
    body = (Loop(Axis(near.within, axis_size(near.within), AxisKind.VECTOR), (turns,)),)
    nest.outer = (*others[:-1], *([near.block] if isinstance(near.block, SizeExpr) else []))
    return finish_kernel(nest, name, nest.outer, body, axis_size(running) * axis_size(near.within))


def _rows(nest: LoopNest, name: str, others: tuple[SizeExpr, ...], running: SizeExpr) -> Step:
    """Unrolls some rows at a time, then runs the rest one by one."""
    row = others[-1]
    side = ROWS if len(list(postorder(nest.roots()))) <= MOST_TERMS else 1
    span = in_blocks(axis_size(row), side, "row")
    length = axis_size(span.within)
    whole = axis_symbol(floordiv(length, side), "whole")
    rest = axis_symbol(length - axis_size(whole) * side, "rest")
    body: list[Statement] = []
    for axis, places in ((whole, range(side)), (rest, range(1))):
        if axis_size(axis) != 0:
            first = axis * side if axis is whole else axis_size(whole) * side + rest
            images = [{row: substitute(span.position, {span.within: first + position})} for position in places]
            body.append(Loop(Axis(axis, axis_size(axis), AxisKind.SERIAL), (_turns(nest, running, *images),)))
    nest.outer = (*others[:-1], *([span.block] if isinstance(span.block, SizeExpr) else []))
    return finish_kernel(nest, name, nest.outer, tuple(body), axis_size(running) * side)


def _turns(nest: LoopNest, running: SizeExpr, *images: Mapping[SizeExpr, Size]) -> Loop:
    """The serial loop over the scanned axis, with the stores of each row."""
    stores: list[Store] = []
    for image in images:
        at = Substitution(image)
        stores += [Store(store.buffer, at(store.offset), at(store.value)) for store in nest.stores]
    return Loop(Axis(running, axis_size(running), AxisKind.SERIAL), tuple(stores))
