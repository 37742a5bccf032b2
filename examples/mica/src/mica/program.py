"""Programs: what the code generator made of a graph, run on descriptors with addresses of the device."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from mica.arena import Arena
from rushlight.build.executable import Executable
from rushlight.runtime import descriptor


class Program(Executable):
    """An executable in the arena. `inner` is the host's; it is launched on translated descriptors."""

    __slots__ = ("_arena", "_inner")

    def __init__(self, inner: Executable, arena: Arena) -> None:
        super().__init__(inner.input_types, inner.output_types, inner.summary, inner.cached)
        self._inner = inner
        self._arena = arena
        if inner.once is not None:
            self.once = Program(inner.once, arena)
            self.reads = inner.reads

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Any, ...] = ()) -> None:
        """Translate the descriptors, and run."""
        types = (*self.input_types, *self.output_types)
        kept: list[array[int]] = []
        translated: list[int] = []
        for address, type_ in zip(addresses, types, strict=True):
            words, own = self._translated(address, type_)
            kept.append(words)
            translated.append(own)
        self._inner.launch(translated, work, commit)

    def _translated(self, address: int, type_: Any) -> tuple[array[int], int]:
        start, shape, strides = descriptor.read(address, len(type_.shape))
        nbytes = descriptor.extent(shape, strides) * type_.dtype.itemsize
        if self._arena.owns(start):
            start = self._arena.translate(start, nbytes) if nbytes else 0
        elif shape and any(strides) and nbytes:
            # Parameters have no dims, and sizes travel as the shape of no elements; all else has to be in the arena.
            raise rl.DeviceError("V006", f"mica: a fault at address {start:#x}, which is the host's")
        return descriptor.describe(start, type_.dtype.code, shape, strides)
