"""A graph of primitives taken through the passes of the schedule, without what the pipeline does around them."""

from __future__ import annotations

from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.graph import Graph
from rushlight.ir.plan import Plan
from rushlight.schedule.passes import fold, fuse, lower, order, tile


def schedule(graph: Graph, target: ScheduleTarget) -> Plan:
    """The plan of a graph."""
    return tile(order(fuse(fold(lower(graph, target)))))
