"""Reading and writing at indices that tensors hold, and finding such indices."""

from rushlight.ops.index import order, ranged, read, search, write

__all__ = [
    "order",
    "ranged",
    "read",
    "search",
    "write",
]
