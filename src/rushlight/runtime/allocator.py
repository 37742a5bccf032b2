"""Memory of CPU tensors: a caching allocator of 64-byte aligned storages.

Most time that is lost to memory is lost to page faults on fresh pages, so freed blocks are kept and handed out again
by size class, and large ones to other classes of their octave too: sizes that change from call to call find pages that
were touched before. Freeing runs no Python function: a dead storage's weak reference puts itself on a list, which the
next allocation drains.
"""

import ctypes
import gc
import mmap
import os
import threading
import weakref
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from rushlight import runtime
from rushlight.runtime.cells_text import ALLOCATIONS, PEAK, USED
from rushlight.support import settings
from rushlight.support.errors import error, fail
from rushlight.support.frozen import frozen

ALIGNMENT = 64

_MAP_FROM_BYTES = 256 << 10  # larger blocks are mapped on their own, and go back to the system when released
_HUGE_PAGES_FROM_BYTES = 4 << 20
_HUGE_PAGE = 2 << 20
_MEMO_ENTRIES = 4096
_IDLE_FRACTION = 4  # idle memory may be a quarter of all before a new block drives it out

_raw_malloc: Any = ctypes.pythonapi.PyMem_RawMalloc
_raw_malloc.argtypes = (ctypes.c_size_t,)
_raw_malloc.restype = ctypes.c_void_p
_raw_free: Any = ctypes.pythonapi.PyMem_RawFree
_raw_free.argtypes = (ctypes.c_void_p,)
_raw_free.restype = None

# One lock for all allocators. Re-entrant: a finaliser that the garbage collector runs here may allocate.
_LOCK = threading.RLock()
_acquire = _LOCK.acquire
_release = _LOCK.release


