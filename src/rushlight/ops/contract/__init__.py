"""Contractions: matrix products, einsum and attention."""

from rushlight.ops.contract import attention, bilinear, einsum, matmul

__all__ = [
    "attention",
    "bilinear",
    "einsum",
    "matmul",
]
