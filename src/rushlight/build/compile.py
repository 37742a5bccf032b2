"""The backends that run a graph: the compiler, kernels call by call, or numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rushlight.build.executable import Executable
from rushlight.build.finite import FiniteExecutable
from rushlight.build.native import Chooser, compile_native
from rushlight.build.reference import ReferenceExecutable
from rushlight.build.steps import compile_by_calls, compile_by_regions, has_regions
from rushlight.ir.graph import Graph
from rushlight.ir.type import CPU, META, Device
from rushlight.runtime.backend import backend_of
from rushlight.support import garbage, settings
from rushlight.support.errors import fail
from rushlight.sym.memo import forgetting

# "eager" and "aot_eager" differ in what they are given: a backward pass that was cut from its forward, or not.
BACKENDS: Mapping[str, Callable[[Graph], Executable]] = MappingProxyType(
    {
        "rushlight": compile_native,
        "inductor": compile_native,
        "cudagraphs": compile_native,
        "eager": compile_by_calls,
        "aot_eager": compile_by_calls,
        "reference": ReferenceExecutable,
    }
)


def compile_graph(graph: Graph, backend: str | None = None, chooser: Chooser | None = None) -> Executable:
    """The executable of a functional graph. `backend` names a row of BACKENDS, by default the setting of that name.

    Where calls belong to regions, these are compiled each by itself, and other calls run one by one.
    `chooser` chooses the tiles of our compiler in place of the cost model. With the setting `nan_asserts` a graph runs
    call by call, so that the error can name the call that makes the first NaN. A graph of tensors on another device is
    that device's to compile: A006 where it makes no code of graphs, V002 where tensors are on several devices.
    """
    device = device_of(graph)
    if device != CPU:
        return compile_for(device, graph) or fail("A006", f"{device.type} compiles no graphs", graph=graph.name)
    if settings.get().nan_asserts:
        return FiniteExecutable(graph)
    with garbage.uncollected(), forgetting():
        compile_with = BACKENDS[backend or settings.get().backend]
        if compile_with is compile_native and has_regions(graph):
            return compile_by_regions(graph)
        if chooser is not None and compile_with is compile_native:
            return compile_native(graph, chooser)
        return compile_with(graph)


def device_of(graph: Graph) -> Device:
    """Where a graph's tensors with data are. Operands without dims on the CPU go with any. Errors: V002.

    What is computed of these alone is no result beside others: code of a device gives what is there. A parameter that
    nothing reads or overwrites, as that of sizes, has no data.
    """
    used = graph.used() | {id(graph.parameters[position]) for position, _ in graph.mutations}
    taken = [call.type for call in graph.parameters if id(call) in used]
    types = [*[type_ for type_ in taken if type_.shape or type_.device != CPU], *[call.type for call in graph.outputs]]
    devices = dict.fromkeys([type_.device for type_ in types])
    devices.pop(META, None)
    if len(devices) > 1:
        names = ", ".join(map(str, devices))
        fail("V002", f"{graph.name}: a graph is on one device", devices=names, hint="call .to(device) outside of it")
    return next(iter(devices), CPU)


def compile_for(device: Device, graph: Graph) -> Executable | None:
    """What a device's code generator makes of a graph; None where it has none, or declines."""
    with garbage.uncollected(), forgetting():
        made = backend_of(device).compile(graph)
    if made is None or isinstance(made, Executable):
        return made
    return fail("V006", f"{device.type}: compile gives an Executable or None", given=type(made).__name__)
