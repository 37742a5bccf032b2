"""An emulated driver of NVIDIA's: a shared library that LLVM makes, whose functions hand their words to Python.

Copies outside of what was allocated, handles that are gone, and launches that do not fit their entry are refused.
Kernels run as the emulated GPU's do.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rushlight.build.gpu import GpuCode
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.kernel.function import emit_kernel
from rushlight.codegen.llvm.kernel.grid import RECORD
from rushlight.export.packaging.shared_library import shared_library
from rushlight.runtime import llvm

NAMES = (
    *("cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceTotalMem_v2"),
    *("cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuGetErrorName", "cuGetErrorString"),
    *("cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocHost_v2", "cuMemFreeHost"),
    *("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"),
    *("cuModuleLoadDataEx", "cuModuleGetFunction", "cuModuleUnload", "cuLaunchKernel"),
    *("cuStreamCreate", "cuStreamSynchronize", "cuStreamDestroy_v2", "cuStreamWaitEvent"),
    *("cuStreamBeginCapture_v2", "cuStreamEndCapture"),
    *(
        "cuEventCreate",
        "cuEventRecord",
        "cuEventQuery",
        "cuEventSynchronize",
        "cuEventElapsedTime",
        "cuEventDestroy_v2",
    ),
    *("cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy"),
)
MOST = 11  # words that a function takes
INVALID, OUT_OF_MEMORY, INVALID_PTX, INVALID_HANDLE, NOT_FOUND, NOT_READY = 1, 2, 218, 400, 500, 600
ILLEGAL_ADDRESS = 700
ERRORS = {
    INVALID: b"CUDA_ERROR_INVALID_VALUE",
    INVALID_PTX: b"CUDA_ERROR_INVALID_PTX",
    ILLEGAL_ADDRESS: b"CUDA_ERROR_ILLEGAL_ADDRESS",
}
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Launch(NamedTuple):
    """A launch as the driver was told of it."""

    name: str
    blocks: int
    threads: int
    stream: int


class FakeDriver:
    """The driver's state: `calls` has the names of all calls, `failing` the statuses that functions return instead."""

    def __init__(self, folder: Path, capability: tuple[int, int] = (8, 0), memory_bytes: int = 1 << 30) -> None:
        self.capability, self.memory_bytes, self.devices = capability, memory_bytes, 1
        self.calls: list[str] = []
        self.failing: dict[str, int] = {}
        self.memory: dict[int, np.ndarray] = {}
        self.pinned: dict[int, np.ndarray] = {}
        self.handles: dict[int, object] = {}  # of modules, functions, streams, events, graphs
        self.launches: list[Launch] = []
        self.faults: list[int] = []
        self.capturing: dict[int, list[Callable[[], None]]] = {}
        self._kernels: dict[tuple[str, str], Callable[..., None]] = {}
        self._next = 0x1000
        self._callback = _CALLBACK(self._answer)
        self.path = folder / "libcuda.so.1"
        self.path.write_bytes(self._library())

    def _library(self) -> bytes:
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        lines: list[str] = []
        for number, name in enumerate(NAMES):
            words = ", ".join([f"i64 %a{at}" for at in range(MOST)])
            lines += [f"define i32 @{name}({words}) {{", f"  %words = alloca [{MOST} x i64], align 16"]
            for at in range(MOST):
                lines.append(f"  %p{at} = getelementptr i64, ptr %words, i64 {at}")
                lines.append(f"  store i64 %a{at}, ptr %p{at}, align 8")
            lines.append(f"  %status = call i32 inttoptr (i64 {address} to ptr)(i32 {number}, ptr %words)")
            lines += ["  ret i32 %status", "}"]
        return shared_library(llvm.compile_object("\n".join(lines), llvm.host_target()), "libcuda.so.1", NAMES)

    def _answer(self, number: int, words: int) -> int:
        name = NAMES[number]
        self.calls.append(name)
        given = (ctypes.c_uint64 * MOST).from_address(words)
        if name in self.failing:
            if name == "cuStreamEndCapture":  # which ends the capture whatever it says
                self.capturing.pop(given[0], None)
            return self.failing[name]
        return getattr(self, name.removesuffix("_v2"))(*given) or 0

    def emulate(self, code: GpuCode) -> GpuCode:
        """Learns what the entries of some code compute."""
        host = llvm.host_target()
        target = CodeTarget(host.architecture, host.vector_bytes, grid=True)
        parts = (code.plan,) if code.plan.once is None else (code.plan.once, code.plan)
        kernels = [kernel for part in parts for kernel in part.kernels]
        for kernel, entry in zip(kernels, code.entries, strict=True):
            if (code.text, entry.name) not in self._kernels:
                module = llvm.load_object(llvm.compile_object(emit_kernel(kernel, target, "k"), host))
                self._kernels[code.text, entry.name] = self._runner(module, entry.words)
        return code

    def _runner(self, module: llvm.LoadedModule, words: int) -> Callable[..., None]:
        record = (ctypes.c_int64 * 4).from_address(module.address(RECORD)) if RECORD in module.names() else [0]
        function = _KERNEL(module.address("k"))

        def run(given: ctypes.Array, blocks: int) -> None:
            assert len(given) == words
            function(given, 0, blocks)
            if record[0]:
                self.faults.append(record[0])

        run.words, run.module = words, module
        return run

    def made(self, out: int, what: object) -> None:
        """Writes a new handle."""
        self._next += 0x10
        self.handles[self._next] = what
        self.put(out, self._next)

    @staticmethod
    def put(out: int, value: int, kind: type = ctypes.c_uint64) -> None:
        kind.from_address(out).value = value

    def ordered(self, stream: int, work: Callable[[], None]) -> int:
        """Does some work, or notes it where a stream's work is captured."""
        if self.handles.get(stream) != "stream":
            return INVALID_HANDLE
        if stream in self.capturing:
            self.capturing[stream].append(work)
        else:
            work()
        return 0

    def within(self, address: int, nbytes: int) -> bool:
        return any(start <= address and address + nbytes <= start + array.size for start, array in self.memory.items())

    # The functions.

    def cuInit(self, *_):
        pass

    def cuDeviceGetCount(self, out, *_):
        self.put(out, self.devices, ctypes.c_int32)

    def cuDeviceGet(self, out, *_):
        self.put(out, 0, ctypes.c_int32)

    def cuDeviceGetAttribute(self, out, attribute, *_):
        self.put(out, self.capability[(attribute & 0xFFFFFFFF) - 75], ctypes.c_int32)

    def cuDeviceTotalMem(self, out, *_):
        self.put(out, self.memory_bytes)

    def cuDevicePrimaryCtxRetain(self, out, *_):
        self.made(out, "context")

    def cuCtxSetCurrent(self, context, *_):
        return 0 if self.handles.get(context) == "context" else INVALID_HANDLE

    def cuGetErrorName(self, status, out, *_):
        text = ERRORS.get(status & 0xFFFFFFFF)
        if text is None:
            return INVALID
        self.put(out, ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value)
        return 0

    def cuGetErrorString(self, *_):
        return INVALID

    def cuMemAlloc(self, out, nbytes, *_):
        if sum([array.size for array in self.memory.values()]) + nbytes > self.memory_bytes:
            return OUT_OF_MEMORY
        array = np.full(nbytes + 256, 0xA5, np.uint8)
        skip = -array.ctypes.data % 256
        self.memory[array.ctypes.data + skip] = array[skip : skip + nbytes]
        self.put(out, array.ctypes.data + skip)
        return 0

    def cuMemFree(self, address, *_):
        return INVALID if self.memory.pop(address, None) is None else 0

    def cuMemAllocHost(self, out, nbytes, *_):
        array = np.empty(nbytes, np.uint8)
        self.pinned[array.ctypes.data] = array
        self.put(out, array.ctypes.data)

    def cuMemFreeHost(self, address, *_):
        return INVALID if self.pinned.pop(address, None) is None else 0

    def _copy(self, target, source, nbytes, stream, *device):
        if not all(self.within(address, nbytes) for address in device):
            return INVALID
        return self.ordered(stream, lambda: ctypes.memmove(target, source, nbytes))

    def cuMemcpyHtoDAsync(self, target, source, nbytes, stream, *_):
        return self._copy(target, source, nbytes, stream, target)

    def cuMemcpyDtoHAsync(self, target, source, nbytes, stream, *_):
        return self._copy(target, source, nbytes, stream, source)

    def cuMemcpyDtoDAsync(self, target, source, nbytes, stream, *_):
        return self._copy(target, source, nbytes, stream, target, source)

    def cuModuleLoadDataEx(self, out, image, count, options, values, *_):
        text = ctypes.string_at(image).decode()
        if ".target sm_" not in text:
            assert list((ctypes.c_uint32 * 2).from_address(options)) == [5, 6]
            log = ctypes.c_uint64.from_address(values).value
            ctypes.memmove(log, b"line 1: no target\0", 18)
            return INVALID_PTX
        self.made(out, ("module", text))
        return 0

    def cuModuleGetFunction(self, out, module, name, *_):
        _, text = self.handles[module]
        name = ctypes.string_at(name).decode()
        if f".entry {name}(" not in text:
            return NOT_FOUND
        self.made(out, ("function", text, name))
        return 0

    def _destroyed(self, handle, *_):
        return INVALID_HANDLE if self.handles.pop(handle, None) is None else 0

    cuModuleUnload = cuStreamDestroy = cuEventDestroy = cuGraphExecDestroy = cuGraphDestroy = _destroyed

    def cuLaunchKernel(self, function, *words):
        grid, block, shared = [word & 0xFFFFFFFF for word in words[:3]], words[3:6], words[6] & 0xFFFFFFFF
        stream, parameters = words[7:9]
        _, text, name = self.handles[function]
        threads = block[0] & 0xFFFFFFFF
        body = text[text.index(f".entry {name}(") :]
        if shared or grid[1:] != [1, 1] or f".maxntid {threads}\n" not in body[: body.index("{")] + "\n":
            return INVALID
        run = self._kernels[text, name]
        address = ctypes.c_uint64.from_address(parameters).value
        given = (ctypes.c_uint64 * run.words)(*(ctypes.c_uint64 * run.words).from_address(address))
        self.launches.append(Launch(name, grid[0], threads, stream))
        return self.ordered(stream, lambda: run(given, grid[0]))

    def cuStreamCreate(self, out, *_):
        self.made(out, "stream")

    def cuStreamSynchronize(self, stream, *_):
        if stream in self.capturing:
            return 900
        return 0 if self.handles.get(stream) == "stream" else INVALID_HANDLE

    def cuStreamWaitEvent(self, stream, event, *_):
        return 0 if isinstance(self.handles.get(event), list) else INVALID_HANDLE

    def cuStreamBeginCapture(self, stream, *_):
        self.capturing[stream] = []

    def cuStreamEndCapture(self, stream, out, *_):
        self.made(out, ("graph", self.capturing.pop(stream)))

    def cuEventCreate(self, out, *_):
        self.made(out, [])

    def cuEventRecord(self, event, stream, *_):
        self.handles[event].append(len(self.launches))
        return 0 if self.handles.get(stream) == "stream" else INVALID_HANDLE

    def cuEventQuery(self, event, *_):
        return 0 if self.handles[event] else NOT_READY

    def cuEventSynchronize(self, event, *_):
        return 0 if event in self.handles else INVALID_HANDLE

    def cuEventElapsedTime(self, out, first, last, *_):
        self.put(out, self.handles[last][-1] - self.handles[first][-1], ctypes.c_float)

    def cuGraphInstantiateWithFlags(self, out, graph, *_):
        self.made(out, self.handles[graph][1])

    def cuGraphLaunch(self, graph, stream, *_):
        for work in self.handles[graph]:
            work()
        return 0 if self.handles.get(stream) == "stream" else INVALID_HANDLE
