"""`torch._utils`: many tensors as one vector, and back."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import Tensor, cat

__all__ = ["_flatten_dense_tensors", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of all tensors, one after the other."""
    return cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return parts of a vector with the shapes of tensors."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple([part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)])
