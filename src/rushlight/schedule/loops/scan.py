"""Running reductions, as of `cumsum`: the result at a place of an axis is that at the place before, and one step more.

Each by itself would take as many steps as there are elements before it. So the axis becomes a serial loop from 0 up,
whose results code generation carries from turn to turn. A step waits for the one before: rows run side by side, in the
lanes of vectors where they lie side by side.
"""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.ir.kernel import Axis, AxisKind, Loop, Statement, Store
from rushlight.ir.scalar import chain_axis
from rushlight.schedule.loops.kernels import MOST_TERMS, Nest, Step, finish_kernel
from rushlight.schedule.loops.tiles import NEAR, in_blocks
from rushlight.schedule.lower.rewrite import Substitution, free_axes, loads, step_along
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, floordiv, substitute
from rushlight.term import postorder

# Rows that are written out, so that their chains run at once.
ROWS = 4


def build_scan(nest: Nest, name: str) -> Step | None:
    """The launch of a nest with running reductions; None if it has none, or stores of several shapes."""
    shapes = {item.inner for item in nest.items}
    if nest.conditions or len(shapes) != 1:
        return None
    axes = (*nest.outer, *shapes.pop())
    axis = _scan_axis(nest, axes)
    if axis is None:
        return None
    running = axis_symbol(axis_size(axis), "run")
    backwards = _direction(nest, axis) < 0
    nest.map(Substitution({axis: axis_size(axis) - 1 - running if backwards else running}))
    for item in nest.items:
        item.inner = ()
    others = tuple([other for other in axes if other is not axis])
    if not others:
        return finish_kernel(nest, name, (), (_turns(nest, running, {}),), axis_size(running))
    if _lie_side_by_side(nest, others[-1], running):
        return _columns(nest, name, others, running)
    return _rows(nest, name, others, running)


def _scan_axis(nest: Nest, axes: tuple[SizeExpr, ...]) -> SizeExpr | None:
    return next((axis for axis in reversed(axes) if _direction(nest, axis)), None)


def _direction(nest: Nest, axis: SizeExpr) -> int:
    """1 where chains reach from 0 to the axis' place, -1 where to as far from its end, 0 where there are none."""
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


def _lie_side_by_side(nest: Nest, row: SizeExpr, running: SizeExpr) -> bool:
    """Whether more is contiguous along the rows' axis than along the running one."""
    offsets = [item.offset for item in nest.items]
    offsets += [read.operands[0] for root in nest.roots() for read in loads(root) if read.operands]
    along_rows, along = (sum([step_along(offset, axis) == 1 for offset in offsets]) for axis in (row, running))
    return along_rows > along


def _columns(nest: Nest, name: str, others: tuple[SizeExpr, ...], running: SizeExpr) -> Step:
    """Rows in the lanes of vectors."""
    near = in_blocks(axis_size(others[-1]), NEAR, "near")
    turns = _turns(nest, running, {others[-1]: near.position})
    body = (Loop(Axis(near.within, axis_size(near.within), AxisKind.VECTOR), (turns,)),)
    nest.outer = (*others[:-1], *([near.block] if isinstance(near.block, SizeExpr) else []))
    return finish_kernel(nest, name, nest.outer, body, axis_size(running) * axis_size(near.within))


def _rows(nest: Nest, name: str, others: tuple[SizeExpr, ...], running: SizeExpr) -> Step:
    """Some rows at a time, written out, then what is left one by one."""
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
            images = [{row: substitute(span.position, {span.within: first + place})} for place in places]
            body.append(Loop(Axis(axis, axis_size(axis), AxisKind.SERIAL), (_turns(nest, running, *images),)))
    nest.outer = (*others[:-1], *([span.block] if isinstance(span.block, SizeExpr) else []))
    return finish_kernel(nest, name, nest.outer, tuple(body), axis_size(running) * side)


def _turns(nest: Nest, running: SizeExpr, *images: Mapping[SizeExpr, Size]) -> Loop:
    """The serial loop, with the stores for each of some rows."""
    stores: list[Store] = []
    for image in images:
        at = Substitution(image)
        stores += [Store(item.buffer, at(item.offset), at(item.value)) for item in nest.items]
    return Loop(Axis(running, axis_size(running), AxisKind.SERIAL), tuple(stores))
