"""What one rank holds of the tensors of a state dict: a box of each, with its elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from rushlight.distributed.checkpoint.box import Box, whole
from rushlight.distributed.checkpoint.flat import Leaf
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType
from rushlight.support.errors import require
from rushlight.support.frozen import frozen


@runtime_checkable
class Sharded(Protocol):
    """A tensor of which each rank holds a box."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of all of it."""
        ...

    def to_local(self) -> Tensor:
        """Return what this rank holds."""
        ...

    def local_offsets(self) -> tuple[int, ...]:
        """Return where that begins, along each dim."""
        ...


@frozen
class Part:
    """What all ranks know of a box of a tensor."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    box: Box

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.box.numel * self.dtype.itemsize


@frozen(eq=False)
class Holding:
    """A box of a tensor and its elements, which are this rank's own memory."""

    part: Part
    tensor: Tensor


def holdings(leaves: Mapping[str, Leaf]) -> dict[str, Holding]:
    """Return what this rank holds of the tensors among the leaves of a state dict."""
    return {name: _holding(name, leaf.value) for name, leaf in leaves.items() if isinstance(leaf.value, Tensor)}


def _holding(name: str, tensor: Tensor) -> Holding:
    shape = tuple([int(size) for size in tensor.shape])
    if not isinstance(tensor, Sharded):
        return Holding(Part(name, tensor.dtype, shape, whole(shape)), tensor.detach())
    local = tensor.to_local().detach()
    box = Box(tuple(tensor.local_offsets()), tuple([int(size) for size in local.shape]))
    require(box.fits(shape), "X001", f"checkpoint: the local part of {name} lies outside of it")
    return Holding(Part(name, tensor.dtype, shape, box), local)
