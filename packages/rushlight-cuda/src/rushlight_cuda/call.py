"""One call of a program: the sizes and addresses that its descriptors give, and where its buffers lie."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rushlight.ir.plan import ALIGNMENT, Address, Plan
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType
from rushlight.runtime import descriptor
from rushlight.runtime.allocator import Storage
from rushlight.support.errors import fail
from rushlight.sym import Size, SizeExpr, evaluate

if TYPE_CHECKING:
    from rushlight_cuda.backend import Cuda

_RELATIONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


class Call:
    """The values of a plan's symbols, and the addresses of its buffers. Errors: R002 for sizes that do not hold."""

    def __init__(self, backend: Cuda, plan: Plan, types: Sequence[TensorType], addresses: Sequence[int]) -> None:
        self.backend, self.plan = backend, plan
        given = [descriptor.read(at, len(type_.shape)) for at, type_ in zip(addresses, types, strict=True)]
        self.symbols: dict[SizeExpr, int] = {}
        for source in plan.symbols:
            _, shape, strides = given[source.descriptor]
            self.symbols[source.symbol] = (shape if source.field == "size" else strides)[source.dim]
        self.addresses = {
            buffer: address for buffer, (address, _, _) in zip((*plan.inputs, *plan.outputs), given, strict=True)
        }
        # Tensors without dims may be numbers of the host's.
        self._numbers = [
            buffer
            for buffer, type_ in zip(plan.inputs, types, strict=False)
            if not type_.shape and type_.device.type != backend.name
        ]
        for assertion in plan.assertions:
            if not _RELATIONS[assertion.relation](self.size(assertion.left), self.size(assertion.right)):
                fail("R002", assertion.message)

    def size(self, size: Size) -> int:
        """The value of a size."""
        return size if isinstance(size, int) else evaluate(size, self.symbols)

    def word(self, word: Buffer | Address | Size) -> int:
        """The value of an argument word."""
        if isinstance(word, Buffer):
            return self.addresses[word]
        if isinstance(word, Address):
            return self.addresses[word.buffer] + self.size(word.offset) * word.buffer.type.dtype.itemsize
        return self.size(word)

    def place(self, arena: Storage | None) -> Storage | None:
        """Gives each slot its address; the arena, a new one if it was too short. Numbers lie behind the slots."""
        starts: list[int] = []
        ends: list[int] = []
        lengths: dict[Buffer | None, int] = {None: 0}
        for slot in self.plan.slots:
            starts.append(max([ends[position] for position in slot.after], default=0))
            ends.append(starts[-1] + _aligned(self.size(slot.size_bytes)))
            lengths[slot.within] = max(lengths.get(slot.within, 0), ends[-1])
        need = lengths.pop(None)
        behind: dict[Buffer, int] = {}  # slots that do not fit into the output that they would lie in
        for output, length in lengths.items():
            if output is not None and length > self._nbytes(output):
                behind[output] = need
                need += length
        numbers = need
        need += ALIGNMENT * len(self._numbers)
        if need and (arena is None or arena.nbytes < need):
            arena = self.backend.memory.allocate(need)
        base = 0 if arena is None else arena.address
        for slot, start in zip(self.plan.slots, starts, strict=True):
            within = slot.within
            fits = within is not None and within not in behind
            home = self.addresses[within] if within is not None and fits else base + (behind[within] if within else 0)
            self.addresses[slot.buffer] = home + start
        self._send(base + numbers)
        return arena

    def _nbytes(self, buffer: Buffer) -> int:
        return math.prod([self.size(size) for size in buffer.type.shape]) * buffer.type.dtype.itemsize

    def _send(self, first: int) -> None:
        """Copies numbers of the host to the device."""
        if not self._numbers:
            return
        data = np.zeros(ALIGNMENT * len(self._numbers), np.uint8)
        for position, buffer in enumerate(self._numbers):
            nbytes = buffer.type.dtype.itemsize
            data[ALIGNMENT * position :][:nbytes] = np.frombuffer(
                ctypes.string_at(self.addresses[buffer], nbytes), np.uint8
            )
            self.addresses[buffer] = first + ALIGNMENT * position
        self.backend.send(first, data)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
