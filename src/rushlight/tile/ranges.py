"""Ranges of loops over tiles, and what they select of a tensor.

A tile stands for the part of a range that one step of a loop works on. Programs cannot see how large it is: what a
program computes is what it computes with one tile that covers the whole range. So a loop over tiles runs its body
once, and the compiler is free to walk the range in any blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rushlight.eager.creation import arange
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle
from rushlight.eager.indexing import ANSWERS, Answer, dims_taken
from rushlight.eager.indexing import get as get_at
from rushlight.eager.indexing import put as put_at
from rushlight.eager.symbols import SymInt, unwrap_size, wrap_size
from rushlight.support.errors import require
from rushlight.sym import Size, SizeExpr, eq, guard_or_false, le, maximum, required
from rushlight.tile.jagged import jagged_tile

_RANGE = "a slice of the whole dim is the dim"
_EMPTY = "a step over a range without places adds nothing to sums, and what has no value there is an error"


class Tile:
    """The part of a range from `begin` to `end` on which one step of a loop works; it indexes tensors.

    `tile + 1` is the same number of places, one further on.
    """

    __slots__ = ("_begin", "_end", "name")

    def __init__(self, begin: Size, end: Size, name: str = "") -> None:
        self._begin = begin
        self._end = end
        self.name = name

    @property
    def begin(self) -> Any:
        """Its first place."""
        return wrap_size(self._begin)

    @property
    def end(self) -> Any:
        """The place behind its last one."""
        return wrap_size(self._end)

    @property
    def size(self) -> Any:
        """How many places it has."""
        return wrap_size(self._end - self._begin)

    @property
    def index(self) -> Any:
        """Its places, as a tensor of int64."""
        return arange(self.begin, self.end)

    def __add__(self, places: int | SymInt) -> Tile:
        offset: Size = unwrap_size(places)
        require(isinstance(offset, (int, SizeExpr)), "L003", "a tile is moved by an integer", by=places)
        return Tile(self._begin + offset, self._end + offset, f"{self.name} + {places}")

    __radd__ = __add__

    def __sub__(self, places: int | SymInt) -> Tile:
        return self + -places

    def within(self, size: Size, dim: int) -> slice:
        """What it selects of a dim. Errors: L001 unless it lies in it."""
        if guard_or_false(eq(self._begin, 0), _RANGE) and guard_or_false(eq(self._end, size), _RANGE):
            return slice(None)
        fits = required(le(0, self._begin)) and required(le(self._end, size))
        require(fits, "L001", f"{self!r} leaves dim {dim}, which has {size} places")
        return slice(self.begin, self.end)

    def __repr__(self) -> str:
        return f"tile {self.name or '?'} over {self._begin}:{self._end}"


class BlockSize:
    """A size of blocks that the machine chooses: programs hand it on to `tile(..., block=size)`."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: Size) -> None:
        self.low = low
        self.high = high

    def __repr__(self) -> str:
        return f"block of {self.low} to {self.high}"


class DeclaredLoop(NamedTuple):
    """A range of a loop over tiles, and its blocks: from `low` to `high` places, 0 for any number."""

    extent: Size
    low: int
    high: int


class LoopRecorder:
    """A tracer that hears of the ranges of loops over tiles."""

    loops: list[DeclaredLoop]


def register_block_size(low: int | SymInt, high: int | SymInt | None = None) -> BlockSize:
    """A block size for the machine to choose: from 1 to the first number, or from `low` to `high`."""
    first, last = (1, low) if high is None else (low, high)
    size: Size = unwrap_size(last)
    valid = isinstance(first, int) and first >= 1 and isinstance(size, (int, SizeExpr))
    require(valid, "L003", "register_block_size: block sizes are from 1 to a size", low=first, high=last)
    assert isinstance(first, int)
    return BlockSize(first, size)


