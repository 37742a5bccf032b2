"""The passes of the schedule: lower, fold, fuse, order, tile. They turn a graph of primitives into a plan of launches.

The first four take and return a `Schedule`; `tile` makes the `Plan`. Decisions are made in the modules that the passes
call. The passes are separate so that each result can be printed (`schedule.text`) and checked (`schedule.verify`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.graph import Graph
from rushlight.ir.plan import Plan
from rushlight.ir.scalar import Buffer
from rushlight.schedule.fuse.fusion import Group, fuse_nodes
from rushlight.schedule.fuse.order import order_groups
from rushlight.schedule.fuse.split_reductions import split_reductions
from rushlight.schedule.gemm.recognition import settle_products
from rushlight.schedule.loops.row_blocks import find_chains, groups_of, made_in_chains
from rushlight.schedule.lower.constants import cached_constants
from rushlight.schedule.lower.folding import Dissected
from rushlight.schedule.lower.lowering import lower_graph
from rushlight.schedule.lower.nodes import make_nodes
from rushlight.schedule.memory.aliasing import (
    alias_results,
    mutated_values,
    overwrites,
    place_mutations,
    replace_buffers,
    share_storage,
    stored_buffers,
    with_stored,
)
from rushlight.schedule.plan import make_plan
from rushlight.schedule.record import Schedule


def lower(graph: Graph, target: ScheduleTarget) -> Schedule:
    """Gives every value of a graph a definition: one scalar for each index. Results get buffers of the caller."""
    lowered = lower_graph(graph)
    settle_products(lowered.definitions, target.products)
    outputs = alias_results(graph, lowered)
    mutations = mutated_values(graph, lowered, outputs[len(graph.outputs) :])
    inputs = tuple([lowered.buffers[id(call)] for call in graph.parameters])
    return Schedule(graph, target, inputs, tuple(outputs), mutations, tuple(lowered.definitions))


def fold(schedule: Schedule) -> Schedule:
    """Folds cheap values into their users, and splits long reductions at the edges of their blocks."""
    dissected = [Dissected.of(definition) for definition in schedule.definitions]
    results = set(schedule.outputs)
    split = split_reductions if schedule.target.splits else list
    if not schedule.graph.frozen:
        return replace(schedule, nodes=tuple(split(make_nodes(dissected, results))))
    nodes = make_nodes(dissected, results, cached_constants(dissected))
    once = split([node for node in nodes if node.buffer.constant])
    return replace(
        schedule,
        once_nodes=tuple(once),
        nodes=tuple(split([node for node in nodes if not node.buffer.constant])),
    )


def fuse(schedule: Schedule) -> Schedule:
    """Gathers nodes in groups, one kernel each, and decides which values are stored in memory."""
    without = schedule.target.without
    fused, once = fuse_nodes(schedule.nodes, without), fuse_nodes(schedule.once_nodes, without)
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
    groups = order_groups(schedule.groups, in_place, schedule.asserted)
    parts = find_chains(groups, in_place) if schedule.target.chains else groups
    schedule = replace(schedule, once_parts=tuple(order_groups(schedule.once_groups, {})), parts=tuple(parts))
    schedule = with_buffers(schedule, place_mutations(schedule.mutations, groups_of(parts), schedule.asserted))
    groups = groups_of(schedule.parts)
    mutations = schedule.mutations.items()
    commits = tuple([(new, old) for new, old in mutations if new.scope == "arena"])
    written_over = {new: old for new, old in mutations if new.scope == "global"}
    aliases = share_storage(groups, written_over, commits, made_in_chains(schedule.parts), schedule.asserted)
    return replace(schedule, aliases=aliases, commits=commits)


def with_buffers(schedule: Schedule, images: Mapping[Buffer, Buffer]) -> Schedule:
    """An ordered schedule with other buffers in place of some, in its groups and outputs."""
    if all(new is old for old, new in images.items()):
        return schedule
    groups = replace_buffers(schedule.groups, images)
    replaced = dict(zip(schedule.groups, groups, strict=True))
    parts = [replaced[part] if isinstance(part, Group) else part.with_groups(replaced) for part in schedule.parts]
    return replace(
        schedule,
        groups=tuple(groups),
        parts=tuple(parts),
        outputs=tuple([images.get(buffer, buffer) for buffer in schedule.outputs]),
        mutations={images[new]: old for new, old in schedule.mutations.items()},
    )


def tile(schedule: Schedule) -> Plan:
    """Writes the loops of every kernel, chooses tiles and lanes, and lays the arena out."""
    return make_plan(schedule)
