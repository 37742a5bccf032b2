"""The schedule: from a graph of primitives to a plan of launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.graph import Graph
from rushlight.ir.loops import Definition, ScatterDefinition
from rushlight.ir.plan import Assertion, Plan, SymbolSource
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType
from rushlight.schedule.fuse.fusion import Missed, fuse
from rushlight.schedule.fuse.order import order_groups
from rushlight.schedule.fuse.split_reductions import split_reductions
from rushlight.schedule.gemm.recognition import widen_products
from rushlight.schedule.launches import LaunchMaker
from rushlight.schedule.loops.row_blocks import FusedChain, find_chains, made_in_chains
from rushlight.schedule.lower.constants import cached_constants, carried, mark_constants
from rushlight.schedule.lower.folding import Dissected
from rushlight.schedule.lower.lowering import lower_graph
from rushlight.schedule.lower.nodes import Node, make_nodes
from rushlight.schedule.memory.aliasing import (
    alias_mutations,
    alias_results,
    mark_stored,
    mutated_values,
    overwrites,
    share_storage,
)
from rushlight.schedule.memory.arena import plan_memory
from rushlight.schedule.memory.unread import mark_unread
from rushlight.sym import SizeExpr, free_symbols, is_symbol, scopes_of


@dataclass(slots=True)
class Scheduled:
    """A plan, and what was declined on the way to it."""

    plan: Plan
    missed: list[Missed] = field(default_factory=list)


def schedule(graph: Graph, machine: ScheduleTarget) -> Scheduled:
    """Lowers, fuses and places a graph of primitives."""
    lowered = lower_graph(graph)
    widen_products(lowered.definitions, machine.products)
    outputs = alias_results(graph, lowered)
    constant, nodes = _make_nodes(graph, lowered.definitions, set(outputs))
    fused, before = fuse(nodes), fuse(constant)
    mark_stored([*before.groups, *fused.groups])
    mutations = mutated_values(graph, lowered, outputs[len(graph.outputs) :])
    written_over = overwrites(mutations, fused.groups)
    parts = find_chains(order_groups(fused.groups, written_over), written_over)
    groups = [group for part in parts for group in (part.groups if isinstance(part, FusedChain) else [part])]
    placed, commits = alias_mutations(mutations, groups)
    share_storage(groups, placed, commits, made_in_chains(parts))
    first = LaunchMaker(machine, {}, ())
    for group in order_groups(before.groups, {}):
        first.add(group)
    maker = LaunchMaker(machine, placed, groups, first)
    for part in parts:
        maker.add(part)
    for buffer, place in commits:
        maker.copy(buffer, place)
    maker.share_packs()
    inputs = [lowered.buffers[id(call)] for call in graph.parameters]
    once = _once_plan(first, inputs, carried(maker.launches, first.launches, inputs)) if first.launches else None
    return Scheduled(_main_plan(graph, maker, inputs, outputs, once), [*before.missed, *fused.missed])


def _make_nodes(
    graph: Graph, definitions: list[Definition | ScatterDefinition], results: set[Buffer]
) -> tuple[list[Node], list[Node]]:
    """The nodes whose values are constant, and those that are computed at each call."""
    items = [Dissected.of(definition) for definition in definitions]
    if not graph.frozen:
        return [], split_reductions(make_nodes(items, results))
    mark_constants(items, results)
    nodes = make_nodes(items, results, cached_constants(items))
    constant, others = ([node for node in nodes if node.buffer.constant is wanted] for wanted in (True, False))
    return split_reductions(constant), split_reductions(others)


def _main_plan(
    graph: Graph, maker: LaunchMaker, inputs: list[Buffer], outputs: list[Buffer], once: Plan | None
) -> Plan:
    results = outputs[: len(graph.outputs)]
    inputs = inputs if once is None else [*inputs, *once.outputs]
    symbols = _symbol_sources([*[buffer.type for buffer in inputs], *[buffer.type for buffer in results]])
    return Plan(
        tuple(inputs),
        tuple(results),
        tuple([call.type for call in graph.outputs]),
        symbols,
        _assertions(symbols),
        plan_memory(maker.launches, results),
        mark_unread(maker.kernels, maker.launches, outputs),
        tuple(maker.launches),
        once,
    )


def _once_plan(maker: LaunchMaker, inputs: list[Buffer], outputs: list[Buffer]) -> Plan:
    used = {buffer for launch in maker.launches for buffer in launch.buffers}
    types = tuple([buffer.type for buffer in outputs])
    slots = plan_memory(maker.launches, outputs)
    read = tuple([buffer for buffer in inputs if buffer in used])
    return Plan(read, tuple(outputs), types, (), (), slots, tuple(maker.kernels), tuple(maker.launches))


def _symbol_sources(types: Sequence[TensorType]) -> tuple[SymbolSource, ...]:
    """Where each symbol's value stands at a call: in the inputs' sizes and strides, then in the outputs' strides."""
    sources: dict[SizeExpr, SymbolSource] = {}
    for descriptor, type_ in enumerate(types):
        for field_name, sizes in (("size", type_.shape), ("stride", type_.strides)):
            for dim, size in enumerate(sizes):
                if isinstance(size, SizeExpr) and is_symbol(size) and size not in sources:
                    sources[size] = SymbolSource(size, descriptor, field_name, dim)
    return tuple(sources.values())


def _assertions(sources: tuple[SymbolSource, ...]) -> tuple[Assertion, ...]:
    """The run-time asserts of the symbols' scopes, as far as the entry knows their symbols."""
    known = {source.symbol for source in sources}
    found: dict[Assertion, None] = {}
    for scope in scopes_of([source.symbol for source in sources]):
        for item in scope.asserts:
            condition = item.condition
            if known.issuperset(free_symbols(condition.expr)):
                where = "" if item.frame is None else f" ({item.frame})"
                found[Assertion(condition.relation, condition.expr, 0, f"{item}{where}")] = None
    return tuple(found)
