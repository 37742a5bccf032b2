"""Artifacts: executables by settings and signature; several of one signature are told apart by what tracing guarded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight import build
from rushlight.eager.execution.signature import Signature, Spec, Symbols, strided, symbols_of
from rushlight.ir.dtype import int64
from rushlight.ir.graph import Graph, GraphBuilder, Node
from rushlight.ir.type import CPU, Device
from rushlight.ops.promote import DEFAULT_DTYPE
from rushlight.support import settings
from rushlight.sym import Condition, SizeExpr

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.build.native import Chooser

# Traces a program: the builder, the nodes of the operands and the run-time sizes in, the graph out.
Tracer = Callable[[GraphBuilder, Sequence[Node], Sequence[Any]], Graph]


class Artifact(NamedTuple):
    """An executable and what has to hold of the symbols' values for it to be right."""

    executable: Executable
    symbols: tuple[SizeExpr, ...]
    conditions: tuple[Condition, ...]

    def accepts(self, values: Sequence[int]) -> bool:
        """Whether it may run on these sizes and strides."""
        if not self.conditions:
            return True
        bindings = dict(zip(self.symbols, values, strict=True))
        return all(condition.holds(bindings) for condition in self.conditions)


_MOST_ARTIFACTS = 1 << 12  # signatures; executables in use stay when the table is emptied

_artifacts: dict[Hashable, list[Artifact]] = {}
_declined: set[Hashable] = set()
_lock = threading.RLock()


def artifact_for(
    program: Hashable,
    trace: Tracer,
    signature: Signature,
    has_sizes: bool = False,
    device: Device = CPU,
    chooser: Chooser | None = None,
) -> Executable:
    """The executable of a program for a signature, compiled when there is none whose guards hold.

    `has_sizes`: the last operand is one that `with_run_time_sizes` added. Errors: Declined where the device makes no
    code of the program's graph. `chooser` chooses tiles and blocks in place of the cost model.
    """
    key = (settings.key(), DEFAULT_DTYPE[0], program, signature.specs, device, chooser)
    for artifact in _artifacts.get(key, ()):
        if artifact.accepts(signature.values):
            return artifact.executable
    with _lock:
        for artifact in _artifacts.get(key, ()):
            if artifact.accepts(signature.values):
                return artifact.executable
        if key in _declined:
            raise Declined
        try:
            artifact = _compile(trace, signature, has_sizes, device, chooser)
        except Declined:
            _declined.add(key)
            raise
        if len(_artifacts) >= _MOST_ARTIFACTS:
            _artifacts.clear()
        _artifacts.setdefault(key, []).append(artifact)
        return artifact.executable


def with_run_time_sizes(signature: Signature, sizes: Sequence[int]) -> Signature:
    """The signature with one more operand, all strides 0: sizes travel as the shape of nothing."""
    if not sizes:
        return signature
    first = 1 + max([dim for spec in signature.specs for dim in spec.dims], default=-1)
    spec = Spec(int64, False, tuple(range(first, first + len(sizes))), strided([0 for _ in sizes]))
    words = (len(sizes) | int64.code << 8, *sizes, *[0 for _ in sizes])
    values = (*signature.values[:first], *sizes, *signature.values[first:])
    return Signature((*signature.specs, spec), values, (*signature.words, words))


class Declined(Exception):
    """A device's code generator does not take a graph: something else has to run the call."""


def _compile(trace: Tracer, signature: Signature, has_sizes: bool, device: Device, chooser: Chooser | None) -> Artifact:
    made = symbols_of(signature)
    builder = GraphBuilder()
    nodes = [builder.parameter(f"p{position}", type_) for position, type_ in enumerate(made.types)]
    sizes = nodes.pop().type.shape if has_sizes else ()
    graph = trace(builder, nodes, sizes)
    executable = build.compile_graph(graph, chooser=chooser) if device is CPU else build.compile_for(device, graph)
    if executable is None:
        raise Declined
    conditions = _conditions(made)
    return Artifact(executable, made.symbols, conditions)


def _conditions(made: Symbols) -> tuple[Condition, ...]:
    return tuple([guard.condition for guard in made.scope.guards])


def reset() -> None:
    """Forgets all executables."""
    with _lock:
        _artifacts.clear()
        _declined.clear()
