"""Memory planning: intermediate values share an arena; a value's place is free again after its last reader."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from rushlight.ir.plan import ALIGNMENT, ArenaSlot, Launch
from rushlight.ir.scalar import Buffer
from rushlight.sym import Size, optimization_hint, product


def buffer_bytes(buffer: Buffer) -> Size:
    """The bytes of a dense buffer."""
    return product(buffer.type.shape) * buffer.type.dtype.itemsize


@dataclass(slots=True)
class _Place:
    """A buffer's place by hints, [start, end), and the buffers that end where it may begin."""

    buffer: Buffer
    size: Size
    start: int
    end: int
    below: list[_Place] = field(default_factory=list)


def plan_memory(launches: Sequence[Launch], outside: Container[Buffer] = ()) -> tuple[ArenaSlot, ...]:
    """The places of all arena buffers but those that have one `outside`.

    By hints each buffer takes, at its first use, the smallest gap that it fits in. What holds at run time is only the
    order that this gives: of two buffers that lie in the arena at once, one begins after the other has ended, whatever
    their sizes. So hints choose places, and sizes are exact.
    """
    last: dict[Buffer, int] = {}
    for step, launch in enumerate(launches):
        for buffer in launch.buffers:
            if buffer.scope == "arena" and buffer not in outside:
                last[buffer] = step
    arena = _Arena()
    places: dict[Buffer, _Place] = {}
    for step, launch in enumerate(launches):
        used = [buffer for buffer in dict.fromkeys(launch.buffers) if buffer in last]
        for buffer in used:
            if buffer not in places:
                places[buffer] = arena.take(buffer)
        for buffer in used:
            if last[buffer] == step:
                arena.free(places[buffer])
    ordered = sorted(places.values(), key=lambda place: place.start)
    numbers = {place.buffer: number for number, place in enumerate(ordered)}
    return tuple(
        [
            ArenaSlot(place.buffer, place.size, tuple([numbers[other.buffer] for other in place.below]))
            for place in ordered
        ]
    )


class _Arena:
    """Who lies where by hints. Every gap is bounded by living places, or by the arena's ends."""

    def __init__(self) -> None:
        self.starts: dict[int, _Place] = {}
        self.ends: dict[int, _Place] = {}
        self.gaps: dict[int, int] = {}  # from start to end
        self.gap_starts: dict[int, int] = {}  # and from end to start
        self.top = 0

    def take(self, buffer: Buffer) -> _Place:
        """A place for a buffer."""
        size = buffer_bytes(buffer)
        length = max(1, -(-optimization_hint(size) // ALIGNMENT)) * ALIGNMENT
        fitting = [(end - start, start) for start, end in self.gaps.items() if end - start >= length]
        if fitting:
            start = min(fitting)[1]
            end = self._close(start)
            if end > start + length:
                self._open(start + length, end)
        else:
            start = self._close_last()
            end = self.top = start + length
        place = _Place(buffer, size, start, start + length)
        if start in self.ends:
            place.below.append(self.ends[start])
        if end in self.starts:
            self.starts[end].below.append(place)
        self.starts[start] = self.ends[place.end] = place
        return place

    def free(self, place: _Place) -> None:
        """Gives a place back; neighbouring gaps become one."""
        start, end = place.start, place.end
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
        """Where a buffer begins that makes the arena longer: in a gap at its end, which is too small."""
        start = self.gap_starts.get(self.top)
        if start is None:
            return self.top
        self._close(start)
        return start
