"""Which elements stores write: whether the offsets that loops walk are all offsets of a buffer, for any sizes.

A `Piece` is an offset over some axes. Pieces are joined until one run of elements is left: an axis whose step is the
length of a run makes it longer; runs that follow each other become one; an axis in blocks is walked as a whole; loops
over each remainder of an axis are those of the axis; an axis that indices divide is parted in two. Each rule is exact,
so what is left says which elements are written, not only that enough are.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from rushlight.ir.type import TensorType
from rushlight.support.frozen import frozen
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    coefficient,
    depends_on,
    eq,
    floordiv,
    free_symbols,
    is_axis,
    minimum,
    parts,
    product,
    statically_known,
    substitute,
)

Walk = tuple[SizeExpr, Size]
"""An axis and its number of values, from 0 on."""
Equal = Callable[[Size, Size], bool]
Run = tuple[Size, Size]
"""A step in elements, and how often it is made, the first element included."""


@frozen
class Piece:
    """The offsets that `offset` takes over some axes, each with `length` elements one unit apart."""

    offset: Size
    axes: tuple[Walk, ...] = ()
    length: Size = 1

    @staticmethod
    def of(offset: Size, axes: Sequence[Walk]) -> Piece:
        """The offsets over those of some axes that have several values, and that the offset mentions."""
        kept = [walk for walk in axes if walk[1] != 1]
        single = {axis: 0 for axis, extent in axes if extent == 1} if len(kept) < len(axes) else {}
        return Piece(substitute(offset, single) if single else offset, tuple(kept))

    def over(self, images: Mapping[SizeExpr, Size], axes: Iterable[Walk] = ()) -> Piece:
        """The piece with symbols replaced, also in extents, and more axes."""
        mine = [(axis, substitute(extent, images)) for axis, extent in self.axes if axis not in images]
        return Piece.of(substitute(self.offset, images), (*mine, *axes))


def runs_of(type_: TensorType, complex_parts: bool = False) -> tuple[Run, ...]:
    """The elements of a tensor as runs, the finest first; dims that lie as one are one. Strides of 0 have none."""
    dims = [(stride, size) for size, stride in zip(type_.shape, type_.strides, strict=True) if size != 1]
    if complex_parts:
        dims = [*[(stride * 2, size) for stride, size in dims], (1, 2)]
    dims = [(stride, size) for stride, size in dims if stride != 0]
    joined: list[Run] = []
    step: Size = 1
    size: Size = 1
    while dims:
        after = next((dim for dim in reversed(dims) if dim[0] == step * size), None)
        if after is not None:
            size = size * after[1]
        else:
            after = dims[-1]
            joined += [(step, size)] if size != 1 else []
            step, size = after
        dims.remove(after)
    return (*joined, (step, size)) if size != 1 else tuple(joined)


def covers(pieces: Sequence[Piece], runs: Sequence[Run], width: int = 0, repeated: Size = 1) -> bool:
    """Whether pieces are all elements of the runs, each of them.

    A `width` allows panels: runs that may be as long as that where something is missing behind their last element.
    Elements may be written so many times over as they are `repeated`, by axes that no offset mentions.
    """
    if len(pieces) == 1 and len(runs) == 1 and (1, pieces[0].axes) == (runs[0][0], ((pieces[0].offset, runs[0][1]),)):
        return True  # most kernels walk a buffer from end to end
    if repeated != 1:
        pieces = [_unrepeated(piece, repeated) for piece in pieces]
    return _are_all(pieces, runs, width, operator.eq) or _are_all(pieces, runs, width, _known_equal)


def _are_all(pieces: Sequence[Piece], runs: Sequence[Run], width: int, equal: Equal) -> bool:
    for unit, length in runs or [(1, 1)]:
        pieces = _Growth(pieces, unit, length, width, equal).run()
        if not all(equal(piece.length, length) for piece in pieces):
            return False
        pieces = [replace(piece, length=1) for piece in pieces]
    return len(pieces) == 1 and equal(pieces[0].offset, 0) and not pieces[0].axes


def _known_equal(a: Size, b: Size) -> bool:
    """Whether two sizes are equal by what is known of their symbols: slower than to see it."""
    apart = a - b
    if isinstance(apart, int):
        return apart == 0
    terms = parts(apart)
    shared = reduce(operator.and_, [Counter(atoms) for _, atoms in terms])
    rest: Size = 0
    for scale, atoms in terms:
        rest = rest + product([scale, *(Counter(atoms) - shared).elements()])
    return statically_known(eq(rest, 0)) or _in_quotients(rest) == 0


def _in_quotients(size: Size) -> Size:
    """A size with `4*(n//4)` in place of `n`, where it mentions `n//4` and 4 is known to divide `n`."""
    quotients = {atom for _, atoms in parts(size) for atom in atoms if atom.op.name == "floordiv"}
    for quotient in quotients if isinstance(size, SizeExpr) else ():
        whole, divisor = quotient.operands
        if not statically_known(eq(divisor * quotient, whole)):
            continue
        rest: Size = 0
        for scale, atoms in parts(size):
            rest = rest + product([scale, *[divisor * quotient if atom is whole else atom for atom in atoms]])
        size = rest
    return size


def _unrepeated(piece: Piece, repeated: Size) -> Piece:
    """A piece without the axes that its offset does not mention, if they repeat it so often."""
    idle = [walk for walk in piece.axes if not depends_on(piece.offset, walk[0])]
    if not idle or product([extent for _, extent in idle]) != repeated:
        return piece
    return replace(piece, axes=tuple([walk for walk in piece.axes if walk not in idle]))


def walked(piece: Piece) -> tuple[Size, frozenset[Run]]:
    """Where a piece begins, and its runs, of axes that lie as one: equal for pieces of the same elements."""
    runs: list[Run] = []
    for axis, extent in piece.axes:
        step = coefficient(piece.offset, axis)
        if step is None:
            return piece.offset, frozenset({(piece.offset, extent)})
        runs += [(step, extent)] if step != 0 else []
    changed = True
    while changed:
        changed = False
        for fine in runs:
            coarse = next((run for run in runs if run is not fine and run[0] == fine[0] * fine[1]), None)
            if coarse is not None:
                runs = [run for run in runs if run is not fine and run is not coarse]
                runs.append((fine[0], fine[1] * coarse[1]))
                changed = True
                break
    start = substitute(piece.offset, {axis: 0 for axis, _ in piece.axes})
    return start, frozenset(runs)


class _Growth:
    """Pieces whose runs, `unit` apart, grow to a length."""

    def __init__(self, pieces: Iterable[Piece], unit: Size, most: Size, width: int, equal: Equal) -> None:
        self.pieces = list(dict.fromkeys(pieces))
        self.unit = unit
        self.most = most
        self.width = width
        self.equal = equal

    def run(self) -> list[Piece]:
        """The pieces as no rule makes them longer."""
        while True:
            before = self.pieces
            self.pieces = list(dict.fromkeys([self.longest(piece) for piece in self.pieces]))
            if len(self.pieces) > 1:
                self.pieces = self.remainders(self.followed(self.pieces))
            if self.pieces == before:
                parted = [piece if self.equal(piece.length, self.most) else _parted(piece) for piece in self.pieces]
                if parted == self.pieces:
                    return self.pieces
                self.pieces = parted

    def longest(self, piece: Piece) -> Piece:
        """A piece with all axes in its runs that walk on where these end."""
        while not self.equal(piece.length, self.most):
            longer = self.longer(piece)
            if longer is None:
                return self.ended(piece)
            piece = longer
        return piece

    def longer(self, piece: Piece) -> Piece | None:
        """The piece with one more axis in its runs."""
        padded: Piece | None = None
        for axis, extent in piece.axes:
            step = coefficient(piece.offset, axis)
            if step is None or step == 0 or any(depends_on(other, axis) for _, other in piece.axes):
                continue
            if self.equal(step, self.unit * piece.length) and not depends_on(piece.length, axis):
                return _without(piece, axis, piece.length * extent)
            blocks = _in_blocks(piece.length, axis, extent)
            if blocks is not None:
                whole, of_all = blocks
                if self.equal(step, self.unit * whole):
                    return _without(piece, axis, of_all)
            if padded is None and self.width:
                padded = self.padded(piece, step)
        return padded

    def padded(self, piece: Piece, step: Size) -> Piece | None:
        """The piece with the padding of its last panel, if a step of an axis skips that padding."""
        length = piece.length
        if length != self.width and step == self.unit * self.width and length == minimum(length, self.width):
            return replace(piece, length=self.width)
        whole = ceildiv(length, self.width) * self.width
        return replace(piece, length=whole) if length != whole and step == self.unit * whole else None

    def ended(self, piece: Piece) -> Piece:
        """A piece of panels up to the end of the last one."""
        if (
            self.width
            and not piece.axes
            and self.unit == 1
            and ceildiv(piece.length, self.width) * self.width == self.most
        ):
            return replace(piece, length=self.most)
        return piece

    def followed(self, pieces: list[Piece]) -> list[Piece]:
        """Pieces with those that begin where they end."""
        starts = {(piece.axes, piece.offset): piece for piece in pieces}
        joined: list[Piece] = []
        for piece in pieces:
            if (piece.axes, piece.offset) not in starts:
                continue
            while not self.equal(piece.length, self.most):
                del starts[piece.axes, piece.offset]
                after = starts.pop((piece.axes, piece.offset + self.unit * piece.length), None)
                if after is not None:
                    piece = replace(piece, length=piece.length + after.length)
                starts[piece.axes, piece.offset] = piece
                if after is None:
                    break
        joined += starts.values()
        return joined

    def remainders(self, pieces: list[Piece]) -> list[Piece]:
        """Pieces over each remainder of an axis as one over the axis."""
        for piece in pieces:
            for walk in piece.axes:
                family = self.family(piece, walk, pieces)
                if family:
                    members, whole = family
                    return [whole, *[other for other in pieces if other not in members]]
        return pieces

    def family(self, first: Piece, walk: Walk, pieces: list[Piece]) -> tuple[list[Piece], Piece] | None:
        """The pieces for all remainders of which one is for 0, and what they are together."""
        step = coefficient(first.offset, walk[0])
        near = self.unit * first.length
        count = next((n for n in range(2, len(pieces) + 1) if step == near * n), None)
        if count is None:
            return None
        members, extents = [first], [walk[1]]
        for remainder in range(1, count):
            member = _at_remainder(first, walk, near * remainder, pieces)
            if member is None:
                return None
            members.append(member[0])
            extents.append(member[1])
        total = _divided(extents, count)
        if total is None or any(ceildiv(total - position, count) != extent for position, extent in enumerate(extents)):
            return None
        return members, _without(first, walk[0], first.length * total)


def _at_remainder(first: Piece, walk: Walk, distance: Size, pieces: list[Piece]) -> tuple[Piece, Size] | None:
    """The piece that walks as another does, so far behind it, and how often along the axis that differs."""
    axis = walk[0]
    rest = [other for other in first.axes if other is not walk]
    for piece in pieces:
        own = [other for other in piece.axes if other not in rest]
        if piece is first or piece.length != first.length or len(own) != 1 or len(piece.axes) != len(first.axes):
            continue
        if substitute(piece.offset, {own[0][0]: axis}) == first.offset + distance:
            return piece, own[0][1]
    return None


def _divided(extents: Sequence[Size], count: int) -> Size | None:
    """How long an axis is whose remainders are so many each: they are its length, and less, divided by their number."""
    last = extents[-1]
    if isinstance(last, SizeExpr):
        return last.operands[0] if last.op.name == "floordiv" and last.operands[1] == count else None
    return sum([extent for extent in extents if isinstance(extent, int)])


def _without(piece: Piece, axis: SizeExpr, length: Size) -> Piece:
    return Piece(
        substitute(piece.offset, {axis: 0}), tuple([walk for walk in piece.axes if walk[0] is not axis]), length
    )


def _in_blocks(length: Size, axis: SizeExpr, extent: Size) -> tuple[Size, Size] | None:
    """For runs that end with the last of the blocks of an axis: the length of all others, and of all together."""
    if not depends_on(length, axis) or not isinstance(length, SizeExpr):
        return None
    dependent = {atom for _, atoms in parts(length) for atom in atoms if depends_on(atom, axis)}
    if len(dependent) != 1 or (ragged := dependent.pop()).op.name != "min":
        return None
    factor = _quotient(length, ragged)
    if factor is None:
        return None
    ends = [operand for operand in ragged.operands if depends_on(operand, axis)]
    others = [operand for operand in ragged.operands if not depends_on(operand, axis)]
    if len(ends) != 1 or not others:
        return None
    width = others[0]
    for other in others[1:]:
        width = minimum(width, other)
    total = ends[0] + width * axis
    if depends_on(total, axis) or ceildiv(total, width) != extent:
        return None
    return factor * width, factor * total


def _quotient(size: SizeExpr, atom: SizeExpr) -> Size | None:
    """What an atom is multiplied by in a size; None if a part of it is no multiple."""
    total: Size = 0
    for scale, atoms in parts(size):
        if atoms.count(atom) != 1:
            return None
        total = total + product([scale, *[other for other in atoms if other is not atom]])
    return total


def _parted(piece: Piece) -> Piece:
    """A piece with an axis that its offset divides parted in two, if it has one."""
    for axis, extent in piece.axes:
        if coefficient(piece.offset, axis) is not None:
            continue
        for divisor in _divisors(piece.offset, axis):
            count = floordiv(extent, divisor)
            if not statically_known(eq(count * divisor, extent)):
                continue
            far, near = axis_symbol(count, "far"), axis_symbol(divisor, "near")
            rest = [walk for walk in piece.axes if walk[0] is not axis]
            offset = substitute(piece.offset, {axis: far * divisor + near})
            return replace(piece, offset=offset, axes=(*rest, (far, count), (near, divisor)))
    return piece


def _divisors(offset: Size, axis: SizeExpr) -> list[Size]:
    """What an offset divides an axis by."""
    divisors: list[Size] = []
    for _, atoms in parts(offset) if isinstance(offset, SizeExpr) else ():
        for atom in atoms:
            if atom.op.name == "floordiv" and depends_on(atom.operands[0], axis):
                divisors.append(atom.operands[1])
    return divisors


def axes_in(size: Size) -> list[Walk]:
    """The loop axes that a size mentions, with their sizes."""
    return [(symbol, axis_size(symbol)) for symbol in free_symbols(size) if is_axis(symbol)]
