"""Matrix products by matrix units: operands staged in shared memory, results in the registers of threads.

A block makes one tile of the result. Its threads copy a slice of both operands to shared memory, element by element,
whatever the operands are made of; they meet; each group of threads multiplies its part of the slice; they meet again.
After the last slice each thread stores its elements, and computes on the way what the kernel makes of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from rushlight.ir.dtype import DType, Kind, float32
from rushlight.ir.grid.matrix_unit import MatrixUnit
from rushlight.ir.kernel import Axis, AxisKind, Barrier, Loop, Multiply, Statement, Store
from rushlight.ir.scalar import OPS, Buffer, Scalar, apply, bound_axes, constant, guard, index, load
from rushlight.ir.type import TensorType
from rushlight.schedule.gemm.matrices import count
from rushlight.schedule.lower.rewrite import (
    Index,
    Substitution,
    at_position,
    free_axes,
    loads,
    rebuild,
    step_along,
)
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, ceildiv, floordiv, mod, product, substitute
from rushlight.term import postorder
from rushlight.term import substitute as replace_terms

Body: TypeAlias = tuple[Statement, ...]
_GUARD, _CONTRACT, _CAST = OPS["guard"], OPS["contract"], OPS["cast"]
LEAST = 8
"""The fewest rows and columns for which a unit multiplies."""
AHEAD = (8, 4, 2, 1)
"""How many elements a thread stages side by side: fewer of what takes several loads, for the sake of registers."""


@frozen
class Tile:
    """The part of a result that a block makes, the depth of a slice, groups that share rows and columns."""

    rows: int
    columns: int
    depth: int
    row_groups: int
    column_groups: int


TILES = {
    "mma": (Tile(128, 128, 32, 2, 4), Tile(64, 64, 32, 2, 2)),
    "wgmma": (Tile(128, 128, 64, 2, 1), Tile(64, 64, 64, 1, 1)),
}
"""Tiles for long and for short dims, by the name of the unit."""


@frozen
class Operand:
    """An operand of a product: its elements of 16 bits, and the axes of its rows or columns."""

    element: Scalar
    axes: tuple[SizeExpr, ...]


@frozen
class Product:
    """What some stores compute: `term`, a product of `a` and `b`, for each index of `batch`, and more of it."""

    stores: tuple[Store, ...]
    term: Scalar
    a: Operand
    b: Operand
    batch: tuple[SizeExpr, ...]


def find_product(axes: Sequence[Axis], body: Body) -> Product | None:
    """The product of 16-bit numbers that parallel loops compute; None if there is another reduction too."""
    stores = tuple([statement for statement in body if isinstance(statement, Store)])
    if not axes or len(stores) != len(body) or any(axis.start != 0 for axis in axes):
        return None
    term = _only_reduction(stores)
    if term is None or term.op is not _CONTRACT or term.type is not float32:
        return None
    a, b = (narrow_operand(operand) for operand in term.operands)
    if a is None or b is None or a.type is not b.type or any(free_axes(index(axis_size(k))) for k in bound_axes(term)):
        return None
    symbols = [axis.symbol for axis in axes]
    in_a, in_b = free_axes(a), free_axes(b)
    batch = tuple([axis for axis in symbols if (axis in in_a) == (axis in in_b)])
    rows = Operand(a, tuple([axis for axis in symbols if axis in in_a and axis not in in_b]))
    columns = Operand(b, tuple([axis for axis in symbols if axis in in_b and axis not in in_a]))
    if symbols[-1] in rows.axes:  # the contiguous axis of the result becomes the columns
        rows, columns = columns, rows
    return None if _is_short(rows) or _is_short(columns) else Product(stores, term, rows, columns, batch)


def _only_reduction(stores: Sequence[Store]) -> Scalar | None:
    """The one reduction of some stores, if it is computed whatever the data."""
    roots = [root for store in stores for root in store.roots]
    found = [term for term in postorder(roots) if bound_axes(term)]
    always = postorder(roots, lambda term: (term.operands[0], term.operands[2]) if term.op is _GUARD else term.operands)
    return found[0] if len(found) == 1 and found[0] in set(always) else None


def narrow_operand(operand: Scalar) -> Scalar | None:
    """What an operand was before it was widened from 16 bits."""
    inner = operand.operands[0] if operand.op is _CAST else operand
    return inner if inner.type.kind is Kind.FLOAT and inner.type.bits == 16 else None


def _is_short(operand: Operand) -> bool:
    size = count(operand.axes)
    return not operand.axes or (isinstance(size, int) and size < LEAST)


def multiplied(found: Product, unit: MatrixUnit) -> tuple[Axis, Body]:
    """The axis of blocks of a product, and what a block does."""
    large, small = TILES[unit.name]
    sizes = [size for size in (count(found.a.axes), count(found.b.axes)) if isinstance(size, int)]
    schedule = _Schedule(found, unit, small if min(sizes, default=large.rows) <= small.rows else large)
    return Axis(schedule.block, axis_size(schedule.block)), schedule.body()


class Side:
    """One operand in a block: where its part begins, its slice in shared memory, and the fragments of a thread."""

    def __init__(self, name: str, operand: Operand, width: int, groups: int, depth: int, unit: MatrixUnit) -> None:
        self.operand, self.width, self.unit, self.depth = operand, width, unit, depth
        self.size = count(operand.axes)
        self.number = axis_symbol(ceildiv(self.size, width), f"tile_{name}")
        self.first: Size = 0
        self.unit_width = unit.rows if name == "a" else unit.columns
        self.group_width = width // groups
        self.parts = self.group_width // self.unit_width
        self.step = unit.shared_step(width, depth)
        dtype = operand.element.type
        self.shared = block_memory(f"shared_{name}", unit.shared_elements(width, depth), dtype, "shared")
        self.held = unit.fragment_elements(self.unit_width)
        self.fragments = block_memory(f"fragments_{name}", self.parts * self.held, dtype, "register")

    def at(self, place: Size) -> dict[SizeExpr, Size]:
        """The operand's axes at a place of the block's part."""
        return at_position(self.first + place, self.operand.axes)

    def inside(self, place: Size) -> Scalar | None:
        """Whether a place is within the operand; None if all are."""
        return below(self.first + place, self.size, self.width)

    def staged(self, thread: SizeExpr, threads: int, slice_: Slice, batch: Mapping[SizeExpr, Size]) -> Body:
        """What a thread copies to shared memory; neighbours copy what lies side by side."""
        turns = self.width * self.depth // threads
        width = next(width for width in AHEAD if width * len(loads(self.operand.element)) <= AHEAD[0] or width == 1)
        turn, ahead = axis_symbol(turns // width, "turn"), axis_symbol(width, "ahead")
        number = (turn * width + ahead) * threads + thread
        along_depth = slice_.is_contiguous(self.operand.element)
        short = self.depth if along_depth else self.width
        quotient, rest = floordiv(number, short), mod(number, short)
        place, depth = (quotient, rest) if along_depth else (rest, quotient)
        images: dict[SizeExpr, Index] = {**batch, **self.at(place), **slice_.at(depth)}
        value = Substitution(images)(self.operand.element)
        value = guarded((self.inside(place), slice_.inside(depth)), value)
        copies = unrolled([ahead], Store(self.shared, self.unit.shared_place(place, depth, self.step), value))
        return (Loop(Axis(turn, axis_size(turn)), copies),)

    def loaded(self, group: Size, lane: Size, depth: Size) -> Body:
        """What a thread takes from shared memory into its fragments: nothing for a unit that reads shared memory."""
        if self.unit.reads_shared:
            return ()
        part, element = axis_symbol(self.parts, "part"), axis_symbol(self.held, "element")
        place, below = self.unit.fragment_place(self.unit_width, lane, element)
        place = group * self.group_width + part * self.unit_width + place
        value = load(self.shared, index(self.unit.shared_place(place, depth + below, self.step)))
        return unrolled([part, element], Store(self.fragments, part * self.held + element, value))

    def source(self, group: Size, part: Size, depth: Size) -> tuple[Buffer, Size]:
        """Where the unit finds a part of the operand: the memory and the first element."""
        if not self.unit.reads_shared:
            return self.fragments, part * self.held
        place = group * self.group_width + part * self.unit_width
        return self.shared, self.unit.shared_place(place, depth, self.step)


class Accumulator:
    """The product of two sides in the registers of a thread: a part for each two parts of the sides.

    Methods take the groups of a thread along rows and along columns.
    """

    def __init__(self, name: str, a: Side, b: Side, unit: MatrixUnit) -> None:
        self.a, self.b, self.unit = a, b, unit
        self.registers = block_memory(name, a.parts * b.parts * unit.result_elements, float32, "register")

    def cleared(self, threads: int) -> Loop:
        """All threads begin with zeros."""
        thread = axis_symbol(threads, "thread")
        (elements,) = self.registers.type.shape
        element = axis_symbol(elements, "element")
        return by_all(thread, unrolled([element], Store(self.registers, element, constant(0.0, float32))))

    def loaded(self, lane: Size, groups: Sequence[Size], depth: Size) -> Body:
        """A thread's fragments of both sides at a depth, of those that the unit takes from registers."""
        rows, columns = groups
        return (*self.a.loaded(rows, lane, depth), *self.b.loaded(columns, lane, depth))

    def multiplied(self, groups: Sequence[Size], depth: Size) -> Body:
        """Adds the products at a depth."""
        rows, columns = groups
        i, j, offset = self._part()
        (a, a_offset), (b, b_offset) = self.a.source(rows, i, depth), self.b.source(columns, j, depth)
        multiply = Multiply(self.unit, self.registers, a, b, offset, a_offset, b_offset, self.a.step, self.b.step)
        return unrolled([i, j], multiply)

    def element(self, lane: Size, groups: Sequence[Size]) -> tuple[tuple[SizeExpr, ...], Size, Size, Size]:
        """The axes of a thread's elements, and of each its place in registers, its row and its column."""
        rows, columns = groups
        i, j, offset = self._part()
        element = axis_symbol(self.unit.result_elements, "element")
        row, column = self.unit.result_place(lane, element)
        row = row + rows * self.a.group_width + i * self.unit.rows
        column = column + columns * self.b.group_width + j * self.unit.columns
        return (i, j, element), offset + element, row, column

    def _part(self) -> tuple[SizeExpr, SizeExpr, Size]:
        i, j = axis_symbol(self.a.parts, "i"), axis_symbol(self.b.parts, "j")
        return i, j, (i * self.b.parts + j) * self.unit.result_elements


