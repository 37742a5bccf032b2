"""Memory formats, layouts and storages under the names that they have in the public namespace."""

from rushlight.eager.storage.formats import MemoryFormat as _MemoryFormat
from rushlight.eager.storage.formats import StorageLayout as _StorageLayout
from rushlight.eager.storage.formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from rushlight.eager.storage.untyped import UntypedStorage

__all__ = [
    "UntypedStorage",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "jagged",
    "layout",
    "memory_format",
    "preserve_format",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]

layout = _StorageLayout
memory_format = _MemoryFormat
