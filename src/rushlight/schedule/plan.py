"""From ordered groups to a plan: kernels and launches, the arena, where the entry finds sizes, and its assertions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rushlight.ir.plan import Assertion, Plan, SymbolSource
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType
from rushlight.schedule.launches import LaunchMaker
from rushlight.schedule.loops.blocks import Walk
from rushlight.schedule.loops.mixed_rows import mixed_rows
from rushlight.schedule.lower.constants import cached_outputs
from rushlight.schedule.memory.arena import plan_memory
from rushlight.schedule.memory.unread import mark_unread
from rushlight.schedule.record import Schedule
from rushlight.sym import RuntimeAssert, SizeExpr, free_symbols, is_symbol, scopes_of


def make_plan(schedule: Schedule) -> Plan:
    """The plan of a schedule whose groups are ordered.

    What depends on frozen inputs alone gets a plan of its own, `once`.
    """
    first = LaunchMaker(schedule.target, {}, ())
    for group in schedule.once_parts:
        first.add(group)
    walk = Walk.of(schedule.target.blocks, [call.type.shape for call in schedule.graph.parameters])
    maker = LaunchMaker(schedule.target, dict(schedule.aliases), schedule.groups, first, walk)
    mixes = not schedule.target.blocks.grid and "row_sums" not in schedule.target.without
    for part in mixed_rows(schedule.parts, maker.aliases) if mixes else schedule.parts:
        maker.add(part)
    for source, target in schedule.commits:
        maker.copy(source, target)
    maker.share_packs()
    once = None
    if first.launches:
        cached = cached_outputs(maker.launches, first.launches, schedule.inputs)
        for launches in (first, maker):
            launches.replace_buffers(cached)
        once = replace(_once_plan(first, schedule.inputs, tuple(cached.values())), scopes=schedule.graph.scopes)
    return _main_plan(schedule, maker, once)


def _main_plan(schedule: Schedule, maker: LaunchMaker, once: Plan | None) -> Plan:
    results = schedule.results
    asserted = tuple([maker.aliases.get(buffer, buffer) for buffer in schedule.asserted])
    inputs = schedule.inputs if once is None else (*schedule.inputs, *once.outputs)
    symbols = symbol_sources([*[buffer.type for buffer in inputs], *[buffer.type for buffer in results]])
    return Plan(
        inputs,
        results,
        tuple([call.type for call in schedule.graph.outputs]),
        symbols,
        known_assertions(symbols),
        plan_memory(maker.launches, results, kept=asserted),
        mark_unread(maker.kernels, maker.launches, schedule.outputs),
        tuple(maker.launches),
        once,
        asserted,
        schedule.graph.scopes,
    )


def _once_plan(maker: LaunchMaker, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Plan:
    used = {buffer for launch in maker.launches for buffer in launch.buffers}
    types = tuple([buffer.type for buffer in outputs])
    slots = plan_memory(maker.launches, outputs)
    read = tuple([buffer for buffer in inputs if buffer in used])
    return Plan(read, tuple(outputs), types, (), (), slots, tuple(maker.kernels), tuple(maker.launches))


def symbol_sources(types: Sequence[TensorType]) -> tuple[SymbolSource, ...]:
    """The descriptor entry that holds each symbol's value: inputs' sizes and strides first, then outputs' strides."""
    sources: dict[SizeExpr, SymbolSource] = {}
    for descriptor, type_ in enumerate(types):
        for field_name, sizes in (("size", type_.shape), ("stride", type_.strides)):
            for dim, size in enumerate(sizes):
                if isinstance(size, SizeExpr) and is_symbol(size) and size not in sources:
                    sources[size] = SymbolSource(size, descriptor, field_name, dim)
    return tuple(sources.values())


def known_assertions(sources: Sequence[SymbolSource]) -> tuple[Assertion, ...]:
    """The run-time assertions of the symbols' scopes, where the entry knows all their symbols."""
    symbols = {source.symbol for source in sources}
    promises = [promise for scope in scopes_of([source.symbol for source in sources]) for promise in scope.asserts]
    known = [promise for promise in promises if symbols.issuperset(free_symbols(promise.condition.expr))]
    return tuple(dict.fromkeys(map(assertion_of, known)))


def assertion_of(promise: RuntimeAssert) -> Assertion:
    """The assertion of what a scope asserts."""
    condition = promise.condition
    where = "" if promise.frame is None else f" ({promise.frame})"
    return Assertion(condition.relation, condition.expr, 0, f"{promise}{where}")
