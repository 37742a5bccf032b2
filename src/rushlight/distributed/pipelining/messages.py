"""What goes between the stages of a pipeline: results forwards, their gradients backwards.

Before its first results a stage says of what shapes and dtypes these are, unless the one after it knows. Gradients are
of the shapes and dtypes of the results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.distributed.buffers import Target, read
from rushlight.distributed.engine.work import Work
from rushlight.distributed.group import ProcessGroup
from rushlight.distributed.pipelining.schedules import in_turn
from rushlight.eager.creation import empty
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import BY_NAME, DType
from rushlight.ir.process_group import Buffer
from rushlight.support.errors import require

Tensors = tuple[Tensor, ...]
_HEADER = 256  # whole numbers that say of what shapes and dtypes some tensors are
_DTYPES = tuple(BY_NAME.values())


class Messages:
    """The messages of the stages at one rank. `home` says at which rank of the group a stage lies."""

    def __init__(self, group: ProcessGroup, stages: int) -> None:
        self._group = group
        self._stages = stages
        self.home = in_turn(group.size)
        self._own: dict[tuple[int, int, int], Tensors] = {}  # between stages of this rank
        self._forms: dict[tuple[int, int], list[tuple[tuple[int, ...], DType]]] = {}
        self._silent: set[tuple[int, int]] = set()  # pairs whose receiver knows what comes
        self._sent: list[tuple[Work, Buffer]] = []

    def expect(self, sender: int, receiver: int, like: Sequence[Tensor]) -> None:
        """Know of what shapes and dtypes the tensors of a pair of stages are: nothing need say so."""
        self._silent.add((sender, receiver))
        self._forms[sender, receiver] = [(tuple(map(int, one.shape)), one.dtype) for one in like]

    def send(self, sender: int, receiver: int, at: int, tensors: Tensors) -> None:
        """Begin to send tensors of a microbatch from a stage to the next one, or the one before."""
        peer = self.home(receiver)
        if peer == self._group.rank:
            self._own[sender, receiver, at] = tensors
            return
        if (sender, receiver) not in self._silent:
            self._silent.add((sender, receiver))
            self._issue(_header(tensors), peer, self._tag(sender, receiver, -1))
        for one in tensors:
            self._issue(read(one).copy(), peer, self._tag(sender, receiver, at))

    def receive(self, sender: int, receiver: int, at: int) -> Tensors:
        """Wait for the tensors of a microbatch, and return them."""
        peer = self.home(sender)
        if peer == self._group.rank:
            return self._own.pop((sender, receiver, at))
        if (sender, receiver) not in self._forms:
            header = np.empty(_HEADER, np.int64)
            self._group.receive(header, peer, self._tag(sender, receiver, -1)).wait()
            self._forms[sender, receiver] = _forms_of(header)
        tensors = tuple([empty(shape, dtype=dtype) for shape, dtype in self._forms[sender, receiver]])
        for one in tensors:
            target = Target(one, keeps=False)
            self._group.receive(target.buffer, peer, self._tag(sender, receiver, at)).wait()
        return tensors

    def finish(self) -> None:
        """Wait until what was sent has been taken."""
        for work, _ in self._sent:
            work.wait()
        self._sent.clear()

    def _issue(self, buffer: Buffer, peer: int, tag: int) -> None:
        work = self._group.send(buffer, peer, tag)
        work.go_on()
        self._sent.append((work, buffer))

    def _tag(self, sender: int, receiver: int, at: int) -> int:
        """A tag for each microbatch of each pair of stages; their headers are number -1."""
        return ((at + 1) * self._stages + sender) * 2 + (receiver < sender)


def _header(tensors: Tensors) -> Buffer:
    numbers = [len(tensors)]
    for one in tensors:
        numbers += [_DTYPES.index(one.dtype), one.ndim, *[int(size) for size in one.shape]]
    fits = len(numbers) <= _HEADER
    require(fits, "A002", "pipelining: a stage gives fewer tensors, of fewer dims", tensors=len(tensors))
    return np.array([*numbers, *[0] * (_HEADER - len(numbers))], np.int64)


def _forms_of(header: Buffer) -> list[tuple[tuple[int, ...], DType]]:
    count, *numbers = [int(number) for number in header]
    forms: list[tuple[tuple[int, ...], DType]] = []
    for _ in range(count):
        dtype, rank, *numbers = numbers
        forms.append((tuple(numbers[:rank]), _DTYPES[dtype]))
        numbers = numbers[rank:]
    return forms
