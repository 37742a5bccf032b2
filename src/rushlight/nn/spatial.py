"""Arguments of layers over spatial dims: one value for all of the dims, or one for each."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T", bound=float | None)

PerDim = T | tuple[T, ...] | list[T]
"""One value for all spatial dims, or one for each."""


def per_dim(value: PerDim[T], dims: int) -> tuple[T, ...]:
    """Return a value for each spatial dim; a single value is for all of them."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * dims
