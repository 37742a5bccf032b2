"""Programs: the launches of a plan, with sizes and addresses of a call."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import byref, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.build.executable import Executable, Once, Summary, commit_on_host, fail_assert, types_of
from rushlight.build.gpu import GpuCode
from rushlight.ir.graph import Graph
from rushlight.ir.kernel import Kernel
from rushlight.ir.plan import Launch, Plan
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType
from rushlight.runtime.allocator import Storage
from rushlight_cuda.call import Call

if TYPE_CHECKING:
    from rushlight_cuda.backend import Cuda

_LOG_BYTES = 8192
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # options of a module's compilation


class Module:
    """Code that the driver has made of PTX; its functions are looked up once. Errors: V010 with the driver's log."""

    def __init__(self, backend: Cuda, code: GpuCode) -> None:
        self.backend, self.code = backend, code
        driver = backend.driver
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_uint * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        handle = c_void_p()
        text = ctypes.create_string_buffer(code.text.encode())
        status = driver.call("cuModuleLoadDataEx", byref(handle), text, c_uint(2), options, values)
        if status:
            driver.fail("cuModuleLoadDataEx", status, log=log.value.decode(errors="replace").strip())
        weakref.finalize(self, driver.call, "cuModuleUnload", handle).atexit = False
        self._handle = handle
        self._functions: dict[str, c_void_p] = {}

    def function(self, name: str) -> c_void_p:
        """The handle of an entry."""
        if name not in self._functions:
            self._functions[name] = self.backend.driver.made("cuModuleGetFunction", self._handle, name.encode())
        return self._functions[name]


class Program(Executable):
    """The executable of a plan: it evaluates sizes, lays the arena out, and hands launches over to the queue."""

    __slots__ = ("_arena", "_asserts", "_committing", "_entries", "_module", "_plan")

    def __init__(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], summary: Summary, module: Module, plan: Plan
    ) -> None:
        super().__init__(inputs, outputs, summary, cached=False)
        self._module, self._plan = module, plan
        self._asserts: tuple[Any, ...] = ()
        self._arena: Storage | None = None
        entries = module.code.entries
        # Entries of the plan that runs once come first.
        is_first = plan is module.code.plan.once
        self._entries = entries[: len(plan.kernels)] if is_first else entries[len(entries) - len(plan.kernels) :]
        read = frozenset(plan.inputs)
        writing = [at for at, launch in enumerate(plan.launches) if not read.isdisjoint(_written(plan, launch))]
        self._committing = min(writing, default=len(plan.launches))

    @staticmethod
    def of(graph: Graph, module: Module) -> Program:
        """The program of a graph, with that which runs once before it."""
        plan = module.code.plan
        inputs, outputs = types_of(graph)
        messages = tuple([assertion.message for assertion in plan.assertions])
        once = None
        if plan.once is not None:
            results = tuple([(type_.dtype.name, type_.shape) for type_ in plan.once.output_types])
            reads = tuple([plan.inputs.index(buffer) for buffer in plan.once.inputs])
            once = Once(reads, results)  # pyright: ignore[reportArgumentType] - results of frozen inputs have sizes
        summary = Summary(len(plan.launches), len(plan.kernels), plan.arena_hints()[1], messages, once=once)
        made = () if once is None else once.types(inputs)
        program = Program([*inputs, *made], outputs, summary, module, plan)
        program._asserts = graph.asserts
        if once is not None and plan.once is not None:
            reads = [inputs[at] for at in once.reads]
            program.once = Program(reads, made, summary, module, plan.once)
            program.reads = once.reads
        return program

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Any, ...] = ()) -> None:
        """Hand the launches over. Errors: R002 for sizes, those of asserts of values, V010 of the driver."""
        call = Call(self._module.backend, self._plan, (*self.input_types, *self.output_types), addresses)
        self._arena = call.place(self._arena)
        if call.backend.recording is not None:
            call.backend.recording.kept.append(self._arena)
        for launch in self._plan.launches[: self._committing]:
            self._run(call, launch)
        self._check_values(call)
        for launch in self._plan.launches[self._committing :]:
            self._run(call, launch)
        if commit:
            commit_on_host((), commit)

    def _run(self, call: Call, launch: Launch) -> None:
        count = call.size(launch.count)
        if not count:
            return
        entry = self._entries[launch.kernel]
        words = (c_uint64 * max(entry.words, 1))(*[call.word(word) & ((1 << 64) - 1) for word in launch.arguments])
        parameters = (c_void_p * 1)(ctypes.addressof(words))
        grid, block = (count, 1, 1), (entry.threads, 1, 1)
        sizes = [c_uint(size) for size in (*grid, *block, 0)]
        backend = self._module.backend
        function = self._module.function(entry.name)
        backend.driver.check("cuLaunchKernel", function, *sizes, backend.queue.handle, parameters, None)

    def _check_values(self, call: Call) -> None:
        for check, buffer in zip(self._asserts, self._plan.asserted, strict=False):
            flag = np.empty(1, np.uint8)
            call.backend.read(call.addresses[buffer], flag)
            if flag[0]:
                fail_assert(check, call.symbols)


def _written(plan: Plan, launch: Launch) -> list[Buffer]:
    """The buffers that a launch writes to."""
    kernel = plan.kernels[launch.kernel]
    assert isinstance(kernel, Kernel), "plans for grids have loops alone"
    given = dict(zip(kernel.buffers, launch.buffers, strict=False))
    return [given[store.buffer] for store in kernel.stores() if store.buffer in given]
