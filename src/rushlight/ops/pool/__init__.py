"""Pooling over windows."""

from rushlight.ops.pool import pool_nd, window

__all__ = [
    "pool_nd",
    "window",
]
