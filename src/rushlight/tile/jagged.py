"""Jagged ranges: `for k in tile(offsets[b], offsets[b + 1])`, a range of its own for each row of a tile `b`.

What such a tile loads has two dims in place of one: the rows of `b`, and the members of each row's range. It is kept
as all members in a row, and sums over them are loops that end where the offsets say (`ir/ragged.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle
from rushlight.eager.indexing import ANSWERS, Answer
from rushlight.eager.symbols import wrap_size
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require

_SLICE = OPERATORS["slice"]


class JaggedTile:
    """The members of the ranges that offsets bound; it is the first index of a tensor."""

    __slots__ = ("offsets",)

    def __init__(self, offsets: Any) -> None:
        self.offsets = offsets

    @property
    def sizes(self) -> Any:
        """How many members each range has."""
        return self.offsets[1:] - self.offsets[:-1]

    def __repr__(self) -> str:
        return "jagged tile"


class Jagged:
    """What a jagged tile loads: arithmetic on it is member by member."""

    __slots__ = ("members", "tile")

    def __init__(self, members: Any, tile: JaggedTile) -> None:
        self.members = members
        self.tile = tile

    def map(self, function: Callable[..., Any], *others: object) -> Jagged:
        """A pointwise function of the members, and of those of others in the same ranges, or numbers."""
        for other in others:
            same = isinstance(other, (int, float)) or (isinstance(other, Jagged) and other.tile is self.tile)
            require(same, "L004", "a jagged tile goes with others of the same ranges, and numbers", other=str(other))
        values = [other.members if isinstance(other, Jagged) else other for other in others]
        return Jagged(function(self.members, *values), self.tile)

    def __add__(self, other: object) -> Jagged:
        return self.map(lambda a, b: a + b, other)

    def __sub__(self, other: object) -> Jagged:
        return self.map(lambda a, b: a - b, other)

    def __mul__(self, other: object) -> Jagged:
        return self.map(lambda a, b: a * b, other)

    def __truediv__(self, other: object) -> Jagged:
        return self.map(lambda a, b: a / b, other)

    def sum(self, dim: int) -> Any:
        """The sum over the members of each range: `dim` is 1."""
        require(dim == 1, "L004", "a jagged tile is summed over dim 1, its members", dim=dim)
        rest = self.members.shape[1:]
        rows = self.members.reshape(self.members.shape[0], math.prod(rest))
        sums = OPERATORS["segment_sum"](rows, self.tile.offsets)
        return sums.reshape(sums.shape[0], *rest)

    def mean(self, dim: int) -> Any:
        """The mean over the members of each range; of none it is NaN."""
        total = self.sum(dim)
        return total / self.tile.sizes.to(total.dtype).reshape(-1, *[1] * (total.ndim - 1))

    def __repr__(self) -> str:
        return f"jagged {self.members.form.type}"


def jagged_tile(starts: Handle, ends: Handle) -> JaggedTile:
    """The tile of the ranges `offsets[b]` to `offsets[b + 1]`. Errors: L003 for other starts and ends."""
    tracer = STATE.tracer
    require(tracer is not None, "L003", "tile: jagged ranges are those of a kernel")
    bindings = [tracer.binding(bound) for bound in (starts, ends)]
    slices = [dict(binding.steps[-1][2]) for binding in bindings if [step[0] for step in binding.steps] == [_SLICE]]
    follows = len(slices) == 2 and bindings[0].cell is bindings[1].cell
    if not follows or any(slices[0][name] + 1 != slices[1][name] for name in ("start", "end")):
        hint = "write it so: `tile(offsets[b], offsets[b + 1])`"
        fail("L003", "tile: a jagged range is from offsets[b] to offsets[b + 1]", starts=starts, ends=ends, hint=hint)
    offsets = tracer.wrap(bindings[0].cell.node)
    return JaggedTile(offsets[wrap_size(slices[0]["start"]) : wrap_size(slices[1]["end"])])


def _get(tensor: Handle, index: object) -> Any:
    first, *rest = index if isinstance(index, tuple) else (index,)
    require(isinstance(first, JaggedTile), "L004", "a jagged tile is the first index", tensor=tensor)
    assert isinstance(first, JaggedTile)
    whole: Any = tensor
    return Jagged(whole[(slice(None), *rest)], first)


def _put(tensor: Handle, index: object, value: object) -> NoReturn:
    fail("A006", "what a jagged tile selects cannot be written", hint="write rows of the tile, or use `store`")


ANSWERS[JaggedTile] = Answer(_get, _put)
