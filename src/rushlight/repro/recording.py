"""Scripts of graphs as they first run: an executable that writes one before its first call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from rushlight.build.executable import Commit, Executable, types_of
from rushlight.build.reference import Array, elements
from rushlight.ir.graph import Graph
from rushlight.ir.type import TensorType
from rushlight.repro.given import Given, laid_out
from rushlight.repro.running import outcome
from rushlight.repro.script import script_of
from rushlight.runtime import descriptor
from rushlight.term import structural_digest


class Recorded(Executable):
    """A graph's executable that writes the graph's script to a folder before its first call."""

    __slots__ = ("_executable", "_folder", "_graph", "_lock")

    def __init__(self, graph: Graph, executable: Executable, folder: str) -> None:
        super().__init__(*types_of(graph), executable.summary, executable.cached)
        self.once, self.reads = executable.once, executable.reads
        self._graph: Graph | None = graph
        self._executable = executable
        self._folder = Path(folder)
        self._lock = threading.Lock()

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Commit, ...] = ()) -> None:
        """Runs the executable; before the first call the script is written, from a call on copies."""
        with self._lock:
            graph, self._graph = self._graph, None
        if graph is not None:
            self._write(graph, addresses)
        self._executable.launch(addresses, work, commit)

    def _write(self, graph: Graph, addresses: Sequence[int]) -> None:
        inputs = [
            Given.of(_array(address, type_), type_.dtype, seed)
            for seed, (address, type_) in enumerate(zip(addresses, self.input_types, strict=False))
        ]
        script = script_of(graph, inputs, outcome(graph, inputs, self._executable))
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{graph.name}-{structural_digest([script.graph])[:12]}.py"
        (self._folder / name).write_text(script.text(), encoding="utf-8")


def _array(address: int, type_: TensorType) -> Array:
    """An input as an array on its memory; zeros for one that has sizes alone."""
    data, shape, strides = descriptor.read(address, len(type_.shape))
    return elements(data, shape, strides, type_.dtype) if data else laid_out(shape, strides, type_.dtype.numpy)
