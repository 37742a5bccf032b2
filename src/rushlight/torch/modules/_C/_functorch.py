"""`torch._C._functorch`, as far as packages ask what `vmap` has made of a tensor."""

from __future__ import annotations

from rushlight.eager.batching.levels import level_of

__all__ = ["is_batchedtensor"]


def is_batchedtensor(value: object) -> bool:
    """Whether a tensor is mapped by `vmap`, at any level."""
    return level_of(value) is not None
