"""The memory: pages that are mapped when they are first needed, and a table from the device's addresses to them."""

from __future__ import annotations

import ctypes
import mmap
import threading
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

import rushlight as rl

BASE = 1 << 60
"""The first address. Processors map no address of the host's there: to follow one is a fault, not another's data."""
ALIGNMENT = 64


class Block:
    """One allocation: where it lies for the device, and for the emulator."""

    __slots__ = ("address", "host", "memory", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.memory = mmap.mmap(-1, nbytes + ALIGNMENT)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.host = -(-start // ALIGNMENT) * ALIGNMENT


class Arena:
    """Blocks by address, lowest first. Addresses are never used twice, so that a stale one is found out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._next = BASE

    def allocate(self, nbytes: int) -> int | None:
        """Map a block. Its address is a multiple of 64; the gap behind it belongs to nobody."""
        with self._lock:
            address = self._next
            try:
                block = Block(address, nbytes)
            except (OSError, ValueError, OverflowError):
                return None
            self._next += -(-nbytes // 4096) * 4096 + 4096
            self._starts.append(address)  # addresses grow, so the list stays sorted
            self._blocks[address] = block
            return address

    def free(self, address: int) -> None:
        """Unmap a block."""
        with self._lock:
            del self._starts[bisect_right(self._starts, address) - 1]
            del self._blocks[address]

    def owns(self, address: int) -> bool:
        """Whether an address is one of the device's."""
        return address >= BASE

    def translate(self, address: int, nbytes: int) -> int:
        """Return where the emulator has some bytes. A range that is no part of one block is a fault."""
        at = bisect_right(self._starts, address) - 1
        block = self._blocks.get(self._starts[at]) if at >= 0 else None
        if block is None or address + nbytes > block.address + block.nbytes:
            raise rl.DeviceError("V006", f"mica: a fault at address {address:#x}: {nbytes} bytes are not mapped")
        return block.host + (address - block.address)

    def bytes_at(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return some bytes of the arena, for copies between it and the host."""
        host = self.translate(address, nbytes)
        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(host), np.uint8)

    @property
    def used_bytes(self) -> int:
        """What is mapped."""
        return sum([block.nbytes for block in self._blocks.values()])
