"""Composites and derivative rules call by call: a rule is traced once, and what it recorded is dispatched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.eager.dispatch import Memo, call_function, running
from rushlight.eager.execution.copying import TO_DEVICE
from rushlight.eager.execution.operands import (
    attribute_key,
    flatten,
    form_key,
    form_of_operand,
    structure_of,
    types_together,
    unflatten,
)
from rushlight.eager.handle import Handle
from rushlight.ir.graph import NUMBER, RELAYOUT, RESULT, Call, Graph, GraphBuilder, Node
from rushlight.ir.type import CPU
from rushlight.ir.value import map_operands
from rushlight.ops.record import OPERATORS, Operator

_MOST_TRACES = 4096
_traces: Memo[tuple[Graph, bool]] = Memo(_MOST_TRACES)


def run_decomposition(op: Operator, key: Any, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The operator's decomposition, each call dispatched on its own. `key` is where it was decided to decompose."""
    graph, several = _traced(op, operands, attrs)
    flat = flatten(operands)
    with running(op, key):
        results = replay(graph, flat)
        if several:
            return tuple(results)
        result = results[0]
        if op.schema.results[0].alias is None and _is_shown_in(result, flat):
            return call_function(OPERATORS["clone"], (result,), {})
        return result


def _is_shown_in(result: object, operands: Sequence[object]) -> bool:
    """Whether a result is an operand or a view of one: of sizes of 1 a composite may give what it was given."""
    if not isinstance(result, Handle):
        return False
    base = _base(result)
    return any(isinstance(operand, Handle) and _base(operand) is base for operand in operands)


def _base(tensor: Handle) -> Handle:
    return tensor if tensor.view_of is None else tensor.view_of.base


def single_view(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Call | None:
    """The one call that a decomposition consists of, where that is a view of the first operand."""
    graph, several = _traced(op, operands, attrs)
    return graph.calls[0] if not several and _gives_views(graph) else None


def several_views(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Sequence[Call]:
    """The calls that a decomposition consists of, where each is a view of the first operand; else none."""
    graph, several = _traced(op, operands, attrs)
    return graph.calls if several and _gives_views(graph) else ()


def only_call(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Call | None:
    """The one call that gives all of a decomposition's results, if they share the operand's memory."""
    graph, several = _traced(op, operands, attrs)
    if not several:
        return single_view(op, operands, attrs)
    first, rest = graph.calls[0] if graph.calls else None, graph.calls[1:]
    if first is None or not isinstance(first.op, Operator) or first.operands != graph.parameters[:1]:
        return None
    parts = [
        call.op is RESULT and call.operands == (first,) and call.attr("index") == at for at, call in enumerate(rest)
    ]
    return first if rest and rest == graph.outputs and all(parts) and first.op.schema.results[0].alias else None


def _gives_views(graph: Graph) -> bool:
    """Whether each call is a result, and a view of the first parameter."""
    return graph.calls == graph.outputs and all(
        isinstance(call.op, Operator) and call.op.view_rule is not None and call.operands == graph.parameters[:1]
        for call in graph.calls
    )


def decomposition(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Graph:
    """What an operator consists of for operands of these forms."""
    return _traced(op, operands, attrs)[0]


def _traced(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> tuple[Graph, bool]:
    forms = [form_of_operand(operand) for operand in flatten(operands)]
    trace_key = (op, attribute_key(attrs), *[form_key(operand) for operand in operands])
    trace = _traces.get(trace_key)
    if trace is None:
        builder = GraphBuilder(op.name)
        op.check_accepted(unflatten(structure_of(operands), [form.type for form in forms]), attrs)
        types = types_together(forms, tensors=True)
        nodes = [builder.parameter(f"p{position}", type_) for position, type_ in enumerate(types)]
        assert op.decompose_rule is not None
        result = op.decompose_rule(**op.named(unflatten(structure_of(operands), nodes), attrs))
        several = isinstance(result, tuple)
        outputs = result if several else (result,)
        trace = builder.graph([as_node(builder, output) for output in outputs]), several
        _traces.put(trace_key, trace, any(form.symbolic for form in forms))
    return trace


def as_node(builder: GraphBuilder, value: object) -> Node:
    """A rule's result as a node; a number becomes a constant."""
    return value if isinstance(value, Node) else Node(builder, builder.operand(value))


def replay(graph: Graph, flat: Sequence[object]) -> list[Any]:
    """Dispatches a graph's calls on tensors and numbers given for its parameters; its outputs.

    What numbers of the CPU's alone give is moved to where the graph has it.
    """
    values: dict[int, Any] = {id(call): value for call, value in zip(graph.parameters, flat, strict=True)}
    for call in graph.calls:
        if call.op is NUMBER:
            values[id(call)] = call.attr("value")
        elif call.op is RESULT:
            values[id(call)] = values[id(call.operands[0])][call.attr("index")]
        elif call.op is RELAYOUT:
            values[id(call)] = values[id(call.operands[0])]
        else:
            values[id(call)] = _replayed(call, values)
    return [values[id(call)] for call in graph.outputs]


def _replayed(call: Call, values: dict[int, object]) -> Any:
    operands = map_operands(call.operands, lambda operand: values[id(operand)])
    result = call_function(call.op, operands, dict(call.attrs))
    strayed = isinstance(result, Handle) and result.form.device is CPU and call.type.device != CPU
    return TO_DEVICE(result, device=call.type.device) if strayed else result