def tile(*ranges: object, block: object = None) -> Iterator[Any]:
    """The steps of a loop over tiles: `for i in tile(n)`, `for i, j in tile(m, n)`.

    A range is a size, a pair `(begin, end)`, or a tile, whose range is divided further. `block` says how large blocks
    are: an int, what `register_block_size` gives, None for any, or a list of these, one for each range. The compiler
    follows it where the range is as long as a dim of an argument, and the loop has not become one with another. A range
    without places has no step. `for k in tile(offsets[b], offsets[b + 1])` has a range for each row of a tile `b`.
    """
    listed = ranges[0] if len(ranges) == 1 and isinstance(ranges[0], list) else ranges
    assert isinstance(listed, Sequence)
    require(len(listed) > 0, "L003", "tile: a loop needs a range")
    blocks = _blocks_of(block, len(listed))
    if len(listed) == 2 and isinstance(listed[0], Handle) and isinstance(listed[1], Handle):
        yield jagged_tile(listed[0], listed[1])
        return
    tiles = [_tile(part, "ijklmn"[at % 6]) for at, part in enumerate(listed)]
    tracer = STATE.tracer
    if isinstance(tracer, LoopRecorder):
        tracer.loops += [_declared(one, chosen) for one, chosen in zip(tiles, blocks, strict=True)]
    for one in tiles:
        if guard_or_false(le(one._end - one._begin, 0), _EMPTY):
            return
    yield tiles[0] if len(tiles) == 1 else tuple(tiles)


def _declared(one: Tile, block: object) -> DeclaredLoop:
    extent = one._end - one._begin
    if isinstance(block, BlockSize):
        return DeclaredLoop(extent, block.low, block.high if isinstance(block.high, int) else 0)
    return DeclaredLoop(extent, block, block) if isinstance(block, int) else DeclaredLoop(extent, 1, 0)


def _tile(part: object, name: str) -> Tile:
    if isinstance(part, Tile):
        return Tile(part._begin, part._end, part.name)
    begin, end = part if isinstance(part, tuple) and len(part) == 2 else (0, part)
    first, last = unwrap_size(begin), unwrap_size(end)
    for bound in (first, last):
        fits = isinstance(bound, (int, SizeExpr)) and not isinstance(bound, bool)
        require(fits, "L003", "tile: a range is a size, a pair of sizes or a tile", range=part)
    return Tile(first, maximum(first, last), name)


def _blocks_of(block: object, count: int) -> Sequence[object]:
    """The block of each range."""
    blocks = block if isinstance(block, (list, tuple)) else [block] * count
    require(len(blocks) == count, "L003", "tile: there is a block for each range", blocks=len(blocks), ranges=count)
    for one in blocks:
        fits = one is None or isinstance(one, BlockSize) or (isinstance(one, int) and one >= 1)
        require(fits, "L003", "tile: a block is a positive int, None, or from register_block_size", block=one)
    return blocks


def _plain(tensor: Handle, index: object) -> tuple[object, ...]:
    """An index with slices in place of tiles."""
    parts = index if isinstance(index, tuple) else (index,)
    taken = sum([1 if isinstance(part, Tile) else dims_taken(part) for part in parts if part is not Ellipsis])
    require(taken <= tensor.ndim, "L001", f"{taken} indices for a tensor of {tensor.ndim} dims", tensor=tensor)
    plain: list[object] = []
    dim = 0
    for part in parts:
        if isinstance(part, Tile):
            plain.append(part.within(tensor.form.shape[dim], dim))
            dim += 1
        elif part is Ellipsis:
            plain.append(part)
            dim += tensor.ndim - taken
        else:
            plain.append(part)
            dim += dims_taken(part)
    return tuple(plain)


def _get(tensor: Handle, index: object) -> Any:
    return get_at(tensor, _plain(tensor, index))


def _put(tensor: Handle, index: object, value: object) -> None:
    put_at(tensor, _plain(tensor, index), value)


ANSWERS[Tile] = Answer(_get, _put)
