"""Asserts that indices are in range, as values of a graph: what eager code checks before a call, compiled code asserts.

They are derived from the calls that were traced, before composites are taken apart, by the rules that eager code asks
(`ops.index_ranges`). A call of which nothing is needed is not made, but its indices are checked. Equal asserts are one,
and an index that is known to be in range has none (`ops.index_bounds`).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from dataclasses import replace
from typing import Any

from rushlight.ir.graph import NUMBER, RESULT, Call, Graph, GraphBuilder, Node, ValueAssert, type_of
from rushlight.ops.create import count_of
from rushlight.ops.index_bounds import is_within
from rushlight.ops.index_ranges import RULES, Range, any_outside, ranges_of
from rushlight.ops.record import OPERATORS, Fact, Operator


def with_index_asserts(graph: Graph) -> Graph:
    """The graph with an assert for each index that its calls read and that may be out of range."""
    reading = {id(call) for call in graph.calls if call.op in RULES}
    return _Asserting(graph, reading).run() if reading else graph


def with_asserts_of_dead_calls(graph: Graph, others: Container[int] = ()) -> Graph:
    """The graph without calls of which nothing is needed, and an assert for each such index of theirs.

    Eager code makes these calls too: those that the host may refuse for values are made. `others` are calls that eager
    code does not make, by identity.
    """
    living = graph.without_dead_calls()
    kept = {id(call) for call in living.calls}
    made = [call for call in graph.calls if id(call) not in kept and id(call) not in others]
    refusing = [call for call in made if Fact.REFUSING in getattr(call.op, "facts", Fact.NONE)]
    dead = {id(call) for call in made if call.op in RULES}
    if not dead and not refusing:
        return living
    graph = _Asserting(graph, dead).run() if dead else graph
    return (_with_calls_made(graph, refusing) if refusing else graph).without_dead_calls()


def _with_calls_made(graph: Graph, calls: Iterable[Call]) -> Graph:
    """The graph with asserts of calls on the host, which they need: they end where the host refuses none."""
    builder = GraphBuilder(graph.name, calls=list(graph.calls))
    results: dict[int, list[Call]] = {}
    for call in graph.calls:
        if call.op is RESULT:
            results.setdefault(id(call.operands[0]), []).append(call)
    asserts = list(graph.asserts)
    for call in calls:
        builder.frames, builder.region = call.frames, call.region
        values = [Node(builder, value) for value in results.get(id(call), [call])]
        refused = OPERATORS["refused"](values)
        asserts.append(ValueAssert(refused.call, "X001", f"{call.op.name}: what was refused has an error of its own"))
    return replace(graph, calls=tuple(builder.calls), asserts=tuple(asserts))


class _Asserting:
    def __init__(self, graph: Graph, checked: Container[int]) -> None:
        self.graph = graph
        self.checked = checked
        self.builder = GraphBuilder(graph.name)
        self.asserts: dict[Hashable, ValueAssert] = {}

    def run(self) -> Graph:
        """The graph, each assert's calls before the call that reads the index."""
        for call in self.graph.calls:
            if id(call) in self.checked:
                self._check(call)
            self.builder.calls.append(call)
        if not self.asserts:
            return self.graph
        asserts = (*self.graph.asserts, *self.asserts.values())
        return replace(self.graph, calls=tuple(self.builder.calls), asserts=asserts)

    def _check(self, call: Call) -> None:
        op: Any = call.op
        attrs = dict(call.attrs)
        named = op.named(call.operands, attrs)
        for one in ranges_of(op, [type_of(operand) for operand in call.operands], attrs):
            index = one.read(named)
            if index.op is NUMBER:
                continue
            if one.derived is None and one.high is not None and is_within(index, one.low, one.high):
                continue
            others = one.others(named)
            key = (id(index), one.low, one.high, one.ignored, one.derived, *map(id, others))
            if key not in self.asserts:
                self.asserts[key] = self._assert(call, op, index, one, others)

    def _assert(self, call: Call, op: Operator, index: Call, one: Range, others: list[Call]) -> ValueAssert:
        builder = self.builder
        builder.frames, builder.region = call.frames, call.region
        node = Node(builder, index)
        bounds = [None if bound is None else count_of(node, bound) for bound in (one.low, one.high)]
        beside = [Node(builder, other) for other in others]
        outside = any_outside(node, bounds[0], bounds[1], one.ignored, one.derived, beside)
        frame = next(iter(call.frames), None)
        if one.high is None or one.derived is not None:
            code = "A002" if one.derived is None else one.derived.code
            return ValueAssert(outside.call, code, one.requirement(op), 0, frame)
        message = f"{call.op.name}: an index is out of range for a dim of size {{size}}"
        return ValueAssert(outside.call, "I001", message, one.high, frame)
