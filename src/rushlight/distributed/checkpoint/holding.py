"""What one rank holds of the tensors of a state dict: boxes of each, with their elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class Divided(Protocol):
    """A tensor of which a rank holds some boxes, or none."""

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of all of it."""
        ...

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        ...

    def __create_chunk_list__(self) -> list[Box]:
        """Where this rank's parts lie."""
        ...

    def __get_tensor_shard__(self, index: int) -> Tensor:
        """One of this rank's parts."""
        ...


def is_tensor(value: object) -> bool:
    """Whether a value of a state dict is saved as a tensor."""
    return isinstance(value, Tensor | Divided)


def holdings(leaves: Mapping[str, Leaf]) -> dict[str, tuple[Holding, ...]]:
    """Return what this rank holds of the tensors among the leaves of a state dict: boxes of each."""
    return {name: _held(name, leaf.value) for name, leaf in leaves.items() if is_tensor(leaf.value)}


def _held(name: str, value: object) -> tuple[Holding, ...]:
    if isinstance(value, Tensor) and not isinstance(value, DTensor):
        shape = tuple([int(size) for size in value.shape])
        return (Holding(Part(name, value.dtype, shape, whole(shape)), value.detach()),)
    assert isinstance(value, Divided)
    shape = tuple([int(size) for size in value.shape])
    partial = isinstance(value, DTensor) and any(placement.is_partial() for placement in value.placements)
    require(not partial, "P006", f"checkpoint: {name} is a sum over ranks", hint="redistribute it first", tensor=value)
    boxes = value.__create_chunk_list__()
    parts = [value.__get_tensor_shard__(place).detach() for place in range(len(boxes))]
    return tuple([Holding(Part(name, value.dtype, shape, box), part) for box, part in zip(boxes, parts, strict=True)])
