"""Programs made into entries: what runs their graphs, and the backward passes that are cut from them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rushlight import build
from rushlight.autodiff.partition import split_joint
from rushlight.build.inlining import inlined
from rushlight.build.segments import is_segmented
from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.backward import BackwardPart
from rushlight.capture.entry.entry import Entry
from rushlight.capture.entry.writer import Writer
from rushlight.capture.gradients.joint import Derived
from rushlight.capture.options import Options
from rushlight.capture.program import Program
from rushlight.capture.segmented import Segmented
from rushlight.capture.source import TensorSource
from rushlight.capture.state.reachable import StateWalk
from rushlight.ir.graph import with_dense_outputs
from rushlight.ir.sizes import hidden_symbols
from rushlight.support import clock

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.ir.graph import Graph


def build_entry(program: Program, arguments: Arguments, walk: StateWalk, names: Names, options: Options) -> Entry:
    """The entry of a program."""
    backward = program.backward
    if backward is None:
        forward = _runner(program.graph, options, program.inputs.sizes)
        return Writer(program, forward, arguments, walk, names).entry(None)
    program, forward, part = differentiated(program, backward, options)
    return Writer(program, forward, arguments, walk, names).entry(part.attach)


def differentiated(
    program: Program, backward: Derived, options: Options
) -> tuple[Program, Executable | Segmented, BackwardPart]:
    """A program without its gradients, what runs its graph, and the backward pass."""
    joint = backward.joint
    count = len(program.graph.outputs) - sum([len(gradient.total) for gradient in joint.gradients])
    tangents = len(joint.tangents)
    living = [position for position, source in enumerate(program.inputs.sources) if isinstance(source, TensorSource)]
    with clock.stage("partition"):
        made = {"late": joint.passed, "derived": joint.derived}
        recompute, budget = options.recomputes(), options.memory_budget()
        split = split_joint(program.graph, count, tangents, **made, living=living, recompute=recompute, budget=budget)
    sources = program.inputs.sources[: len(program.graph.parameters) - tangents]
    program = replace(program, graph=split.forward, inputs=replace(program.inputs, sources=sources))
    forward = _runner(split.forward, options, program.inputs.sizes)
    part = BackwardPart.of(backward, len(program.outputs), split, partial(options.compile_backward, forward))
    return program, forward, part


def _runner(graph: Graph, options: Options, sizes: Collection[object]) -> Executable | Segmented:
    """What runs a graph: one executable, or several with sizes between them that no input shows.

    `sizes` are those that Python knows before the call.
    """
    graph = inlined(graph)
    if is_segmented(graph) or (sizes and hidden_symbols(graph)):
        return Segmented(graph, options.compile_graph)
    return options.compile_graph(with_dense_outputs(build.with_index_asserts(graph)))
