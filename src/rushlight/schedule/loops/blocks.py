"""Blocks of outer axes: how much of a range a thread works on at once, and neighbours that share a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from rushlight.ir.choice import Blocks
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.kernel import Axis, AxisKind, Loop, Statement
from rushlight.schedule.loops.tiles import Span, in_blocks
from rushlight.schedule.lower.rewrite import Index, Substitution
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, floordiv, minimum, product, substitute

Body = tuple[Statement, ...]

_NO_WIDTHS: Mapping[Size, int] = MappingProxyType({})


@frozen(eq=False)
class Walk:
    """How outer axes are walked: the width of blocks by the length of an axis, and the other fields of `Blocks`."""

    widths: Mapping[Size, int] = _NO_WIDTHS
    unroll: int = 1
    inverted: bool = False

    @staticmethod
    def of(blocks: Blocks, shapes: Sequence[Sequence[Size]]) -> Walk:
        """What blocks say for parameters of these shapes."""
        return Walk(blocks.widths(shapes), blocks.unroll, blocks.inverted)

    def width(self, axis: SizeExpr, default: int) -> int:
        """The places of a block of an axis."""
        return self.widths.get(axis_size(axis), default)

    def changes(self, axes: Sequence[SizeExpr]) -> bool:
        """Whether axes are walked in another way than one place after the other."""
        return self.unroll > 1 or self.inverted or any(axis_size(axis) in self.widths for axis in axes)

    def macro_tile(self, tile: GemmTile, rows: Size, columns: Size) -> GemmTile:
        """A product's tile with macro tiles of about these blocks."""
        if rows not in self.widths and columns not in self.widths:
            return tile
        return tile.with_macro_tile(self.widths.get(rows, tile.mc), self.widths.get(columns, tile.nc))


STRAIGHT = Walk()
"""One place after the other."""


@frozen(eq=False)
class Walked:
    """Loops around a body: parallel axes, what is inside of them, and the places of one parallel iteration."""

    parallel: tuple[SizeExpr, ...]
    body: Body
    places: Size


def walk_axes(
    axes: Sequence[SizeExpr], walk: Walk, body: Callable[[Sequence[Substitution]], Body], turns: bool
) -> Walked:
    """Walks outer axes in blocks around a body, which gets the values of the axes in its turns.

    Without `turns` a body has one: it is not written out for neighbours.
    """
    last = axes[-1] if turns and axes and axis_size(axes[-1]) != 1 else None
    images: dict[SizeExpr, Index] = {}
    spans: dict[SizeExpr, Span] = {}
    for position, axis in enumerate(axes):
        width = walk.width(axis, walk.unroll if axis is last else 1)
        if width > 1:
            spans[axis] = in_blocks(axis_size(axis), width, f"b{position}")
            images[axis] = spans[axis].position
    if last in spans:
        inside = in_turns(spans[last], last, walk.unroll, images, body, "group")
    else:
        inside = body([Substitution(images)])
    for axis, span in reversed(spans.items()):
        if axis is not last:
            inside = (Loop(Axis(span.within, axis_size(span.within), AxisKind.SERIAL), inside),)
    parallel = [spans[axis].block if axis in spans else axis for axis in axes]
    outer = [axis for axis in parallel if isinstance(axis, SizeExpr)]
    places = product([minimum(axis_size(axis), walk.width(axis, walk.unroll)) for axis in spans])
    return Walked(tuple(reversed(outer)) if walk.inverted else tuple(outer), inside, places)


def in_turns(
    span: Span,
    axis: SizeExpr,
    unroll: int,
    images: Mapping[SizeExpr, Index],
    body: Callable[[Sequence[Substitution]], Body],
    name: str,
) -> Body:
    """The loops over an axis's places in a block: over `unroll` at once, an axis of this name, then over what is left.

    `images` are the values of other axes.
    """
    length = axis_size(span.within)
    several = floordiv(length, unroll)
    group, rest = axis_symbol(several, name), axis_symbol(length - several * unroll, "rest")
    loops: list[Statement] = []
    for symbol, places in (
        (group, [group * unroll + turn for turn in range(unroll)]),
        (rest, [rest + several * unroll]),
    ):
        if axis_size(symbol) != 0:
            at = [Substitution({**images, axis: substitute(span.position, {span.within: place})}) for place in places]
            loops.append(Loop(Axis(symbol, axis_size(symbol), AxisKind.SERIAL), body(at)))
    return tuple(loops)
