"""How a function is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight import build, tune
from rushlight.capture.backends import Backend, GivenBackend
from rushlight.support import settings
from rushlight.support.frozen import frozen

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.ir.graph import Graph


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
        if not self.search:
            return build.compile_graph(graph, self.backend)
        return build.compile_graph(graph, self.backend, tune.tuner_here())

    def compile_backward(self, graph: Graph) -> Executable:
        """The executable of a graph of a backward pass: a callable gets those of functions alone."""
        if callable(self.backend):
            return build.compile_graph(graph, "eager")
        return self.compile_graph(graph)

    def recomputes(self) -> bool:
        """Whether a backward pass may compute values again rather than keep them."""
        return not callable(self.backend) and (self.backend or settings.get().backend) != "eager"

    def memory_budget(self) -> float:
        """The share of activations that a forward pass may keep."""
        return settings.get().activation_memory_budget if self.budget is None else self.budget
