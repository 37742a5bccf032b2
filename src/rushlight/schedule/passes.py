"""The passes of the schedule: lower, fold, fuse, order, tile. They turn a graph of primitives into a plan of launches.

The first four take and return a `Schedule`; `tile` makes the `Plan`. Decisions are made in the modules that the passes
call. The passes are separate so that each result can be printed (`schedule.text`) and checked (`schedule.verify`).
"""

from __future__ import annotations

from dataclasses import replace

from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.graph import Graph
from rushlight.ir.plan import Plan
from rushlight.schedule.fuse.fusion import fuse_nodes
from rushlight.schedule.fuse.order import order_groups
from rushlight.schedule.fuse.split_reductions import split_reductions
from rushlight.schedule.gemm.recognition import widen_products
from rushlight.schedule.loops.row_blocks import find_chains, groups_of, made_in_chains
from rushlight.schedule.lower.constants import cached_constants, mark_constants
from rushlight.schedule.lower.folding import Dissected
from rushlight.schedule.lower.lowering import lower_graph
from rushlight.schedule.lower.nodes import make_nodes
from rushlight.schedule.memory.aliasing import (
    alias_mutations,
    alias_results,
    mutated_values,
    overwrites,
    share_storage,
    stored_buffers,
    with_stored,
)
from rushlight.schedule.plan import make_plan
from rushlight.schedule.record import Schedule


def lower(graph: Graph, target: ScheduleTarget) -> Schedule:
    """Gives every value of a graph a definition: one scalar for each index. Results get buffers of the caller."""
    lowered = lower_graph(graph)
    widen_products(lowered.definitions, target.products)
    outputs = alias_results(graph, lowered)
    mutations = mutated_values(graph, lowered, outputs[len(graph.outputs) :])
    inputs = tuple([lowered.buffers[id(call)] for call in graph.parameters])
    return Schedule(graph, target, inputs, tuple(outputs), mutations, tuple(lowered.definitions))


def fold(schedule: Schedule) -> Schedule:
    """Folds cheap values into their users, and splits long reductions at the edges of their blocks."""
    dissected = [Dissected.of(definition) for definition in schedule.definitions]
    results = set(schedule.outputs)
    if not schedule.graph.frozen:
        return replace(schedule, nodes=tuple(split_reductions(make_nodes(dissected, results))))
    mark_constants(dissected, results)
    nodes = make_nodes(dissected, results, cached_constants(dissected))
    once = split_reductions([node for node in nodes if node.buffer.constant])
    return replace(
        schedule,
        once_nodes=tuple(once),
        nodes=tuple(split_reductions([node for node in nodes if not node.buffer.constant])),
    )


def fuse(schedule: Schedule) -> Schedule:
    """Gathers nodes in groups, one kernel each, and decides which values are stored in memory."""
    fused, once = fuse_nodes(schedule.nodes), fuse_nodes(schedule.once_nodes)
    stored = stored_buffers([*once.groups, *fused.groups])
    return replace(
        schedule,
        once_groups=with_stored(once.groups, stored),
        groups=with_stored(fused.groups, stored),
        missed=(*once.missed, *fused.missed),
    )


def order(schedule: Schedule) -> Schedule:
    """Orders the groups, finds chains that run by row blocks, and decides which buffers share memory."""
    in_place = overwrites(schedule.mutations, schedule.groups)
    parts = find_chains(order_groups(schedule.groups, in_place), in_place)
    groups = groups_of(parts)
    aliases, commits = alias_mutations(schedule.mutations, groups)
    share_storage(groups, aliases, commits, made_in_chains(parts))
    return replace(
        schedule,
        once_parts=tuple(order_groups(schedule.once_groups, {})),
        parts=tuple(parts),
        aliases=aliases,
        commits=tuple(commits),
    )


def tile(schedule: Schedule) -> Plan:
    """Writes the loops of every kernel, chooses tiles and lanes, and lays the arena out."""
    return make_plan(schedule)
