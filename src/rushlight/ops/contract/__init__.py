"""Contractions: matrix products, einsum and attention."""

from rushlight.ops.contract import attention, einsum, matmul

__all__ = [
    "attention",
    "einsum",
    "matmul",
]
