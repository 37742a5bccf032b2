"""Queues of work on the GPU, events in them, and copies by way of memory that the GPU reads at full speed."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_float, c_size_t, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight_cuda.driver import NOT_READY, Driver

if TYPE_CHECKING:
    from rushlight_cuda.backend import Cuda

CHUNK = 4 << 20
"""The bytes that are copied at a time."""
_NO_SYNC_WITH_DEFAULT = 1


class Event(rl.backends.Event):
    """A point in a queue's work."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.handle = driver.made("cuEventCreate", c_uint(0))
        weakref.finalize(self, driver.call, "cuEventDestroy_v2", self.handle).atexit = False

    def query(self) -> bool:
        """Whether the work before it is done."""
        status = self._driver.call("cuEventQuery", self.handle)
        if status not in (0, NOT_READY):
            self._driver.fail("cuEventQuery", status)
        return not status

    def synchronize(self) -> None:
        """Wait until the work before it is done."""
        self._driver.check("cuEventSynchronize", self.handle)

    def elapsed_time(self, end: rl.backends.Event) -> float:
        """Return the milliseconds from this event to another."""
        assert isinstance(end, Event), "events of one device"
        milliseconds = c_float()
        self._driver.check("cuEventElapsedTime", byref(milliseconds), self.handle, end.handle)
        return milliseconds.value


class Queue(rl.backends.Stream):
    """Work of the device in order. Inside `with queue:` this thread's work goes there.

    What this thread has handed over before is done first, and what it hands over afterwards waits: memory is reused in
    the order in which a program uses it.
    """

    def __init__(self, backend: Cuda, driver: Driver) -> None:
        super().__init__(backend)
        self._cuda, self._driver = backend, driver
        self._before: list[Queue] = []
        self.handle = driver.made("cuStreamCreate", c_uint(_NO_SYNC_WITH_DEFAULT))
        weakref.finalize(self, driver.call, "cuStreamDestroy_v2", self.handle).atexit = False

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        self._driver.check("cuStreamSynchronize", self.handle)

    def record_event(self) -> Event:
        """Return an event at this point of the work."""
        event = Event(self._driver)
        self._driver.check("cuEventRecord", event.handle, self.handle)
        return event

    def wait_event(self, event: rl.backends.Event) -> None:
        """Let later work begin after an event."""
        assert isinstance(event, Event), "events of one device"
        self._driver.check("cuStreamWaitEvent", self.handle, event.handle, c_uint(0))

    def __enter__(self) -> Queue:
        outer = self._cuda.queue
        self._before.append(outer)
        self.wait_event(outer.record_event())
        self._cuda.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        outer = self._before.pop()
        outer.wait_event(self.record_event())
        self._cuda.enter(outer)


class Staging:
    """Memory of the host that the GPU reads and writes by itself. Copies go through it in pieces."""

    def __init__(self, driver: Driver, nbytes: int = CHUNK) -> None:
        self._driver = driver
        self._used = 0
        self.nbytes = nbytes
        self.address = driver.made("cuMemAllocHost_v2", c_size_t(nbytes)).value or 0
        weakref.finalize(self, driver.call, "cuMemFreeHost", c_void_p(self.address)).atexit = False
        memory = (ctypes.c_uint8 * nbytes).from_address(self.address)
        self.bytes: NDArray[np.uint8] = np.frombuffer(memoryview(memory), np.uint8)

    def write(self, queue: Queue, address: int, data: NDArray[np.uint8]) -> None:
        """Copies bytes of the host to the device; they may change afterwards."""
        for start in range(0, data.size, self.nbytes):
            part = data[start : start + self.nbytes]
            self.send(queue, address + start, part)
        queue.synchronize()
        self._used = 0

    def send(self, queue: Queue, address: int, data: NDArray[np.uint8]) -> None:
        """Hands over a copy to the device, at once unless earlier ones have filled the memory."""
        if self._used + data.size > self.nbytes:
            queue.synchronize()
            self._used = 0
        self.bytes[self._used : self._used + data.size] = data
        source, target = c_void_p(self.address + self._used), c_uint64(address)
        self._used += data.size
        self._driver.check("cuMemcpyHtoDAsync_v2", target, source, c_size_t(data.size), queue.handle)

    def read(self, queue: Queue, address: int, data: NDArray[np.uint8]) -> None:
        """Copies bytes of the device to the host."""
        for start in range(0, data.size, self.nbytes):
            part = data[start : start + self.nbytes]
            target, source = c_void_p(self.address), c_uint64(address + start)
            self._driver.check("cuMemcpyDtoHAsync_v2", target, source, c_size_t(part.size), queue.handle)
            queue.synchronize()
            part[:] = self.bytes[: part.size]
