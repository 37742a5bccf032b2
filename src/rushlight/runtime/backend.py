"""Backends: what has memory beside the host's, and runs operators on it. A plug-in derives from `Backend`.

A backend is found by its name among the entry points of the group `rushlight.backends`, when a program first asks for
a device of that name; nothing is looked up, imported or allocated before.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from mmap import mmap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from rushlight.ir.dtype import DType
from rushlight.ir.graph import Graph
from rushlight.ir.type import CPU, META, Device, dense_order
from rushlight.runtime import allocator
from rushlight.runtime.allocator import Allocator, Storage
from rushlight.runtime.descriptor import extent
from rushlight.support.errors import error, fail, require
from rushlight.support.frozen import frozen

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "rushlight.backends"
Array = NDArray[Any]


@frozen
class Region:
    """Elements in a device's memory: the address of the first one, sizes and strides in elements, and their dtype."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last element."""
        return extent(self.shape, self.strides) * self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie in some order of dims without gaps and none where another is."""
        return 0 in self.shape or dense_order(self.shape, self.strides) is not None

    def broadcast(self, shape: tuple[int, ...]) -> Region:
        """The elements as a region of a shape that they are broadcast to."""
        lead = len(shape) - len(self.shape)
        sizes = zip(self.shape, self.strides, strict=True)
        strides = (0,) * lead + tuple([0 if size == 1 else stride for size, stride in sizes])
        return Region(self.address, shape, strides, self.dtype)

    def shown(self, data: Array) -> Array:
        """The elements as an array on `nbytes` bytes that are a copy of the region's."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype.numpy)
        steps = tuple([stride * self.dtype.itemsize for stride in self.strides])
        return np.ndarray(self.shape, self.dtype.numpy, data, 0, steps)


@frozen
class Costs:
    """What work costs on a device, roughly, for choices of schedule: rates per second, and one launch in seconds."""

    bytes_per_second: float = 1e10
    operations_per_second: float = 1e10
    transfer_bytes_per_second: float = 1e10
    launch_seconds: float = 1e-6


class Stream:
    """Work of a device in order. That of a device without queues of its own is done when a call returns."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def synchronize(self) -> None:
        """Wait until all work that was handed over is done."""
        self.backend.synchronize()

    def record_event(self) -> Event:
        """Return an event at this point of the work."""
        self.synchronize()
        return Event(time.perf_counter())

    def wait_event(self, event: Event) -> None:
        """Let later work begin after an event."""
        event.synchronize()


class Event:
    """A point in a stream's work."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def query(self) -> bool:
        """Whether the work before it is done."""
        return True

    def synchronize(self) -> None:
        """Wait until the work before it is done."""

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to another."""
        return (end._seconds - self._seconds) * 1e3


Kernel = Callable[[Sequence[Region], Sequence[Any], Mapping[str, Any]], object]
"""Writes results to regions: `kernel(results, operands, attributes)`. It may return NotImplemented before it writes.

An operand is a region, a number, a tuple of these, or None. A tensor without dims on the CPU is a number.
"""


class Backend(ABC):
    """A kind of device: its memory, copies between it and the host's, and what computes on it.

    Memory is bytes at addresses of the device's own; they need not mean anything to the host. Operators run by
    `kernels`, else by programs that `compile` makes of graphs, else in parts, else on the CPU, which is counted and
    warned of. A backend needs either kernels or `compile`, and may have both.
    """

    name: ClassVar[str]
    count: int = 1  # devices of this kind
    memory_bytes: int = 1 << 62  # what `allocate` may hand out in all
    costs: Costs = Costs()
    kernels: Mapping[str, Kernel] = MappingProxyType({})  # by name of the operator
    copies: bool = False  # whether `copy` stays within the device

    @functools.cached_property
    def memory(self) -> Allocator:
        """The caching allocator of its storages."""
        return _DeviceAllocator(self)

    @abstractmethod
    def allocate(self, nbytes: int) -> int | None:
        """Return the address of fresh memory, a multiple of 64 and not 0; None if there is not that much."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Take memory back. Its address is one that `allocate` has returned."""

    @abstractmethod
    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the host to memory of the device."""

    @abstractmethod
    def read(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy memory of the device over bytes of the host."""

    def compile(self, graph: Graph) -> object:
        """Return the executable of a graph, whose descriptors have addresses of this device; None to decline.

        It is a `rushlight.build.Executable`. Operands without dims that are not in the device's memory are parameters:
        their descriptors have addresses of the host's.
        """
        return None

    @property
    def compiles(self) -> bool:
        """Whether there is a code generator, which takes some graphs."""
        return type(self).compile is not Backend.compile

    def copy(self, target: Region, source: Region) -> None:
        """Overwrite a region with elements of another one of the same shape and dtype. They may overlap.

        This one goes by way of the host.
        """
        self.upload(target, self.download(source))

    def download(self, source: Region) -> Array:
        """Return a region's elements as an array of the host, with the region's strides."""
        data = np.empty(source.nbytes, np.uint8)
        if source.nbytes:
            self.read(source.address, data)
        return source.shown(data)

    def upload(self, target: Region, array: Array) -> None:
        """Overwrite a region with an array of its dtype that is broadcast to it. What lies in its gaps stays."""
        if not target.nbytes:
            return
        data = np.empty(target.nbytes, np.uint8)
        if not target.is_dense:
            self.read(target.address, data)
        np.copyto(target.shown(data), array)
        self.write(target.address, data)

    def synchronize(self) -> None:
        """Wait until all work that was handed over is done. Here it is done when a call returns."""
        return

    def stream(self) -> Stream:
        """Return a new stream."""
        return Stream(self)

    def lacks(self) -> Sequence[str]:
        """Return what keeps the device from working here, for `rushlight doctor`; nothing if it works."""
        return ()


