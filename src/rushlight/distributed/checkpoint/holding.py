"""What one rank holds of the tensors of a state dict: a box of each, with its elements."""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.distributed.checkpoint.flat import Leaf
from rushlight.distributed.tensor.dtensor import DTensor
from rushlight.distributed.tensor.layout import Box, count_of, whole
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType
from rushlight.support.errors import require
from rushlight.support.frozen import frozen


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
        return count_of(self.box) * self.dtype.itemsize


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
    if not isinstance(tensor, DTensor):
        return Holding(Part(name, tensor.dtype, shape, whole(shape)), tensor.detach())
    (box,) = tensor.__create_chunk_list__()
    partial = any(placement.is_partial() for placement in tensor.placements)
    require(not partial, "P006", f"checkpoint: {name} is a sum over ranks", hint="redistribute it first", tensor=tensor)
    return Holding(Part(name, tensor.dtype, shape, box), tensor.to_local().detach())
