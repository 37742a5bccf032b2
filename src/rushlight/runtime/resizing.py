"""Storages that are resized in place: all tensors on them follow.

What a storage had before lives as long as it does, since arrays may show it. So one that shrinks keeps its memory, and
one that grows again and again takes half as much again each time.
"""

from __future__ import annotations

from rushlight.runtime.allocator import CPU, Storage


class Room:
    """Memory of a resized storage: its `capacity`, the memory itself, and what was there before."""

    __slots__ = ("before", "capacity", "memory")

    def __init__(self, capacity: int, memory: Storage | None, before: object) -> None:
        self.capacity, self.memory, self.before = capacity, memory, before


def is_resizable(storage: Storage) -> bool:
    """Whether memory is this process's own: neither mapped, nor an array's."""
    return storage.__class__ is Storage and (storage.owner is None or isinstance(storage.owner, Room))


def resize(storage: Storage, nbytes: int) -> None:
    """Gives a resizable storage another size; bytes that it had not are undefined. Errors: M001."""
    room = storage.owner if isinstance(storage.owner, Room) else Room(storage.nbytes, None, None)
    if nbytes > room.capacity:
        capacity = nbytes if room.memory is None else max(nbytes, room.capacity * 3 // 2)
        memory = CPU.allocate(capacity)
        memory.write(0, storage.view())
        room = Room(capacity, memory, room)
        storage.address = memory.address
    storage.owner, storage.nbytes = room, nbytes