class DeviceStorage(Storage):
    """Memory of a device. The host sees copies of it alone."""

    __slots__ = ()

    backend: ClassVar[Backend]

    def _refuse(self) -> NoReturn:
        hint = "copy it first: x.cpu()"
        raise error("V004", f"the memory is that of {self.backend.name}, which the host cannot see", hint=hint)

    @property
    def __array_interface__(self) -> dict[str, object]:
        self._refuse()

    def view(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """Nothing but the error that the host does not see it: V004."""
        self._refuse()

    def read(self, start: int, nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """A copy of some of the bytes, which cannot be written to."""
        data = np.empty(nbytes, np.uint8)
        if nbytes:
            self.backend.read(self.address + start, data)
        data.flags.writeable = False
        return data

    def write(self, start: int, data: NDArray[np.uint8]) -> None:
        """Overwrites some of the bytes."""
        if data.size:
            self.backend.write(self.address + start, data)


class _DeviceAllocator(Allocator):
    """A backend's memory in size classes, kept for the next storage of a class."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend.memory_bytes)
        self._backend = backend
        self.kind = type("DeviceStorage", (DeviceStorage,), {"__slots__": (), "backend": backend})

    def _obtain(self, capacity: int) -> int | None:
        address = self._backend.allocate(capacity)
        valid = address is None or (address > 0 and address % allocator.ALIGNMENT == 0)
        require(valid, "V006", f"{self._backend.name}: allocate gave no aligned address", address=address)
        return address

    def _give_back(self, memory: int | mmap) -> None:
        assert isinstance(memory, int), "what `allocate` gave"
        self._backend.free(memory)

    def _fill(self, address: int, value: int, nbytes: int) -> None:
        self._backend.write(address, np.full(nbytes, value, np.uint8))


# Finding them.

_lock = threading.RLock()
_backends: dict[str, Backend] = {}
_known: dict[tuple[str, ...], dict[str, EntryPoint]] = {}  # entry points by name, by what sys.path was


def register(backend: Backend) -> None:
    """Make a backend known under its name, in place of an entry point. Errors: V006 for a name that is taken."""
    name = backend.name
    valid = isinstance(name, str) and name.isidentifier()
    require(valid, "V006", f"a backend's name must be an identifier, not {name!r}")
    with _lock:
        other = _backends.get(name)
        require(other is None or other is backend, "V006", f"there already is a device {name}")
        _backends[name] = backend


def unregister(name: str) -> Backend | None:
    """Forget a backend, and return it. Tensors on it that are still there cannot be computed with."""
    with _lock:
        return _backends.pop(name, None)


def find(name: str) -> Backend | None:
    """The backend of a kind of device, its plug-in loaded; None if there is none. Errors: V006."""
    backend = _backends.get(name)
    if backend is None and name in entry_points():
        with _lock:
            backend = _backends.get(name) or _loaded(name)
            _backends[name] = backend
    return backend


def entry_points() -> Mapping[str, EntryPoint]:
    """The entry points of installed plug-ins, by name of the device. They are looked up when this is first called."""
    path = tuple(sys.path)
    if path not in _known:
        metadata = importlib.import_module("importlib.metadata")  # 10 ms, for those who ask for a device
        _known.clear()
        _known[path] = {point.name: point for point in metadata.entry_points(group=GROUP)}
    return _known[path]


def installed() -> tuple[str, ...]:
    """The names of all devices beside the CPU and meta, whether or not their plug-ins are loaded."""
    return tuple(sorted({*_backends, *entry_points()}))


def _loaded(name: str) -> Backend:
    point = entry_points()[name]
    try:
        made = point.load()
        backend = made if isinstance(made, Backend) else made()
    except Exception as cause:
        hint = f"pip uninstall the package, or mend {point.value}"
        raise error("V006", f"the plug-in of {name} fails: {type(cause).__name__}: {cause}", hint=hint) from cause
    fits = isinstance(backend, Backend) and backend.name == name
    require(fits, "V006", f"{point.value} gives no backend of the name {name}", hint="derive from rl.backends.Backend")
    return backend


def backend_of(device: Device) -> Backend:
    """The backend of a device other than the CPU and meta. Errors: V001."""
    backend = find(device.type)
    if backend is None:
        fail("V001", f"there is no device {device}", hint="is its plug-in still registered?")
    return backend


def allocate_on(device: Device) -> Callable[[Sequence[int]], list[Storage]]:
    """What makes storages of given sizes on a device."""
    return allocator.allocate_many if device in (CPU, META) else backend_of(device).memory.allocate_many
