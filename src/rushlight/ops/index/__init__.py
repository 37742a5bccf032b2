"""Reading and writing at indices that tensors hold, and finding such indices."""

from rushlight.ops.index import order, read, search, write

__all__ = [
    "order",
    "read",
    "search",
    "write",
]
