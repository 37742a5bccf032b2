"""Calls that run a graph once, where they stand: until the last moment one call each, which passes see as a whole."""

from __future__ import annotations

from rushlight.build.decompose import on_operands, with_calls
from rushlight.ir.graph import RESULT, Call, Graph, Inner
from rushlight.ir.value import map_operands
from rushlight.ops.record import Fact


def is_whole(call: Call) -> bool:
    """Whether a call stands for the calls of a graph: the host does not run it, and it runs once."""
    facts: Fact = getattr(call.op, "facts", Fact.NONE)
    return Fact.CONTROL in facts and Fact.HOST not in facts


def inlined(graph: Graph) -> Graph:
    """The graph with the calls of such calls' graphs in their places."""
    if not any(map(is_whole, graph.calls)):
        return graph
    images: dict[int, Call] = {id(call): call for call in graph.parameters}
    results: dict[int, list[Call]] = {}
    calls: list[Call] = []

    def copy(call: Call, known: dict[int, Call]) -> None:
        if call.op is RESULT and id(call.operands[0]) in results:
            known[id(call)] = results[id(call.operands[0])][call.attr("index")]
            return
        operands = map_operands(call.operands, lambda operand: known[id(operand)])
        if is_whole(call):
            (given,) = operands
            inner: Inner = call.attr("body")
            within = {id(one): image for one, image in zip(inner.graph.parameters, given, strict=True)}
            for one in inner.graph.calls:
                copy(one, within)
            results[id(call)] = [within[id(output)] for output in inner.graph.outputs]
            return
        known[id(call)] = on_operands(call, operands)
        calls.append(known[id(call)])

    for call in graph.calls:
        copy(call, images)
    return with_calls(graph, calls, lambda call: images[id(call)])
