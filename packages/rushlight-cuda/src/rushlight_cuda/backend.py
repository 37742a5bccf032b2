"""The backend: what Rushlight asks of a device, by way of the driver."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_uint64
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight.build.gpu import PTX_VERSIONS, compile_ptx
from rushlight.ir.graph import Graph
from rushlight.runtime.allocator import Allocator, Storage
from rushlight_cuda.driver import Driver
from rushlight_cuda.errors import refusal
from rushlight_cuda.program import Module, Program
from rushlight_cuda.queue import Queue, Staging
from rushlight_cuda.recording import Recording

ARCHITECTURES = {(8, 0): "sm_80", (9, 0): "sm_90a", (10, 0): "sm_100"}
"""What code is written for, by the least compute capability that runs it; `sm_90a` runs on 9.0 alone."""

NUMBERS_BYTES = 1 << 16
"""Pinned memory for numbers that programs take as parameters."""


class Cuda(rl.backends.Backend):
    """The first GPU of this process. Its driver is looked for when memory is first asked for."""

    name = "cuda"
    costs = rl.backends.Costs(
        bytes_per_second=2e12, operations_per_second=3e13, transfer_bytes_per_second=2e10, launch_seconds=1e-5
    )
    copies = True

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.RLock()
        self.recording: Recording | None = None

    @functools.cached_property
    def driver(self) -> Driver:
        """The driver. Errors: V009."""
        return Driver()

    @functools.cached_property
    def architecture(self) -> str:
        """What code is written for. Errors: V009 for GPUs that are older than all of it."""
        capability = self.driver.architecture
        fitting = [least for least in ARCHITECTURES if least <= capability and (least[0] != 9 or capability[0] == 9)]
        if not fitting:
            number = ".".join(map(str, capability))
            hint = f"code is made for {', '.join(PTX_VERSIONS)}"
            raise refusal("V009", f"the GPU has compute capability {number}", hint)
        return ARCHITECTURES[max(fitting)]

    @functools.cached_property
    def _main(self) -> Queue:
        return Queue(self, self.driver)

    @functools.cached_property
    def _staging(self) -> Staging:
        return Staging(self.driver)

    @functools.cached_property
    def _numbers(self) -> Staging:
        return Staging(self.driver, NUMBERS_BYTES)

    @functools.cached_property
    def memory(self) -> Allocator:
        """The caching allocator of its storages. A recording keeps what is allocated meanwhile."""
        made = super().memory
        made.limit_bytes = self.driver.memory_bytes
        allocate_many = made.allocate_many

        def kept(sizes: Sequence[int]) -> list[Storage]:
            storages = allocate_many(sizes)
            if self.recording is not None:
                self.recording.kept += storages
            return storages

        made.allocate_many = kept
        return made

    @property
    def queue(self) -> Queue:
        """Where this thread's work goes."""
        return getattr(self._local, "queue", None) or self._main

    def enter(self, queue: Queue) -> None:
        """Lets this thread's work go to another queue."""
        self._local.queue = queue

    def allocate(self, nbytes: int) -> int | None:
        """Return the address of fresh memory."""
        return self.driver.allocate(nbytes)

    def free(self, address: int) -> None:
        """Take memory back, once nothing on the way uses it."""
        self.synchronize()
        self.driver.free(address)

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the host to memory of the device."""
        self.refuse_in_recording("a copy from the host")
        with self._lock:
            self._staging.write(self.queue, address, np.ascontiguousarray(data).reshape(-1))

    def send(self, address: int, data: NDArray[np.uint8]) -> None:
        """Hand over a copy of a few bytes of the host, without waiting for it."""
        if self.recording is None:
            with self._lock:
                self._numbers.send(self.queue, address, data)
            return
        staging = Staging(self.driver, data.size)
        self.recording.kept.append(staging)
        staging.send(self.queue, address, data)

    def read(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy memory of the device to the host."""
        self.refuse_in_recording("a copy to the host")
        with self._lock:
            self._staging.read(self.queue, address, data)

    def copy(self, target: rl.backends.Region, source: rl.backends.Region) -> None:
        """Overwrite a region with another one: on the device where both lie alike."""
        apart = abs(target.address - source.address) >= target.nbytes
        if target.strides != source.strides or not target.is_dense or not apart:
            super().copy(target, source)
            return
        if target.nbytes:
            addresses = c_uint64(target.address), c_uint64(source.address)
            self.driver.check("cuMemcpyDtoDAsync_v2", *addresses, c_size_t(target.nbytes), self.queue.handle)

    def refuse_in_recording(self, what: str) -> None:
        """V010 where launches are recorded: what a recording cannot repeat is refused."""
        if self.recording is not None:
            hint = "move data to the device before, and read results after"
            raise refusal("V010", f"{what} while launches are recorded", hint)

    def compile(self, graph: Graph) -> Program:
        """Return the program of a graph."""
        return Program.of(graph, Module(self, compile_ptx(graph, self.architecture)))

    def synchronize(self) -> None:
        """Wait until all work that was handed over is done."""
        if self.recording is None:
            self.queue.synchronize()

    def stream(self) -> Queue:
        """Return a new queue."""
        return Queue(self, self.driver)

    def record(self, function: Callable[..., Any], *arguments: Any) -> Recording:
        """Return a recording of the launches that a function makes: `replay()` makes them again, as one.

        The function runs twice: once as it is, so that all is compiled, and once recorded. Its tensors stay where they
        are; `results` has what it returned.
        """
        function(*arguments)
        return Recording.of(self, function, arguments)

    def lacks(self) -> Sequence[str]:
        """Return what keeps the device from working here."""
        try:
            self.architecture  # noqa: B018 - asks the driver
        except rl.RushlightError as missing:
            return (str(missing).splitlines()[0],)
        return ()
