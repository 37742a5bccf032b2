"""How the tables of a collection are divided among ranks: each is covered by boxes of rows and columns.

Every sharding type is such a cover: one box (table-wise), boxes of all columns (row-wise), of all rows (column-wise),
or a grid. Rows are cut wherever a box of their table begins or ends, so that the boxes of a *row block* have the same
rows, and an id is looked up in one block. What a rank holds of a row block is one local table.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rushlight.recsys.sparse.segments import prefix_sums
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen

Range = tuple[int, int]


@frozen
class TableBox:
    """A box of a table, and the rank that holds it."""

    rows: Range
    columns: Range
    rank: int


@frozen
class Held:
    """What a rank holds of a row block: ranges of columns, which lie side by side in a local table."""

    table: int
    block: int
    rows: Range
    columns: tuple[Range, ...]

    @property
    def height(self) -> int:
        """Its number of rows."""
        return self.rows[1] - self.rows[0]

    @property
    def width(self) -> int:
        """Its number of columns."""
        return sum([end - first for first, end in self.columns])


@frozen
class Route:
    """Ids of a slot that go to a rank: those of one row block."""

    slot: int
    held: Held


class Cover:
    """Covers of all tables of a collection; `slots` says which table each feature reads.

    `starts[table]` are the first rows of its blocks, `held[rank]` the local tables of a rank, and `routes[rank]` what
    it is sent, both by table, block and slot. `first_blocks` are the numbers of the slots' first blocks, counted
    through all slots, and at last that of all blocks. E024 where boxes do not make up a table.
    """

    def __init__(
        self,
        names: Sequence[str],
        shapes: Sequence[tuple[int, int]],
        boxes: Sequence[Sequence[TableBox]],
        slots: Sequence[int],
        ranks: int,
    ) -> None:
        self.shapes = tuple(shapes)
        self.starts: list[list[int]] = []
        self.held: list[list[Held]] = [[] for _ in range(ranks)]
        self.holders: dict[tuple[int, int], list[int]] = {}
        for table, (name, shape, own) in enumerate(zip(names, shapes, boxes, strict=True)):
            self._divide(table, name, shape, [box for box in own if _count(box)], ranks)
        self.slots = tuple(slots)
        self.first_blocks = prefix_sums([len(self.starts[table]) for table in slots])
        of_table: list[list[int]] = [[] for _ in names]
        for slot, table in enumerate(slots):
            of_table[table].append(slot)
        self.routes = [[Route(slot, part) for part in held for slot in of_table[part.table]] for held in self.held]

    def _divide(self, table: int, name: str, shape: tuple[int, int], boxes: Sequence[TableBox], ranks: int) -> None:
        for box in boxes:
            if not 0 <= box.rank < ranks:
                fail("E024", f"table {name!r} has a shard on rank {box.rank}, and there are {ranks} ranks")
        cuts = sorted({0, shape[0], *[end for box in boxes for end in box.rows]})
        if cuts[0] < 0 or cuts[-1] > shape[0]:
            fail(
                "E024", f"the shards of table {name!r} have rows that it has not", rows=(cuts[0], cuts[-1]), shape=shape
            )
        self.starts.append(cuts[:-1])
        for block, rows in enumerate(itertools.pairwise(cuts)):
            inside = [box for box in boxes if box.rows[0] <= rows[0] and rows[1] <= box.rows[1]]
            _require_row(name, shape, rows, [box.columns for box in inside])
            holders = sorted({box.rank for box in inside})
            self.holders[table, block] = holders
            for rank in holders:
                columns = tuple(sorted([box.columns for box in inside if box.rank == rank]))
                self.held[rank].append(Held(table, block, rows, columns))

    def is_divided(self) -> bool:
        """Return whether the rows of a table are in several blocks."""
        return any(len(starts) > 1 for starts in self.starts)

    def widths(self, rank: int) -> list[int]:
        """Return the columns of each route of a rank."""
        return [route.held.width for route in self.routes[rank]]


def _count(box: TableBox) -> int:
    return (box.rows[1] - box.rows[0]) * (box.columns[1] - box.columns[0])


def _require_row(name: str, shape: tuple[int, int], rows: Range, columns: Sequence[Range]) -> None:
    """E024 unless ranges of columns, one after another, are those of whole rows."""
    ends = [0, *[end for part in sorted(columns) for end in part], shape[1]]
    if any(one != other for one, other in zip(ends[::2], ends[1::2], strict=True)):
        message = f"the shards of table {name!r} do not make up all of it once"
        fail("E024", message, rows=rows, columns=sorted(columns), shape=shape)
