"""Reductions and scans over dims."""

from rushlight.ops.reduce import minmax, moment, reduction, scan, softmax

__all__ = [
    "minmax",
    "moment",
    "reduction",
    "scan",
    "softmax",
]
