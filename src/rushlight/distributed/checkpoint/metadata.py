"""What a checkpoint holds, as PyTorch's programs ask for it: `FileSystemReader(path).read_metadata()`."""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.distributed.checkpoint.index import Index
from rushlight.distributed.tensor.layout import shape_of, starts_of
from rushlight.eager.tensor_meta import Size
from rushlight.ir.dtype import DType
from rushlight.support.frozen import frozen

__all__ = ["BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "TensorProperties", "TensorStorageMetadata"]


@frozen
class TensorProperties:
    """What a tensor has besides its sizes."""

    dtype: DType


@frozen
class ChunkStorageMetadata:
    """A box of a tensor: where it begins, and its sizes."""

    offsets: Size
    sizes: Size


@frozen
class TensorStorageMetadata:
    """A tensor of a checkpoint, and the boxes that it is stored in."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@frozen
class BytesStorageMetadata:
    """A value that is no tensor."""


@frozen
class Metadata:
    """What a checkpoint holds, by flat names."""

    state_dict_metadata: Mapping[str, TensorStorageMetadata | BytesStorageMetadata]


def metadata_of(index: Index) -> Metadata:
    """Return what an index says."""
    found: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    for name, entry in index.tensors.items():
        boxes = [piece.box for piece in entry.pieces]
        chunks = [ChunkStorageMetadata(Size(starts_of(box)), Size(shape_of(box))) for box in boxes]
        found[name] = TensorStorageMetadata(TensorProperties(entry.dtype), Size(entry.shape), chunks)
    found.update({name: BytesStorageMetadata() for name in index.objects})
    return Metadata(found)
