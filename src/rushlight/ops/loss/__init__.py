"""Losses."""

from rushlight.ops.loss import classification, elementwise

__all__ = [
    "classification",
    "elementwise",
]
