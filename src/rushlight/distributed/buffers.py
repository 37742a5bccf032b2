"""Tensors as the contiguous buffers of one dim that engines take, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.distributed.engine.work import Work
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import attach, requires
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.autograd.node import Node
from rushlight.eager.dispatch import STATE, refuse_in_graphs
from rushlight.eager.memory import array_of, tensor_of
from rushlight.eager.tensor import Tensor
from rushlight.ir.process_group import Buffer
from rushlight.runtime.allocator import Storage
from rushlight.support.errors import fail, require


def checked_tensor(tensor: object, name: str) -> Tensor:
    """The tensor, with its data. A001 for anything else, C039 in a graph, V003 without data."""
    require(isinstance(tensor, Tensor), "A001", f"{name}: a tensor is expected", given=tensor)
    assert isinstance(tensor, Tensor)
    refuse_in_graphs(f"distributed.{name}", "it writes to its tensors; distributed._functional_collectives do not")
    return tensor


def checked_tensors(tensors: object, count: int, name: str) -> list[Tensor]:
    """The tensors of a list, one for each rank; A001 or A002 where it is something else."""
    require(isinstance(tensors, (list, tuple)), "A001", f"{name}: a list of tensors is expected", given=tensors)
    assert isinstance(tensors, (list, tuple))
    message = f"{name}: a list of {count} tensors is expected, one for each rank"
    require(len(tensors) == count, "A002", message, given=len(tensors))
    return [checked_tensor(tensor, name) for tensor in tensors]


def same_dtype(tensors: Sequence[Tensor], name: str) -> None:
    """D003 unless all tensors are of one dtype."""
    for tensor in tensors[1:]:
        if tensor.dtype is not tensors[0].dtype:
            fail("D003", f"{name}: all tensors have one dtype", first=tensors[0], other=tensor)


def read(tensor: Tensor) -> Buffer:
    """The elements in the order of dims: the tensor's memory where they lie so, else a copy."""
    return np.ascontiguousarray(array_of(tensor)).reshape(-1)


class WrittenByRanks(Node):
    """The node of a tensor with history that a collective has overwritten: backward through it is error G008."""

    __slots__ = ()

    def __init__(self, tensor: Tensor) -> None:
        super().__init__([edge_of(tensor)])

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """Fail."""
        hint = "use distributed.nn.functional, which has gradients, or call it on x.detach()"
        fail(
            "G008", "distributed: a collective that writes to its tensor has no derivative", frame=self.frame, hint=hint
        )


def _note_write(tensor: Tensor) -> None:
    """Count a write. What a tensor was computed from is no longer what it holds."""
    tensor.version.value += 1
    if STATE.grad and requires(tensor) and not tensor.is_leaf:
        attach(tensor if tensor.view_of is None else tensor.view_of.base, WrittenByRanks(tensor), 0)


class Target:
    """A tensor that a collective writes to: `buffer` is its memory, or lies beside it and is copied by `finish`.

    With `keeps` the buffer begins with the tensor's elements.
    """

    __slots__ = ("_aside", "_tensor", "buffer")

    def __init__(self, tensor: Tensor, *, keeps: bool = True) -> None:
        self._tensor = tensor
        here = tensor.backing.__class__ is Storage and tensor.is_contiguous()
        self._aside = not here
        if here or keeps:
            self.buffer = array_of(tensor).reshape(-1) if here else read(tensor).copy()
        else:
            self.buffer = np.empty(tensor.numel(), tensor.dtype.numpy)
        _note_write(tensor)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensor, in a list."""
        return [self._tensor]

    def finish(self) -> None:
        """Puts the elements into the tensor, where the buffer is not its memory."""
        if self._aside:
            with no_grad():
                self._tensor.copy_(tensor_of(self.buffer.reshape(tuple(self._tensor.shape))))


class Parts:
    """Several tensors that a collective writes to, as one buffer of their parts."""

    __slots__ = ("_tensors", "buffer", "counts")

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self.counts = [tensor.numel() for tensor in tensors]
        self.buffer: Buffer = np.empty(sum(self.counts), tensors[0].dtype.numpy)
        for tensor in tensors:
            _note_write(tensor)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors."""
        return list(self._tensors)

    def finish(self) -> None:
        """Puts the parts into the tensors."""
        begin = 0
        with no_grad():
            for tensor, count in zip(self._tensors, self.counts, strict=True):
                part = self.buffer[begin : begin + count].reshape(tuple(tensor.shape))
                tensor.copy_(tensor_of(part))
                begin += count


def joined(tensors: Sequence[Tensor]) -> Buffer:
    """The elements of several tensors, one after another."""
    return np.concatenate([read(tensor) for tensor in tensors])


def ended(work: Work, async_op: bool, *targets: Target | Parts | None) -> Work | None:
    """The work, whose targets are finished once it is complete; None where the call waits for it."""
    for target in targets:
        if target is not None:
            work.add_done_callback(target.finish)
            work.tensors += target.tensors
    if async_op:
        work.go_on()
        return work
    work.wait()
    return None