@frozen
class Slice:
    """The places along the summed axes that a block multiplies in one turn."""

    axes: tuple[SizeExpr, ...]
    first: Size
    depth: int

    def at(self, depth: Size) -> dict[SizeExpr, Size]:
        """The summed axes at a depth of the slice."""
        return at_position(self.first + depth, self.axes)

    def inside(self, depth: Size) -> Scalar | None:
        """Whether a depth is within the sum; None if all are."""
        return below(self.first + depth, count(self.axes), self.depth)

    def is_contiguous(self, element: Scalar) -> bool:
        """Whether neighbours along the last summed axis are neighbours in memory."""
        return any(step_along(read.operands[0], self.axes[-1]) == 1 for read in loads(element))


class _Schedule:
    """Writes what a block does for its tile."""

    def __init__(self, found: Product, unit: MatrixUnit, tile: Tile) -> None:
        self.found, self.unit, self.tile = found, unit, tile
        self.a = Side("a", found.a, tile.rows, tile.row_groups, tile.depth, unit)
        self.b = Side("b", found.b, tile.columns, tile.column_groups, tile.depth, unit)
        tiles = [*found.batch, self.a.number, self.b.number]
        self.block = axis_symbol(product([axis_size(axis) for axis in tiles]), "block")
        places = at_position(self.block, tiles)
        self.batch = {axis: places[axis] for axis in found.batch}
        for side in (self.a, self.b):
            side.first = places[side.number] * side.width
        self.threads = unit.group * tile.row_groups * tile.column_groups
        self.result = Accumulator("result", self.a, self.b, unit)

    def body(self) -> Body:
        """The statements of a block."""
        axes, depth = bound_axes(self.found.term), self.tile.depth
        step = axis_symbol(ceildiv(count(axes), depth), "step")
        slice_ = Slice(axes, step * depth, depth)
        inner = axis_symbol(depth // self.unit.depth, "depth")
        multiplied = (*self._loaded(inner * self.unit.depth), self._multiplied(inner * self.unit.depth))
        turns = Loop(Axis(inner, axis_size(inner), AxisKind.UNROLLED), multiplied)
        return (
            self.result.cleared(self.threads),
            Loop(Axis(step, axis_size(step)), (*self._staged(slice_), Barrier(), turns, Barrier())),
            self._finished(),
        )

    def _thread(self) -> tuple[SizeExpr, Size, Size, Size]:
        """A thread, its place in its group, and the group's places along rows and columns."""
        thread = axis_symbol(self.threads, "thread")
        group = floordiv(thread, self.unit.group)
        columns = self.tile.column_groups
        return thread, mod(thread, self.unit.group), floordiv(group, columns), mod(group, columns)

    def _staged(self, slice_: Slice) -> Body:
        thread, *_ = self._thread()
        copies = [side.staged(thread, self.threads, slice_, self.batch) for side in (self.a, self.b)]
        return (by_all(thread, (*copies[0], *copies[1])),)

    def _loaded(self, depth: Size) -> Body:
        thread, lane, *groups = self._thread()
        body = self.result.loaded(lane, groups, depth)
        return (by_all(thread, body),) if body else ()

    def _multiplied(self, depth: Size) -> Loop:
        thread, _, *groups = self._thread()
        return by_all(thread, self.result.multiplied(groups, depth))

    def _finished(self) -> Loop:
        """Each thread stores what the kernel makes of its elements."""
        thread, lane, *groups = self._thread()
        axes, place, row, column = self.result.element(lane, groups)
        images: dict[SizeExpr, Index] = {**self.batch, **self.a.at(row), **self.b.at(column)}
        result = load(self.result.registers, index(place))
        inside = (self.a.inside(row), self.b.inside(column))
        stores = [placed_store(store, {self.found.term: result}, images, inside) for store in self.found.stores]
        return by_all(thread, unrolled(axes, *stores))


def placed_store(
    store: Store, terms: Mapping[Scalar, Scalar], images: Mapping[SizeExpr, Index], inside: Sequence[Scalar | None]
) -> Store:
    """A store of one element of a thread's, made only where that is inside."""
    at = Substitution(images)

    def image(term: Scalar) -> Scalar:
        return at(replace_terms([term], dict(terms), rebuild)[0])

    moved = moved_store(store, image, images)
    where = [part for part in (*inside, moved.where) if part is not None]
    return replace(moved, value=guarded(inside, moved.value), where=_all(where))


def moved_store(store: Store, image: Callable[[Scalar], Scalar], images: Mapping[SizeExpr, Index]) -> Store:
    """A store whose scalars have an image, and whose axes others have in an offset that is a size."""
    sizes = {axis: size for axis, size in images.items() if not isinstance(size, Scalar)}
    offset = image(store.offset) if isinstance(store.offset, Scalar) else substitute(store.offset, sizes)
    where = None if store.where is None else image(store.where)
    return replace(store, offset=offset, value=image(store.value), where=where)


def guarded(conditions: Sequence[Scalar | None], value: Scalar) -> Scalar:
    """A value that is computed where some conditions hold, and 0 elsewhere."""
    condition = _all([one for one in conditions if one is not None])
    return value if condition is None else guard(condition, value, constant(0, value.type))


def _all(conditions: Sequence[Scalar]) -> Scalar | None:
    found: Scalar | None = None
    for condition in conditions:
        found = condition if found is None else apply("and", found, condition)
    return found


def below(place: Size, size: Size, width: int) -> Scalar | None:
    """Whether a place is less than a size; None where tiles of a width end with the size."""
    if isinstance(size, int) and size % width == 0:
        return None
    return apply("lt", index(place), index(size))


def by_all(thread: SizeExpr, body: Body) -> Loop:
    """A loop over the threads of a block."""
    return Loop(Axis(thread, axis_size(thread), AxisKind.THREAD), body)


def unrolled(axes: Sequence[SizeExpr], *statements: Statement) -> Body:
    """Statements in loops that are written out, the first axis outermost."""
    body: Body = statements
    for axis in reversed(axes):
        body = (Loop(Axis(axis, axis_size(axis), AxisKind.UNROLLED), body),)
    return body


def block_memory(name: str, elements: int, dtype: DType, scope: str) -> Buffer:
    """Memory of a block or of a thread."""
    return Buffer(name, TensorType((elements,), dtype), scope)