class Storage:
    """A run of bytes: `address`, `nbytes` and, for memory that is not ours, the `owner` that keeps it alive.

    `block` is there where native code allocated it: what gives the memory back (`cells_text`).
    """

    __slots__ = ("__weakref__", "address", "block", "nbytes", "owner")

    address: int
    block: object
    nbytes: int
    owner: object

    @staticmethod
    def allocate(nbytes: int) -> "Storage":
        """Fresh memory of the shared allocator, its contents undefined."""
        return CPU.allocate_many((nbytes,))[0]

    @staticmethod
    def from_buffer(source: object, *, allow_readonly: bool = False) -> "Storage":
        """The memory of a numpy array or of any object with the buffer protocol, without a copy.

        It reaches from the lowest to the highest byte that the array's elements take; the first element of an array
        with negative strides lies inside. Raises M002 for read-only memory unless `allow_readonly`.
        """
        array = source if isinstance(source, np.ndarray) else np.frombuffer(cast(Any, source), np.uint8)
        if not array.flags.writeable and not allow_readonly:
            fail("M002", "from_buffer: the memory is read-only")
        low = high = int(array.ctypes.data)
        if array.size:
            for size, stride in zip(array.shape, array.strides, strict=True):
                reach = (size - 1) * stride
                low, high = low + min(reach, 0), high + max(reach, 0)
            high += array.itemsize
        storage = Storage()
        storage.address, storage.nbytes, storage.owner = low, high - low, source
        return storage

    @property
    def __array_interface__(self) -> dict[str, object]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def view(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The bytes as a numpy array, which keeps the storage alive."""
        return cast("np.ndarray[tuple[int], np.dtype[np.uint8]]", np.asarray(self))

    def read(self, start: int, nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """Some of the bytes, not to be written to: those themselves, or a copy where the host does not see them."""
        return self.view()[start : start + nbytes]

    def write(self, start: int, data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Overwrites some of the bytes."""
        self.view()[start : start + len(data)] = data

    def __repr__(self) -> str:
        return f"Storage(0x{self.address:x}, {self.nbytes} bytes)"


class Cell(NamedTuple):
    """One block of memory: `home` is the free list that it goes back to, `memory` the raw pointer or mapping."""

    address: int
    capacity: int
    home: "list[Cell]"
    memory: int | mmap.mmap


class Block(weakref.ref[Storage]):
    """Ties a cell to the storage that has it."""

    __slots__ = ("cell",)

    cell: Cell


@frozen
class MemoryStatistics:
    """Bytes in use by storages, their peak, and bytes reserved from the system. Counts start with the process."""

    used_bytes: int
    peak_bytes: int
    reserved_bytes: int
    allocations: int
    reservations: int


class Allocator:
    """Storages of one kind of memory, in size classes: multiples of 64 bytes up to 1 KiB, then eight an octave."""

    kind: type[Storage] = Storage  # of which its storages are

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._dead: deque[Block] = deque()
        self._bury = self._dead.append
        # The last block of each address. Holds the weak references, so that they fire.
        self._live: dict[int, Block] = {}
        self._free: dict[int, list[Cell]] = {}  # by capacity
        self._homes: dict[int, list[Cell]] = {}  # the same lists by size asked for: a memo
        self._lent: dict[int, Cell] = {}  # by address: what native code hands out
        self.counts = array("q", [0, 0, 0])  # bytes used, their peak, allocations
        self._reserved = 0
        self._reservations = 0

    def allocate_many(self, sizes: Sequence[int]) -> list[Storage]:
        """One storage of each size in bytes, contents undefined: a single Python call while memory can be reused.

        Raises M001 at once for a size beyond the machine's memory.
        """
        storages: list[Storage] = []
        live, homes, dead, bury, kind = self._live, self._homes, self._dead, self._bury, self.kind
        change = 0
        try:
            # `with` costs three times as much. Inside `try`: a signal's handler may raise right after the call.
            _acquire()
            while dead:
                cell = dead.pop().cell
                cell[2].append(cell)
                change -= cell[1]
            for nbytes in sizes:
                try:
                    cell = homes[nbytes].pop()
                except (KeyError, IndexError):
                    cell = None
                if cell is None:
                    self.counts[USED] += change
                    change = 0
                    cell = self._find_cell(nbytes)
                storage = kind()
                storage.nbytes = nbytes
                storage.owner = None
                storage.address = address = cell[0]
                live[address] = block = Block(storage, bury)
                block.cell = cell
                storages.append(storage)
                change += cell[1]
        finally:
            counts = self.counts
            if change:
                counts[USED] += change
                if counts[USED] > counts[PEAK]:
                    counts[PEAK] = counts[USED]
            counts[ALLOCATIONS] += len(storages)
            _release()
        return storages

    def allocate(self, nbytes: int) -> Storage:
        """One storage."""
        return self.allocate_many((nbytes,))[0]

    def empty_cache(self) -> int:
        """Give the memory of dead storages back to the system; the number of bytes."""
        with _LOCK:
            self._drain()
            for capacity in {cell.capacity for cell in self._lent.values()}:
                while self._take_back(capacity):
                    pass
            released = 0
            for capacity, blocks in self._free.items():
                while blocks:
                    cell = blocks.pop()
                    self._live.pop(cell.address, None)
                    self._give_back(cell.memory)
                    released += capacity
            self._reserved -= released
            return released

    def statistics(self) -> MemoryStatistics:
        """What is in use now, and what has been."""
        with _LOCK:
            self._drain()
            used, peak, allocations = self.counts
            return MemoryStatistics(used, peak, self._reserved, allocations, self._reservations)

    def reset_peak(self) -> None:
        """Let the peak start again from what is in use now."""
        with _LOCK:
            self._drain()
            self.counts[PEAK] = self.counts[USED]

    def lend(self, nbytes: int) -> None:
        """Lets native code hand out one more block for sizes like this one."""
        with _LOCK:
            self._drain()
            cell = self._find_cell(nbytes)
            self._lent[cell.address] = cell
            runtime.native.functions().give_cell(cell.address, lent_class(nbytes))

    def _take_back(self, capacity: int) -> bool:
        """Takes an idle block of native code's, so that it lies among our own; whether there was one."""
        address = runtime.native.functions().take_cell(lent_class(capacity)) if self._lent else 0
        if address:
            cell = self._lent.pop(address)
            cell.home.append(cell)
        return bool(address)

    def _drain(self) -> None:
        while self._dead:
            cell = self._dead.pop().cell
            cell.home.append(cell)
            self.counts[USED] -= cell.capacity

    def _find_cell(self, nbytes: int) -> Cell:
        capacity = _capacity(nbytes)
        cells = self._free.setdefault(capacity, [])
        if not cells and capacity <= LENT_BYTES:
            self._take_back(capacity)
        cell = cells.pop() if cells else self._neighbour(capacity) or self._reserve(capacity, nbytes)
        poison = settings.get().poison
        if poison:  # and no memo: every storage comes by here
            self._fill(cell.address, poison, capacity)
            return cell
        if len(self._homes) >= _MEMO_ENTRIES:
            self._homes.clear()
        self._homes[nbytes] = cells
        return cell

    def _neighbour(self, capacity: int) -> Cell | None:
        """An idle mapping of another class of the octave: the next larger one, or a smaller one that has room."""
        if capacity < _MAP_FROM_BYTES:
            return None
        unit = 1 << (capacity - 1).bit_length() - 4
        for other in (*range(capacity + unit, 16 * unit + 1, unit), *range(capacity - unit, 8 * unit, -unit)):
            cells = self._free.get(other)
            if not cells:
                continue
            if other > capacity:
                return cells.pop()
            memory, more = cells[-1].memory, capacity - other
            if not isinstance(memory, int) and len(memory) >= capacity and self._reserved + more <= self._limit():
                self._reserved += more
                _advise_huge_pages(memory, other, capacity)
                return Cell(cells.pop().address, capacity, self._free[capacity], memory)
        return None

    def _limit(self) -> int:
        return runtime.limits.memory_bytes() if self.limit_bytes is None else self.limit_bytes

    def _reserve(self, capacity: int, nbytes: int) -> Cell:
        """Memory from the system, unattached; what garbage holds is collected before an error is raised."""
        if capacity <= 0:
            fail("X001", "allocate: a storage of negative size", nbytes=nbytes)
        limit = self._limit()
        if capacity > limit:
            fail("M001", "allocate: the machine has not that much memory", nbytes=nbytes, available=limit)
        if capacity >= _MAP_FROM_BYTES and (self._reserved - self.counts[USED]) * _IDLE_FRACTION > limit:
            self.empty_cache()
        memory = self._obtain(capacity) if self._reserved + capacity <= limit else None
        if memory is None:
            gc.collect()
            self.empty_cache()
            memory = self._obtain(capacity) if self._reserved + capacity <= limit else None
            if memory is None:
                raise error("M001", "allocate: out of memory", nbytes=nbytes, used=self.counts[USED], available=limit)
        self._reserved += capacity
        self._reservations += 1
        return Cell(_aligned_address(memory), capacity, self._free[capacity], memory)

    def _obtain(self, capacity: int) -> int | mmap.mmap | None:
        if capacity < _MAP_FROM_BYTES:
            return cast("int | None", _raw_malloc(capacity + ALIGNMENT))
        # Up to the end of the octave: pages that nobody touches cost nothing.
        memory = _mapped(1 << (capacity - 1).bit_length()) or _mapped(capacity)
        if memory is not None:
            _advise_huge_pages(memory, 0, capacity)
        return memory

    def _give_back(self, memory: int | mmap.mmap) -> None:
        if isinstance(memory, int):
            _raw_free(memory)
        else:
            memory.close()

    def _fill(self, address: int, value: int, nbytes: int) -> None:
        ctypes.memset(address, value, nbytes)


def _capacity(nbytes: int) -> int:
    """The size of the blocks for so many bytes."""
    if nbytes <= 1024:
        return ((nbytes or 1) + 63) & -64
    shift = (nbytes - 1).bit_length() - 4
    return ((nbytes - 1 >> shift) + 1) << shift


LENT_CAPACITIES = tuple([64 * (number + 1) for number in range(16)]) + tuple(
    [(1024 << octave) + (128 << octave) * (part + 1) for octave in range(6) for part in range(8)]
)
"""The capacities of the blocks that native code hands out, by number."""
LENT_BYTES = LENT_CAPACITIES[-1]
_LENT_CLASSES = {capacity: number for number, capacity in enumerate(LENT_CAPACITIES)}


def lent_class(nbytes: int) -> int:
    """The number of the capacity for so many bytes, at most `LENT_BYTES`."""
    return _LENT_CLASSES[_capacity(nbytes)]


def map_anonymous(nbytes: int) -> mmap.mmap:
    """Private zeroed pages."""
    if os.name == "posix":
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, nbytes)


def _mapped(nbytes: int) -> mmap.mmap | None:
    try:
        return map_anonymous(nbytes)
    except (OSError, ValueError, OverflowError):
        return None


def address_of_map(memory: mmap.mmap) -> int:
    """Where a mapping begins."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _advise_huge_pages(memory: mmap.mmap, old: int, new: int) -> None:
    """Asks for huge pages for growth from `old` to `new` bytes. Leaves out a last page that is only partly in use."""
    start, end = (size // _HUGE_PAGE * _HUGE_PAGE for size in (old, new))
    wanted = new >= _HUGE_PAGES_FROM_BYTES and end > start
    if wanted and hasattr(mmap, "MADV_HUGEPAGE") and settings.get().huge_pages:
        try:
            memory.madvise(mmap.MADV_HUGEPAGE, start, end - start)
        except OSError:
            return  # a kernel without huge pages: slower, not wrong


def _aligned_address(memory: int | mmap.mmap) -> int:
    if isinstance(memory, int):
        return (memory + ALIGNMENT - 1) & -ALIGNMENT
    return address_of_map(memory)


CPU = Allocator()
"""The allocator of all CPU storages."""

allocate_many = CPU.allocate_many

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
