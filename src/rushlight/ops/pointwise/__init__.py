"""Operators that compute each element from the elements at the same index."""

from rushlight.ops.pointwise import activation, arithmetic, comparison, complex, elementary, powers, rounding, selection

__all__ = [
    "activation",
    "arithmetic",
    "comparison",
    "complex",
    "elementary",
    "powers",
    "rounding",
    "selection",
]
