"""Which pass of the compiler makes the difference.

Each stage is carried out as it stands. Graphs run call by call. Definitions, nodes and groups, the stages of the
schedule, are scalar expressions, which `ir.interpret` evaluates to the bit. What comes after them is only known by its
code. The first stage whose results are other ones than those of the graph's calls names the pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from rushlight.build.pipeline import PIPELINE, Pass, PassContext
from rushlight.build.reference import Array
from rushlight.ir.choice import BLOCKS, Blocks, by_model
from rushlight.ir.graph import Graph
from rushlight.ir.interpret import cells, evaluate_definition, evaluate_into, extents
from rushlight.ir.loops import Definition, ScatterDefinition
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.repro.running import Arrays, by_calls, compiled, differing, sizes_of
from rushlight.runtime import llvm
from rushlight.schedule.loops.row_blocks import groups_of
from rushlight.schedule.lower.nodes import Node
from rushlight.schedule.record import Schedule
from rushlight.support import settings
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import SizeExpr

MOST_CELLS = 1 << 26
"""Index grids beyond this are not evaluated: the graph is to be shrunk first."""
CHOICES: Mapping[str, Blocks] = {"row blocks": Blocks(chains=False), "split sums": Blocks(splits=False)}


@frozen
class Finding:
    """The pass that makes a difference, the first value that has it, and choices that matter."""

    step: str
    value: str
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        choices = f"; right without {', '.join(self.without)}" if self.without else ""
        return f"{self.step}: {self.value} differs{choices}"


def stages(graph: Graph) -> Iterator[tuple[Pass, object]]:
    """Yield the passes of the compiler, each with what it makes of a graph."""
    context = PassContext(llvm.target_named(settings.get().target), by_model, BLOCKS)
    value: object = graph
    for step in PIPELINE:
        value = step.run(value, context)
        yield step, value


def bisect(graph: Graph, arrays: Arrays) -> Finding | None:
    """The pass after which results differ from those of the calls one by one; None if none does."""
    expected = by_calls(graph, arrays)
    lowered: dict[Buffer, Array] = {}
    for step, value in stages(graph):
        if isinstance(value, Graph):
            wrong = differing(by_calls(value, arrays), expected)
        elif isinstance(value, Schedule):
            values = evaluated(value, step.name, arrays)
            wrong = differing(_results(value, values), expected)
            if wrong:
                return Finding(step.name, _first_apart(values, lowered) or value.outputs[wrong[0]].name)
            lowered = lowered or values
        else:
            continue  # a plan, and its code, are judged by what the code gives
        if wrong:
            return Finding(step.name, f"output {wrong[0]}")
    wrong = differing(compiled(graph, arrays), expected)
    return Finding("tile, emit or LLVM", f"output {wrong[0]}", _without(graph, arrays, expected)) if wrong else None


def _without(graph: Graph, arrays: Arrays, expected: Arrays) -> tuple[str, ...]:
    """The choices without which code gives what is expected."""
    found = [name for name, blocks in CHOICES.items() if not differing(compiled(graph, arrays, blocks), expected)]
    with settings.override(optimise=0):
        if not differing(compiled(graph, arrays), expected):
            found.append("LLVM's optimisation")
    return tuple(found)


def _results(schedule: Schedule, values: Mapping[Buffer, Array]) -> list[Array]:
    count = len(schedule.graph.results())
    return [values[buffer] for buffer in schedule.outputs[:count]]


def _first_apart(values: Mapping[Buffer, Array], lowered: Mapping[Buffer, Array]) -> str | None:
    """The first value that is another one than after lowering."""
    apart = [
        buffer.name for buffer, value in values.items() if buffer in lowered and differing([value], [lowered[buffer]])
    ]
    return apart[0] if apart else None


def evaluated(schedule: Schedule, step: str, arrays: Arrays) -> dict[Buffer, Array]:
    """The values of a schedule after a pass, by buffer. Errors: C044 for loops that are too long."""
    graph_sizes = sizes_of(schedule.graph, arrays)
    values: dict[Buffer, Array] = dict(zip(schedule.inputs, arrays, strict=True))
    if step == "lower":
        for definition in schedule.definitions:
            _bound(definition.axes, _roots(definition), graph_sizes)
            values[definition.buffer] = evaluate_definition(definition, values, graph_sizes)
        return values
    for node in _nodes(schedule, step):
        _evaluate(node, values, graph_sizes)
    return values


def _nodes(schedule: Schedule, step: str) -> Iterable[Node]:
    """The nodes of a stage in an order in which they can run; from ordering on that is the stage's own."""
    if step == "fold":
        return _in_order([*schedule.once_nodes, *schedule.nodes])
    once, rest = (schedule.once_groups, schedule.groups) if step == "fuse" else (schedule.once_parts, schedule.parts)
    nodes = [node for group in (*once, *groups_of(rest)) for node in group.nodes]
    return nodes if step == "order" else _in_order(nodes)


def _in_order(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes so that each comes after all that make what it reads."""
    waiting = list(nodes)
    unmade = Counter([node.buffer for node in nodes])
    while waiting:
        ready = [node for node in waiting if not any(unmade[read] for read, _ in node.reads if read is not node.buffer)]
        for node in ready or waiting:
            yield node
            unmade[node.buffer] -= 1
        waiting = [node for node in waiting if node not in ready] if ready else []


def _evaluate(node: Node, values: dict[Buffer, Array], sizes: Mapping[SizeExpr, int]) -> None:
    """Adds the values of a node to its buffer."""
    if node.scatter is not None:
        definition = ScatterDefinition(node.buffer, node.axes, node.scatter)
        _bound((*node.axes, *node.scatter.axes), _roots(definition), sizes)
        values[node.buffer] = evaluate_definition(definition, values, sizes)
        return
    _bound(node.axes, [node.body], sizes)
    if node.buffer not in values:
        values[node.buffer] = np.zeros(extents(node.buffer.type.shape, sizes), node.buffer.type.dtype.numpy)
    evaluate_into(values[node.buffer], node.index(), node.body, node.axes, values, sizes)


def _roots(definition: Definition | ScatterDefinition) -> list[Scalar]:
    if isinstance(definition, Definition):
        return [definition.body]
    scatter = definition.scatter
    return [scatter.initial, scatter.value, *[at for at in scatter.index if isinstance(at, Scalar)]]


def _bound(axes: Sequence[SizeExpr], roots: Sequence[Scalar], sizes: Mapping[SizeExpr, int]) -> None:
    """Refuses loops whose index grid is too large to evaluate."""
    count = cells(axes, roots, sizes)
    if count > MOST_CELLS:
        fail("C044", "bisect: the loops of the graph are too long to evaluate", steps=count, hint="shrink it first")
