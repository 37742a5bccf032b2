"""Which boxes a sharding type divides a table into. The rules are TorchRec's, so that its plans mean the same here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from rushlight.recsys.planner.options import ShardingType
from rushlight.support.errors import fail

MIN_CW_DIM = 128  # columns of a shard, unless a constraint says otherwise

Boxes = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]


def calculate_shard_sizes_and_offsets(
    rows: int,
    columns: int,
    sharding_type: ShardingType,
    *,
    world_size: int,
    group_size: int,
    min_partition: int | None = None,
    memory: Sequence[int] = (),
) -> Boxes:
    """Return sizes and offsets of the shards of a table, [rows, columns] each.

    `group_size` is the number of ranks of a host, or of a group of hosts with fast links. `min_partition` is the least
    number of columns of a shard. With `memory`, a number of bytes for each rank, rows are divided in its proportion.

    calculate_shard_sizes_and_offsets(10, 64, ShardingType.ROW_WISE, world_size=4, group_size=4)
    """
    match sharding_type:
        case ShardingType.DATA_PARALLEL:
            return ((rows, columns),) * world_size, ((0, 0),) * world_size
        case ShardingType.TABLE_WISE:
            return ((rows, columns),), ((0, 0),)
        case ShardingType.ROW_WISE:
            counts = _rows_by_memory(rows, memory) if memory else row_blocks(rows, world_size)
            return grid(counts, (columns,))
        case ShardingType.TABLE_ROW_WISE:
            return grid(row_blocks(rows, group_size), (columns,))
        case ShardingType.COLUMN_WISE | ShardingType.TABLE_COLUMN_WISE:
            return grid((rows,), column_blocks(columns, min_partition))
        case ShardingType.GRID_SHARD:
            return grid(row_blocks(rows, group_size), column_blocks(columns, min_partition))


def grid(rows: Sequence[int], columns: Sequence[int]) -> Boxes:
    """Return the boxes of row blocks by column blocks, one column block after the other."""
    row_offsets = [0, *accumulate(rows)][: len(rows)]
    column_offsets = [0, *accumulate(columns)][: len(columns)]
    sizes = tuple([(height, width) for width in columns for height in rows])
    offsets = tuple([(row, column) for column in column_offsets for row in row_offsets])
    return sizes, offsets


def row_blocks(rows: int, count: int) -> tuple[int, ...]:
    """Return how many rows each of `count` shards has: ceil(rows / count), the last ones what is left, or none."""
    return blocks(rows, math.ceil(rows / count), count)


def blocks(whole: int, block: int, count: int) -> tuple[int, ...]:
    """Return the sizes of `count` blocks: `block` each, the last ones what is left, or none."""
    return tuple([min(block, max(0, whole - position * block)) for position in range(count)])


def column_blocks(columns: int, min_partition: int | None) -> tuple[int, ...]:
    """Return the columns of each shard: the least divisor from `min_partition` on that is a multiple of 4."""
    least = min_partition or MIN_CW_DIM
    divisors = (width for width in range(least, columns) if columns % width == 0 and width % 4 == 0)
    block = next(divisors, columns)
    return (block,) * (columns // block)


def _rows_by_memory(rows: int, memory: Sequence[int]) -> tuple[int, ...]:
    total = sum(memory)
    if total <= 0:
        fail("E020", "rows cannot be divided by memory that no rank has", memory=tuple(memory))
    counts = [int(rows * (part / total)) for part in memory[:-1]]
    return (*counts, rows - sum(counts))
