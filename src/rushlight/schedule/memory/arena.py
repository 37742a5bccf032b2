"""Memory planning: intermediate values share the arena, and outputs that are not written yet.

A slot is free after the last reader of its value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from rushlight.ir.plan import ALIGNMENT, ArenaSlot, Launch
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import dense_order
from rushlight.sym import Size, optimization_hint, product

# Outputs of at least this many bytes hold intermediate values until they are written.
LENT_BYTES = 1 << 20
# A value that lives for more launches than this has left the caches.
SHORT_WHILE = 16


def buffer_bytes(buffer: Buffer) -> Size:
    """The bytes of a dense buffer."""
    return product(buffer.type.shape) * buffer.type.dtype.itemsize


def _is_dense(buffer: Buffer) -> bool:
    """Whether a buffer's elements lie side by side, in any order of its dims."""
    return dense_order(buffer.type.shape, buffer.type.strides) is not None


@dataclass(slots=True)
class _Place:
    """The interval [start, end) of a buffer by size hints, and the places that must end before it begins."""

    buffer: Buffer
    size: Size
    memory: _Memory
    start: int
    end: int
    below: list[_Place] = field(default_factory=list)


def plan_memory(
    launches: Sequence[Launch],
    outputs: Sequence[Buffer],
    outside: Container[Buffer] = (),
    kept: Sequence[Buffer] = (),
) -> tuple[ArenaSlot, ...]:
    """The slots of all arena buffers: in the arena, or in large outputs before these are written.

    Buffers in `outside` have memory already. Those that are `kept` are read after the last launch.

    Each buffer takes, at its first use, the smallest gap that it fits in by size hints. At run time only the resulting
    order holds: of two buffers that are alive at once in one memory, one begins after the other has ended, whatever
    their sizes. So hints choose the layout, and sizes are exact.
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for step, launch in enumerate(launches):
        for buffer in launch.buffers:
            first.setdefault(buffer, step)
            last[buffer] = step
    last.update(dict.fromkeys(kept, len(launches)))
    memories = _Memories(first, outputs)
    places: dict[Buffer, _Place] = {}
    for step, launch in enumerate(launches):
        buffers = dict.fromkeys(launch.buffers)
        used = [buffer for buffer in buffers if buffer.scope == "arena" and buffer not in outside]
        for buffer in used:
            if buffer not in places:
                places[buffer] = memories.take(buffer, step, last[buffer])
        for buffer in used:
            if last[buffer] == step:
                places[buffer].memory.free(places[buffer])
    ordered = sorted(places.values(), key=lambda slot: slot.start)
    numbers = {slot.buffer: number for number, slot in enumerate(ordered)}
    slots: list[ArenaSlot] = []
    for position in ordered:
        after = tuple([numbers[other.buffer] for other in position.below])
        slots.append(ArenaSlot(position.buffer, position.size, after, position.memory.output))
    return tuple(slots)


class _Memories:
    """The arena, and the outputs in the order in which they are first written."""

    def __init__(self, first: Mapping[Buffer, int], outputs: Sequence[Buffer]) -> None:
        self.arena = _Memory(None, None)
        position = [(first[buffer], index) for index, buffer in enumerate(outputs) if buffer in first]
        lent: list[tuple[int, _Memory]] = []
        for step, number in sorted(position):
            size = optimization_hint(buffer_bytes(outputs[number]))
            if size >= LENT_BYTES and _is_dense(outputs[number]):
                lent.append((step, _Memory(outputs[number], size)))
        self.steps = [step for step, _ in lent]
        self.outputs = [memory for _, memory in lent]

    def take(self, buffer: Buffer, step: int, last: int) -> _Place:
        """A place for a buffer that is used from one launch to another.

        For a short while it lies best where something was a moment ago.
        """
        size = buffer_bytes(buffer)
        length = max(1, -(-optimization_hint(size) // ALIGNMENT)) * ALIGNMENT
        lent = self.outputs[bisect_right(self.steps, last) :]
        order = [*lent, self.arena] if last - step > SHORT_WHILE else [self.arena, *lent]
        for memory in order:
            gap = memory.gap(length)
            if gap is not None:
                return memory.take(buffer, size, length, gap)
        return self.arena.take(buffer, size, length, None)


class _Memory:
    """The layout of the arena or of an output by size hints; gaps lie between living places or the ends."""

    def __init__(self, output: Buffer | None, length: int | None) -> None:
        self.output = output
        self.starts: dict[int, _Place] = {}
        self.ends: dict[int, _Place] = {}
        self.gaps: dict[int, int] = {}  # from start to end
        self.gap_starts: dict[int, int] = {}  # and from end to start
        self.top = length or 0
        if length:
            self._open(0, length)

    def gap(self, length: int) -> int | None:
        """The start of the smallest gap of at least some length, or None."""
        fitting = [(end - start, start) for start, end in self.gaps.items() if end - start >= length]
        return min(fitting)[1] if fitting else None

    def take(self, buffer: Buffer, size: Size, length: int, gap: int | None) -> _Place:
        """A place in a gap, or behind everything."""
        if gap is not None:
            start, end = gap, self._close(gap)
            if end > start + length:
                self._open(start + length, end)
        else:
            start = self._close_last()
            end = self.top = start + length
        slot = _Place(buffer, size, self, start, start + length)
        if start in self.ends:
            slot.below.append(self.ends[start])
        if end in self.starts:
            self.starts[end].below.append(slot)
        self.starts[start] = self.ends[slot.end] = slot
        return slot

    def free(self, slot: _Place) -> None:
        """Frees a place and merges neighbouring gaps."""
        start, end = slot.start, slot.end
        del self.starts[start], self.ends[end]
        if end in self.gaps:
            end = self._close(end)
        if start in self.gap_starts:
            before = self.gap_starts[start]
            self._close(before)
            start = before
        self._open(start, end)

    def _open(self, start: int, end: int) -> None:
        self.gaps[start] = end
        self.gap_starts[end] = start

    def _close(self, start: int) -> int:
        end = self.gaps.pop(start)
        del self.gap_starts[end]
        return end

    def _close_last(self) -> int:
        """The start of a buffer that makes the arena grow: in a last gap that is too small, or behind it."""
        start = self.gap_starts.get(self.top)
        if start is None:
            return self.top
        self._close(start)
        return start
