"""Memory that several processes see: files without a name, mapped by each of them.

Such a file lives as long as a process has it open or mapped, so nothing is left over where a process is killed. A
storage becomes shared in place: all tensors on it follow. Forked processes see it as they are; others get the file's
descriptor, and map it (`adopt`).
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from functools import partial

from rushlight.runtime.allocator import Storage, address_of_map
from rushlight.support.errors import error

_LOCK = threading.Lock()
# Callbacks of these references are functions of C, which no interrupt falls into.
_adopted: dict[tuple[int, int], weakref.ref[Storage]] = {}
_opened: dict[int, weakref.ref[SharedMemory]] = {}  # by descriptor, which is closed when its memory dies


class SharedMemory:
    """A mapped file, its `descriptor`, and what the storage had before, which arrays may still show."""

    __slots__ = ("__weakref__", "before", "descriptor", "mapping")

    def __init__(self, descriptor: int, before: object = None) -> None:
        self.descriptor = descriptor
        _opened[descriptor] = weakref.ref(self, partial(next, map(os.close, (descriptor,))))
        self.mapping = mmap.mmap(descriptor, 0)
        self.before = before


def shared_memory(storage: Storage) -> SharedMemory | None:
    """What a storage shares with other processes; None for memory of this process."""
    owner = storage.owner
    return owner if isinstance(owner, SharedMemory) else None


def share(storage: Storage) -> SharedMemory:
    """Moves a storage's bytes to shared memory, unless they are there. Errors: M001."""
    with _LOCK:
        present = shared_memory(storage)
        if present is not None:
            return present
        memory = SharedMemory(_new_file(storage.nbytes), storage.owner)
        memory.mapping[: storage.nbytes] = storage.view().tobytes()
        storage.owner, storage.address = memory, address_of_map(memory.mapping)
        _note(storage, _identity(memory.descriptor))
        return memory


def adopt(descriptor: int, nbytes: int) -> Storage:
    """The storage of a shared file, whose descriptor it takes: the same one as long as that lives."""
    with _LOCK:
        identity = _identity(descriptor)
        known = _adopted.get(identity)
        storage = None if known is None else known()
        if storage is not None:
            os.close(descriptor)
            return storage
        memory = SharedMemory(descriptor)
        storage = Storage()
        storage.address, storage.nbytes, storage.owner = address_of_map(memory.mapping), nbytes, memory
        _note(storage, identity)
        return storage


def _note(storage: Storage, identity: tuple[int, int]) -> None:
    _adopted[identity] = weakref.ref(storage, partial(_adopted.pop, identity))


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _new_file(nbytes: int) -> int:
    """A file of at least one byte whose memory is reserved: a write to it never finds that there is none."""
    size = max(nbytes, 1)
    descriptor = -1
    try:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("rushlight", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
    except OSError as cause:
        if descriptor >= 0:
            os.close(descriptor)
        raise error("M001", f"no shared memory: {cause.strerror}", nbytes=nbytes) from cause
    return descriptor


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
