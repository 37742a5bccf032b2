"""Takes operators apart that have no form in ONNX, until all parts have one."""

from __future__ import annotations

from rushlight.build.decompose import PrimitiveBuilder
from rushlight.ir.graph import NUMBER, RESULT, Call, Graph, GraphBuilder, Node
from rushlight.onnx.values import Value
from rushlight.onnx.writing.writer import RULES, Writer


class _FormBuilder(PrimitiveBuilder):
    """A builder whose calls have forms in ONNX, or cannot be taken apart."""

    __slots__ = ()

    def is_primitive(self, op: Value) -> bool:
        """Whether an operator has a form."""
        return op.name in RULES


def taken_apart(call: Call) -> tuple[list[Call], Value] | None:
    """The calls of a decomposition on the call's own operands, and its results; None where it has a form."""
    if call.op in (NUMBER, RESULT) or call.op.name in RULES or getattr(call.op, "decompose_rule", None) is None:
        return None
    builder = _FormBuilder()
    result = builder.apply(call.op, tuple([_nodes(builder, operand) for operand in call.operands]), dict(call.attrs))
    return builder.calls, result


def _nodes(builder: GraphBuilder, operand: Value) -> Value:
    if isinstance(operand, tuple):
        return tuple([Node(builder, call) for call in operand])
    return None if operand is None else Node(builder, operand)


def missing_forms(graph: Graph) -> set[str]:
    """The operators of a graph that have no form, and cannot be taken apart into some that have."""
    names: set[str] = set()
    for call in graph.calls:
        apart = taken_apart(call)
        calls = [call] if apart is None else apart[0]
        names |= {part.op.name for part in calls if part.op not in (NUMBER, RESULT)} - RULES.keys()
    for inner in graph.inner:
        names |= missing_forms(inner)
    return names


def write_graph(write: Writer, graph: Graph) -> None:
    """Write all calls of a graph."""
    for call in graph.calls:
        apart = taken_apart(call)
        if apart is None:
            write.values[id(call)] = write.written(call)
            continue
        calls, result = apart
        write.kept.extend(calls)
        for part in calls:
            write.values[id(part)] = write.written(part)
        write.values[id(call)] = _names(write, result)


def _names(write: Writer, result: Value) -> Value:
    if isinstance(result, (tuple, list)):
        return [_names(write, node) for node in result]
    return write.value(result.call)
