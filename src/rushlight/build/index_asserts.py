"""Asserts that indices are in range, as values of a graph: what eager code checks before a call, compiled code asserts.

They are derived from the calls that were traced, before composites are taken apart, by the rules that eager code asks
(`ops.index_ranges`). A call of which nothing is needed is not made, and so not checked. Equal asserts are one, and an
index that is known to be in range has none (`ops.index_bounds`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from rushlight.ir.graph import NUMBER, Call, Graph, GraphBuilder, Node, ValueAssert, type_of
from rushlight.ops.create import count_of
from rushlight.ops.index_bounds import is_within
from rushlight.ops.index_ranges import RULES, Range, any_outside, ranges_of


def with_index_asserts(graph: Graph) -> Graph:
    """The graph with an assert for each index that its calls read and that may be out of range."""
    if not any(call.op in RULES for call in graph.calls):
        return graph
    return _Asserting(graph).run()


class _Asserting:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = GraphBuilder(graph.name)
        self.asserts: dict[Hashable, ValueAssert] = {}

    def run(self) -> Graph:
        """The graph, each assert's calls before the call that reads the index."""
        for call in self.graph.calls:
            if call.op in RULES:
                self._check(call)
            self.builder.calls.append(call)
        if not self.asserts:
            return self.graph
        return replace(self.graph, calls=tuple(self.builder.calls), asserts=tuple(self.asserts.values()))

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
            key = (id(index), one.low, one.high, one.ignored, one.derived)
            if key not in self.asserts:
                self.asserts[key] = self._assert(call, index, one)

    def _assert(self, call: Call, index: Call, one: Range) -> ValueAssert:
        builder = self.builder
        builder.frames, builder.region = call.frames, call.region
        node = Node(builder, index)
        bounds = [None if bound is None else count_of(node, bound) for bound in (one.low, one.high)]
        outside = any_outside(node, bounds[0], bounds[1], one.ignored, one.derived)
        frame = next(iter(call.frames), None)
        if one.high is None or one.derived is not None:
            code = "A002" if one.derived is None else "I001"
            return ValueAssert(outside.call, code, f"{call.op.name}: {one.requirement}", 0, frame)
        message = f"{call.op.name}: an index is out of range for a dim of size {{size}}"
        return ValueAssert(outside.call, "I001", message, one.high, frame)
