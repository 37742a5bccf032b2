"""Tensors that share memory with other libraries' arrays: PyTorch's `torch.utils.dlpack`, and more."""

from __future__ import annotations

import sys
from typing import Any

from rushlight.eager.boundary import checked
from rushlight.eager.creation import from_dlpack
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail

__all__ = ["from_dlpack", "from_torch", "to_dlpack", "to_torch"]


@checked
def to_dlpack(tensor: Tensor) -> object:
    """Return a capsule of the DLPack protocol on a tensor's memory."""
    return tensor.__dlpack__()


def from_torch(tensor: object) -> Tensor:
    """Return a tensor on the memory of a tensor of PyTorch's, without its history.

    >>> x = rl.from_torch(torch.ones(2))
    """
    if not (hasattr(tensor, "detach") and hasattr(tensor, "__dlpack__")):
        fail("A001", "from_torch: not a tensor of PyTorch's", tensor=type(tensor).__name__)
    peer: Any = tensor
    return from_dlpack(peer.detach())


@checked
def to_torch(tensor: Tensor) -> Any:
    """Return a tensor of PyTorch's on a tensor's memory, where a program has imported torch.

    >>> import torch
    >>> y = rl.to_torch(rl.ones(2))
    """
    peer: Any = sys.modules.get("torch")
    if not hasattr(peer, "from_dlpack") or getattr(peer, "Tensor", None) is Tensor:
        fail("A006", "to_torch: the program has not imported PyTorch", hint="import torch first")
    return peer.from_dlpack(tensor)
