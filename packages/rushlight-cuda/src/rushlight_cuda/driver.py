"""NVIDIA's driver by ctypes: its library, its functions, its errors.

Every function returns a status. One that is not 0 is error V010, but for those that a caller asks for.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, NoReturn

from rushlight_cuda.errors import refusal

LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")
"""The names of the driver's library, tried in turn."""
OUT_OF_MEMORY, NOT_READY = 2, 600
"""Statuses that are answers."""
_MAJOR, _MINOR = 75, 76  # attributes of a device: its compute capability


class Driver:
    """The driver, with the first device's context, which each thread enters at its first call.

    Errors: V009 where it is not installed or has no device.
    """

    def __init__(self, names: Sequence[str] = LIBRARIES) -> None:
        self._library = _opened(names)
        self._local = threading.local()
        self._context = c_void_p()
        self.device = c_int()
        self.check("cuInit", c_uint(0))
        count = c_int()
        self.check("cuDeviceGetCount", byref(count))
        if not count.value:
            raise refusal("V009", "the driver has no device", "is a GPU visible to this process?")
        self.check("cuDeviceGet", byref(self.device), c_int(0))
        self.check("cuDevicePrimaryCtxRetain", byref(self._context), self.device)

    def call(self, name: str, *arguments: Any) -> int:
        """Calls a function in the device's context; its status."""
        if self._context and not getattr(self._local, "entered", False):
            self._local.entered = True
            self.check("cuCtxSetCurrent", self._context)
        return int(getattr(self._library, name)(*arguments))

    def check(self, name: str, *arguments: Any) -> None:
        """Calls a function that has to succeed. Errors: V010."""
        status = self.call(name, *arguments)
        if status:
            self.fail(name, status)

    def fail(self, name: str, status: int, **facts: object) -> NoReturn:
        """Raises V010 with the driver's words for a status."""
        raise refusal("V010", f"{name} fails", None, status=status, error=self._words(status), **facts)

    def _words(self, status: int) -> str:
        texts: list[str] = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            if not getattr(self._library, name)(c_int(status), byref(text)) and text.value:
                texts.append(text.value.decode(errors="replace"))
        return ": ".join(texts) or "unknown"

    @property
    def architecture(self) -> tuple[int, int]:
        """The device's compute capability."""
        major, minor = c_int(), c_int()
        self.check("cuDeviceGetAttribute", byref(major), c_int(_MAJOR), self.device)
        self.check("cuDeviceGetAttribute", byref(minor), c_int(_MINOR), self.device)
        return major.value, minor.value

    @property
    def memory_bytes(self) -> int:
        """The memory of the device."""
        nbytes = c_size_t()
        self.check("cuDeviceTotalMem_v2", byref(nbytes), self.device)
        return nbytes.value

    def allocate(self, nbytes: int) -> int | None:
        """The address of memory of the device; None if there is not that much."""
        address = c_uint64()
        status = self.call("cuMemAlloc_v2", byref(address), c_size_t(nbytes))
        if status == OUT_OF_MEMORY:
            return None
        if status:
            self.fail("cuMemAlloc_v2", status, nbytes=nbytes)
        return address.value

    def free(self, address: int) -> None:
        """Takes memory of the device back."""
        self.check("cuMemFree_v2", c_uint64(address))

    def made(self, name: str, *arguments: Any) -> c_void_p:
        """What a function makes: the handle that it writes to its first argument."""
        handle = c_void_p()
        self.check(name, byref(handle), *arguments)
        return handle


def _opened(names: Sequence[str]) -> ctypes.CDLL:
    reason: OSError | None = None
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as cause:
            reason = cause
    hint = "install NVIDIA's driver; in a container, start it with access to the GPU"
    raise refusal("V009", "the driver's library is not here", hint, tried=", ".join(names)) from reason
