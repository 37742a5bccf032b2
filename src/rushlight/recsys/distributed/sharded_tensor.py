"""A tensor of which each rank holds boxes: what state dicts and checkpoints have of divided tables."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import Size, Tensor
from rushlight.distributed.tensor.layout import Box, box_at, shape_of, starts_of
from rushlight.ir.dtype import DType
from rushlight.recsys.distributed.plans import ShardMetadata
from rushlight.support.frozen import frozen


@frozen(eq=False)
class Shard:
    """A box of a tensor that is on this rank, and where it lies."""

    tensor: Tensor
    metadata: ShardMetadata

    @staticmethod
    def of(tensor: Tensor, box: Box, rank: int) -> Shard:
        """Return what a rank has of a box."""
        return Shard(tensor, ShardMetadata(starts_of(box), shape_of(box), rank))


class ShardedTensor:
    """A tensor of a size, of which this rank holds some boxes, or none.

    state["embedding_bags.t.weight"].local_shards()[0].tensor
    """

    def __init__(self, size: Sequence[int], dtype: DType, shards: Sequence[Shard]) -> None:
        self.shape, self.dtype = Size(size), dtype
        self._shards = list(shards)

    def size(self, dim: int | None = None) -> Size | int:
        """Return the size of all of it, or of a dim."""
        return self.shape if dim is None else self.shape[dim]

    def local_shards(self) -> list[Shard]:
        """Return the boxes that are on this rank."""
        return list(self._shards)

    def __create_chunk_list__(self) -> list[Box]:
        """Where this rank's parts lie: for checkpoints."""
        return [box_at(shard.metadata.shard_offsets, shard.metadata.shard_sizes) for shard in self._shards]

    def __get_tensor_shard__(self, index: int) -> Tensor:
        """One of this rank's parts."""
        return self._shards[index].tensor

    def __repr__(self) -> str:
        return f"ShardedTensor({list(self.shape)}, {self.dtype}, local={self.__create_chunk_list__()})"
