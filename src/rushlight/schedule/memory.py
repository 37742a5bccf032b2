"""Memory planning: intermediate values share an arena; a value's place is free again after its last reader."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from rushlight.ir.plan import ArenaSlot, Launch
from rushlight.ir.scalar import Buffer
from rushlight.sym import Size, ceildiv, maximum, optimization_hint, product

ALIGNMENT = 64


@dataclass(slots=True)
class _Place:
    size: Size
    hint: int
    free_after: int
    buffers: list[Buffer]


def buffer_bytes(buffer: Buffer) -> Size:
    """The bytes of a dense buffer."""
    return product(buffer.type.shape) * buffer.type.dtype.itemsize


def plan_memory(launches: Sequence[Launch], outside: Container[Buffer] = ()) -> tuple[tuple[ArenaSlot, ...], Size]:
    """Offsets of all arena buffers but those that have a place `outside`, and the arena's size in bytes.

    Buffers are placed in order of first use. A freed place is taken again by one of provably equal size, or else by
    the closest larger one by hint, which then grows to the maximum of both: hints choose places, sizes are exact at
    run time.
    """
    last: dict[Buffer, int] = {}
    for step, launch in enumerate(launches):
        for buffer in launch.buffers:
            if buffer.scope == "arena" and buffer not in outside:
                last[buffer] = step
    places: list[_Place] = []
    seen: set[Buffer] = set()
    for step, launch in enumerate(launches):
        for buffer in launch.buffers:
            if buffer in last and buffer not in seen:
                seen.add(buffer)
                _put(buffer, step, last[buffer], places)
    offset: Size = 0
    slots: list[ArenaSlot] = []
    for place in places:
        slots.extend([ArenaSlot(buffer, offset, place.size) for buffer in place.buffers])
        offset = offset + ceildiv(place.size, ALIGNMENT) * ALIGNMENT
    return tuple(slots), offset


def _put(buffer: Buffer, step: int, last: int, places: list[_Place]) -> None:
    size = buffer_bytes(buffer)
    hint = optimization_hint(size)
    free = [place for place in places if place.free_after < step]
    same = [place for place in free if place.size == size]
    # Growing a place by half or more is worse than opening a new one: the small user would keep the large one's cache
    # cold.
    near = [place for place in free if place.hint >= hint and place.hint <= 4 * hint]
    if same:
        chosen = same[-1]
    elif near:
        chosen = min(near, key=lambda place: place.hint)
        chosen.size = maximum(chosen.size, size)
    else:
        places.append(_Place(size, hint, last, [buffer]))
        return
    chosen.free_after = last
    chosen.buffers.append(buffer)
