"""How a function is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight import build, repro, tune
from rushlight.capture.backends import Backend, GivenBackend, backward_backend
from rushlight.ir.type import CPU, META
from rushlight.runtime.backend import backend_of
from rushlight.support import settings
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.ir.graph import Graph
    from rushlight.ir.type import TensorType


@frozen
class Options:
    """How a function is compiled: sizes as symbols, for a backend, with tiles searched, and with frozen tensors.

    `budget` is the share of activations that a forward pass may keep; None for that of the settings.
    """

    dynamic: bool
    backend: str | Backend | None
    search: bool
    freeze: bool
    budget: float | None = None

    def compile_graph(self, graph: Graph) -> Executable:
        """The executable of a graph."""
        if callable(self.backend):
            return GivenBackend(graph, self.backend)
        chooser = tune.tuner_here() if self.search else None
        executable = build.compile_graph(graph, self.backend, chooser)
        folder = settings.get().repro
        return repro.Recorded(graph, executable, folder) if folder else executable

    def refuse_made(self, type_: TensorType, hold: bool) -> None:
        """Refuses a value elsewhere: A006 where no graphs are compiled, V003 without data if all must `hold` some."""
        if type_.device == META and hold:
            hint = "make it outside of the compiled function"
            fail("V003", "a tensor without data cannot be made in a graph", tensor=type_, hint=hint)
        if type_.device not in (CPU, META) and not callable(self.backend) and not backend_of(type_.device).compiles:
            fail("A006", f"{type_.device.type} compiles no graphs", tensor=type_)

    def compile_backward(self, forward: object, graph: Graph) -> Executable:
        """The executable of a graph of a backward pass; a callable gets it if it says who compiles it."""
        if callable(self.backend):
            given = backward_backend(forward)
            return build.compile_graph(graph, "eager") if given is None else GivenBackend(graph, given)
        return self.compile_graph(graph)

    def recomputes(self) -> bool:
        """Whether a backward pass may compute values again rather than keep them."""
        if callable(self.backend):
            return bool(getattr(self.backend, "recomputes", False))
        return (self.backend or settings.get().backend) != "eager"

    def memory_budget(self) -> float:
        """The share of activations that a forward pass may keep."""
        return settings.get().activation_memory_budget if self.budget is None else self.budget
