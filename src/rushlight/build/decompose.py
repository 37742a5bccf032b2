"""Passes from a traced graph to primitives: sizes resolved, composites taken apart, equal calls merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rushlight.ir.graph import NUMBER, RELAYOUT, RESULT, Call, Graph, GraphBuilder, Inner, Node, has_effect
from rushlight.ir.type import TensorType
from rushlight.ir.value import map_operands
from rushlight.sym import Size, SizeExpr, simplify
from rushlight.term import attr_key


class PrimitiveBuilder(GraphBuilder):
    """A builder whose graph holds primitives only: an operator without `lower` is taken apart when it is applied."""

    __slots__ = ()

    def is_primitive(self, op: Any) -> bool:
        """Whether calls of an operator stay whole."""
        return op.lower_rule is not None

    def apply(self, op: Any, args: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
        """Records a primitive, or runs a composite's decomposition."""
        if self.is_primitive(op) or op.decompose_rule is None:
            return super().apply(op, args, attrs)
        return op.decompose_rule(**op.named(tuple([self.value(arg) for arg in args]), attrs))

    def value(self, arg: object) -> object:
        """An argument as rules see it: numbers become weak nodes."""
        if isinstance(arg, (tuple, list)):
            return tuple([self.value(member) for member in arg])
        if isinstance(arg, Node) or arg is None:
            return arg
        return Node(self, self.operand(arg))


def to_primitives(graph: Graph) -> Graph:
    """The same graph in primitives, with every size resolved by its scope's facts. Results keep their strides."""
    builder = PrimitiveBuilder(graph.name)
    images: dict[int, Any] = {}
    for call in graph.parameters:
        images[id(call)] = builder.parameter(call.attr("name"), resolve_type(call.type))
    for call in graph.calls:
        builder.frames, builder.region = call.frames, call.region
        if call.op is NUMBER:
            images[id(call)] = Node(builder, builder.operand(call.attr("value")))
        elif call.op is RELAYOUT:
            images[id(call)] = builder.laid_out(images[id(call.operands[0])], resolve_type(call.type))
        elif call.op is RESULT:
            images[id(call)] = images[id(call.operands[0])][call.attr("index")]
        else:
            operands = map_operands(call.operands, lambda operand: images[id(operand)])
            attrs = {name: resolve_attr(value) for name, value in call.attrs}
            images[id(call)] = builder.apply(call.op, operands, attrs)
    outputs = [builder.laid_out(images[id(call)], resolve_type(call.type)) for call in graph.outputs]
    mutations = [(position, images[id(call)]) for position, call in graph.mutations]
    asserts = tuple([replace(check, fails=images[id(check.fails)].call) for check in graph.asserts])
    whole = replace(builder.whole(outputs, mutations, graph.views, graph.sizes), frozen=graph.frozen, asserts=asserts)
    return whole.without_dead_calls()


def resolve_type(type_: Any) -> Any:
    """A type with every size in its representative form."""
    if isinstance(type_, tuple):
        return tuple([resolve_type(member) for member in type_])
    shape = tuple([_resolve(size) for size in type_.shape])
    strides = tuple([_resolve(size) for size in type_.strides])
    return TensorType(shape, type_.dtype, type_.device, strides, type_.weak)


def _resolve(size: Size) -> Size:
    return simplify(size) if isinstance(size, SizeExpr) else size


def resolve_attr(value: object) -> object:
    """An attribute with every size in its representative form, and graphs in primitives."""
    if isinstance(value, SizeExpr):
        return _resolve(value)
    if isinstance(value, Inner):
        with value.branch.scope.within(value.branch):
            return Inner(to_primitives(value.graph), value.branch)
    return tuple([resolve_attr(member) for member in value]) if isinstance(value, tuple) else value


def merge_equal_calls(graph: Graph) -> Graph:
    """Common subexpressions: a call equal to an earlier one in the same region is replaced by it."""
    seen: dict[tuple[object, ...], Call] = {}
    images: dict[int, Call] = {}
    calls: list[Call] = []

    def renamed(call: Call) -> Call:
        return images.get(id(call), call)

    for call in graph.calls:
        operands = map_operands(call.operands, renamed)
        key = (call.op, map_operands(operands, id), attr_key(call.attrs), call.type, call.region)
        merged = None if has_effect(call) else seen.get(key)
        if merged is None:
            merged = seen[key] = on_operands(call, operands)
            calls.append(merged)
        images[id(call)] = merged
    if len(calls) == len(graph.calls):
        return graph.without_dead_calls()
    return with_calls(graph, calls, renamed).without_dead_calls()


def on_operands(call: Call, operands: tuple[object, ...]) -> Call:
    """The call on these operands: itself if they are its own."""
    same = all(new is old for new, old in zip(operands, call.operands, strict=True))
    return call if same else Call(call.op, operands, call.attrs, call.type, call.frames, call.region)


def with_calls(graph: Graph, calls: Sequence[Call], image: Callable[[Call], Call]) -> Graph:
    """The graph with other calls, of which the `image` of each call that it names takes that one's place."""
    return replace(
        graph,
        calls=tuple(calls),
        outputs=tuple([image(call) for call in graph.outputs]),
        mutations=tuple([(position, image(call)) for position, call in graph.mutations]),
        asserts=tuple([replace(check, fails=image(check.fails)) for check in graph.asserts]),
    )
