"""Pooling over windows."""

from rushlight.ops.pool import adaptive_max, pool_nd, window

__all__ = [
    "adaptive_max",
    "pool_nd",
    "window",
]
