"""Memory that ends where nothing may be read."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np


def before_a_hole(values: np.ndarray) -> np.ndarray:
    """A flat copy of values, behind which a page may not be touched."""
    size = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    whole = np.frombuffer(mmap.mmap(-1, size + mmap.PAGESIZE), np.uint8)
    assert protect(whole.ctypes.data + size, mmap.PAGESIZE, 0) == 0
    placed = whole[size - values.nbytes : size].view(values.dtype)
    placed[:] = values.ravel()
    return placed
