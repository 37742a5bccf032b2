"""The record that the passes of the schedule hand on: a graph of primitives on its way to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.graph import Graph
from rushlight.ir.loops import Definition, ScatterDefinition
from rushlight.ir.scalar import Buffer
from rushlight.schedule.fuse.fusion import Group, Missed
from rushlight.schedule.loops.row_blocks import FusedChain
from rushlight.schedule.lower.nodes import Node
from rushlight.support.frozen import frozen

_NO_ALIASES: Mapping[Buffer, Buffer] = MappingProxyType({})


@frozen(eq=False)
class Schedule:
    """A graph on its way to a plan. Each pass returns a copy with its own fields set.

    Lowering sets `definitions` and the buffers. `outputs` are the results, the new values of mutated parameters, and
    what is asserted;
    `mutations` maps these new values to the parameters. Folding sets `nodes`, and `once_nodes` for values that depend
    on frozen inputs alone. Fusion sets `groups`, `once_groups` and the fusions it declined, `missed`. Ordering sets
    `parts` and `once_parts`, in the order in which they run, and decides which buffers share memory: `aliases` maps a
    value to the buffer whose memory holds it, and `commits` are the copies (from, to) at the end.
    """

    graph: Graph
    target: ScheduleTarget
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    mutations: Mapping[Buffer, Buffer]
    definitions: tuple[Definition | ScatterDefinition, ...]
    once_nodes: tuple[Node, ...] = ()
    nodes: tuple[Node, ...] = ()
    once_groups: tuple[Group, ...] = ()
    groups: tuple[Group, ...] = ()
    missed: tuple[Missed, ...] = ()
    once_parts: tuple[Group, ...] = ()
    parts: tuple[Group | FusedChain, ...] = ()
    aliases: Mapping[Buffer, Buffer] = _NO_ALIASES
    commits: tuple[tuple[Buffer, Buffer], ...] = ()

    @property
    def results(self) -> tuple[Buffer, ...]:
        """The outputs of the program, without the new values of mutated parameters."""
        return self.outputs[: len(self.graph.outputs)]

    @property
    def asserted(self) -> tuple[Buffer, ...]:
        """The values that the graph asserts to be False."""
        return self.outputs[len(self.graph.results()) :]
