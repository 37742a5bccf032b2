"""The backends that run a graph: the compiler, kernels call by call, or numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rushlight.build.executable import Executable
from rushlight.build.finite import FiniteExecutable
from rushlight.build.native import Chooser, compile_native
from rushlight.build.reference import ReferenceExecutable
from rushlight.build.steps import compile_by_calls
from rushlight.ir.graph import Graph
from rushlight.support import garbage, settings
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

    `chooser` chooses the tiles of our compiler in place of the cost model. With the setting `nan_asserts` a graph runs
    call by call, so that the error can name the call that makes the first NaN.
    """
    if settings.get().nan_asserts:
        return FiniteExecutable(graph)
    with garbage.uncollected(), forgetting():
        compile_with = BACKENDS[backend or settings.get().backend]
        if chooser is not None and compile_with is compile_native:
            return compile_native(graph, chooser)
        return compile_with(graph)
