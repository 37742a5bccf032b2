"""Recordings: the launches of a function as one graph of the driver's."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.runtime.allocator import Storage
    from rushlight_cuda.backend import Cuda

_RELAXED = 2  # memory may be allocated meanwhile


class Recording:
    """Launches that were recorded. They read and write the memory that they did; a recording keeps it."""

    def __init__(self, backend: Cuda, arguments: tuple[Any, ...]) -> None:
        self._backend = backend
        self._executable = c_void_p()
        self.kept: list[Storage | object] = [arguments]
        self.results: Any = None

    @staticmethod
    def of(backend: Cuda, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Recording:
        """Records what a function launches. Nothing stays of a recording that fails."""
        made = Recording(backend, arguments)
        driver, queue, graph = backend.driver, backend.queue, c_void_p()
        backend.refuse_in_recording("a recording")
        driver.check("cuStreamBeginCapture_v2", queue.handle, c_int(_RELAXED))
        backend.recording = made
        try:
            made.results = function(*arguments)
        except BaseException:
            backend.recording = None
            driver.call("cuStreamEndCapture", queue.handle, byref(graph))
            if graph:
                driver.call("cuGraphDestroy", graph)
            raise
        backend.recording = None
        driver.check("cuStreamEndCapture", queue.handle, byref(graph))
        try:
            driver.check("cuGraphInstantiateWithFlags", byref(made._executable), graph, c_uint64(0))
        finally:
            driver.call("cuGraphDestroy", graph)
        weakref.finalize(made, driver.call, "cuGraphExecDestroy", made._executable).atexit = False
        return made

    def replay(self) -> None:
        """Hand all launches over again. Results are written to the same tensors."""
        self._backend.driver.check("cuGraphLaunch", self._executable, self._backend.queue.handle)
