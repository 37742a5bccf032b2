"""Loops in traced programs: `scan` with its gradient, a scan in the other direction, and `while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import attach, differentiable, records, requires
from rushlight.eager.autograd.node import Node
from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.handle import Handle
from rushlight.eager.pytree import Structure, flatten_tree, unflatten_tree
from rushlight.eager.symbols import SymInt
from rushlight.eager.tracing.body import Body, Edge, filled
from rushlight.eager.tracing.control import (
    ControlNode,
    as_tensor,
    condition_tensor,
    gradient_operand,
    is_tensor_like,
    operand,
    refuse,
)
from rushlight.eager.tracing.tracer import Tracer
from rushlight.ir.graph import Inner
from rushlight.ir.graph import Node as Value
from rushlight.ir.type import TensorType, row_major
from rushlight.ops import OPERATORS, control
from rushlight.support.errors import fail
from rushlight.sym import Size, SizeExpr, eq, required


def agree(one: Size, other: Size) -> bool:
    """Whether two sizes are equal: guarded, or promised where only the run tells."""
    return required(eq(one, other), "the sizes of what a loop carries stay the same")


def fits(carried: TensorType, made: TensorType) -> bool:
    """Whether a value may be carried on as the next of a type."""
    same = carried.dtype is made.dtype and carried.device == made.device and carried.ndim == made.ndim
    return same and all(agree(*pair) for pair in zip(carried.shape, made.shape, strict=True))


def require_carried(op: str, carried: TensorType, made: object) -> None:
    """Raises C033 unless a value may be carried on as the next of a type."""
    if not isinstance(made, TensorType) or not fits(carried, made):
        refuse(f"{op}: the body returns what it carries with another type", given=carried, returned=made)


# Scans.


@dataclass(slots=True)
class _Scan:
    """What is known of a scan: operands as values, and the body that makes the next carried values, and outputs."""

    outer: Tracer
    body: Body
    carries: list[Handle]
    xs: list[Handle]
    length: Size
    reverse: bool

    def record(self, inner: Inner, operands: Sequence[Sequence[Value]], count: int, reverse: bool) -> Sequence[Any]:
        """Records a call that carries `count` values."""
        types = [call.type for call in inner.graph.outputs]
        stacked = [TensorType((self.length, *type_.shape), type_.dtype, type_.device) for type_ in types[count:]]
        carried = [node.type for node in operands[0]]
        attrs = {
            "body": inner,
            "types": (*carried, *stacked),
            "length": self.length,
            "reverse": reverse,
            "sizes": (),
        }
        return self.outer.record(control.scan, tuple([tuple(part) for part in operands]), attrs)


def traced_scan(
    function: Callable[[list[object], list[object]], tuple[list[object], object]],
    carries: list[Any],
    xs: list[Any],
    length: Size,
    reverse: bool,
) -> tuple[list[Any], Any]:
    """Records the body, and the call that runs it: the last carried values, and the stacked outputs.

    `function(carries, slices)` gives the next carried values and a tree of outputs; `xs` are sliced in their first dim.
    """
    outer: Tracer = STATE.tracer
    body, count = Body(outer, "body"), len(carries)
    slices = [TensorType(x.form.shape[1:], x.form.dtype, x.form.device) for x in xs]
    types = [*[row_major(carry.form.type) for carry in carries], *slices]
    wanted = [
        records() and differentiable(carry) and (position < count or requires(carry))
        for position, carry in enumerate([*carries, *xs])
    ]
    made: list[Structure] = []

    def run(arguments: list[object]) -> Any:
        following, outputs = function(arguments[:count], arguments[count:])
        leaves, structure = flatten_tree(outputs)
        made.append(structure)
        for type_, value in zip(types, following, strict=False):
            require_carried("scan", type_, value.form.type if isinstance(value, Handle) else value)
        for leaf in leaves:
            if not isinstance(leaf, Handle):
                refuse("scan: an output is no tensor", output=leaf)
        return [*following, *leaves]

    asked = any(requires(carry) for carry in (*carries, *xs))
    body.trace(run, as_tensor, types, wanted, starts=True, asked=asked)
    for node in body.results[count:]:
        if not body.unbacked_symbols().isdisjoint(_sizes(node.type)):
            refuse("scan: the size of an output is another at each step", output=node.type)
    scan = _Scan(outer, body, carries, xs, length, reverse)
    results = _record_scan(scan, count)
    return list(results[:count]), unflatten_tree(made[0], results[count:])


def _sizes(type_: TensorType) -> set[SizeExpr]:
    return {size for size in type_.shape if isinstance(size, SizeExpr)}


def _record_scan(scan: _Scan, count: int) -> Sequence[Any]:
    """Records the call of the scan.

    If it has gradients, the call also returns the values of each step that the gradients read.
    """
    body, outer = scan.body, scan.outer
    given = body.captured
    init = [operand(outer, carry, row_major(carry.form.type)) for carry in scan.carries]
    inputs = [operand(outer, x, row_major(x.form.type)) for x in scan.xs]
    captured = [operand(outer, tensor) for tensor in given]
    back = _Back(scan, count) if body.edges else None
    saved = [] if back is None else back.saved
    results = [*body.results, *[_value_of(body, tensor) for tensor in saved]]
    inner = body.inner([*body.arguments, *given], results)
    recorded = scan.record(inner, (init, inputs, captured), count, scan.reverse)
    if back is None:
        return recorded
    kept = {id(handle): outer.node(tensor) for handle, tensor in zip(saved, recorded[len(body.results) :], strict=True)}
    kept.update({id(argument): node for argument, node in zip(body.arguments[count:], inputs, strict=True)})
    results = recorded[: len(body.results)]
    back.attach(results, [kept[id(handle)] for handle in back.read], captured)
    return results


def _value_of(body: Body, argument: object) -> Value:
    position = next(index for index, handle in enumerate(body.tracer.lifted) if handle is argument)
    return Value(body.tracer.builder, body.tracer.builder.parameters[position])


class _Back:
    """The gradient of a scan: it carries gradients of what was carried, and the sums of those of what lies outside."""

    def __init__(self, scan: _Scan, count: int) -> None:
        body = self.body = scan.body
        self.scan = scan
        self.carried = body.arguments[:count]
        self.places = [position for position, carry in enumerate(self.carried) if differentiable(carry)]
        self.sources = [
            position for position, argument in enumerate(body.arguments) if position >= count and requires(argument)
        ]
        self.outside: list[Edge] = list(body.starts)
        self.outputs = [position for position in body.tangents if position >= count]
        carry_types = [row_major(self.carried[position].form.type) for position in self.places]
        slices = [body.arguments[position] for position in self.sources]
        results = [self._gradient(self.carried[position]) for position in self.places]
        results += [body.gradients.get(key) for key in self.outside]
        results += [self._gradient(slice_) for slice_ in slices]
        self.types = [*carry_types, *[body.types[key] for key in self.outside]]
        types = [*self.types, *[row_major(slice_.form.type) for slice_ in slices]]
        tangents = [
            body.tangents.get(position, type_) for position, type_ in zip(self.places, carry_types, strict=True)
        ]
        starts = [body.starts[key] for key in self.outside]
        outputs = [body.tangents[position] for position in self.outputs]
        whole = body.inner([*tangents, *starts, *body.arguments, *outputs, *body.captured], results, types)
        used = whole.graph.used()
        first = len(self.types)
        parameters = whole.graph.parameters[first : first + len(body.arguments)]
        self.read = [argument for argument, call in zip(body.arguments, parameters, strict=True) if id(call) in used]
        own = set(map(id, self.carried))
        self.saved = [handle for handle in self.read if id(handle) in own]
        self.inner = body.inner([*tangents, *starts, *self.read, *outputs, *body.captured], results, types)

    def _gradient(self, argument: Handle) -> Value | None:
        return self.body.gradients.get(self.body.edge_of(argument))

    def attach(self, results: Sequence[Any], read: list[Value], captured: list[Value]) -> None:
        """Gives the results a history; `read` are the stacked values of what the gradients read of each step."""
        scan, count = self.scan, len(self.carried)
        ends = [scan.carries[position] for position in self.places] + [
            scan.xs[position - count] for position in self.sources
        ]
        edges = [
            *[self.body.edges[key] for key in self.outside],
            *[edge_of(end) if requires(end) else None for end in ends],
        ]

        dense = [row_major(result.form.type) for result in results]  # the results hold the node

        def backward(gradients: list[Handle | None]) -> Sequence[object]:
            outer = scan.outer
            carried = [gradient_operand(outer, gradients[position], dense[position]) for position in self.places]
            sums = [filled(outer.builder, type_) for type_ in self.types[len(self.places) :]]
            arrived = [gradient_operand(outer, gradients[position], dense[position]) for position in self.outputs]
            operands = ([*carried, *sums], [*read, *arrived], captured)
            recorded = list(scan.record(self.inner, operands, len(self.types), not scan.reverse))
            first, last = len(self.places), len(self.types)
            return _added(edges, [*recorded[first:last], *recorded[:first], *recorded[last:]])

        node: Node = ControlNode("ScanBackward", edges, len(results), backward)
        for index in self.body.tangents:
            attach(results[index], node, index)


def _added(edges: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
    """Gradients with those that go to one place added up, at the first of the edges that lead there."""
    totals: list[Any] = []
    first: dict[Edge, int] = {}
    for position, (edge, gradient) in enumerate(zip(edges, gradients, strict=True)):
        totals.append(gradient)
        if edge is None:
            totals[-1] = None
            continue
        before = first.setdefault((id(edge[0]), edge[1]), position)
        if before != position:
            totals[before], totals[-1] = OPERATORS["add"](totals[before], gradient), None
    return totals


# Loops whose number of steps only the run tells.


class EndlessNode(Node):
    """The node of a loop whose number of steps only the run tells."""

    __slots__ = ()

    def name(self) -> str:
        """As it is shown in errors."""
        return "WhileLoopBackward"

    def run(self, gradients: list[object], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """Fails."""
        hint = "run it under no_grad, detach what it is given, or use scan"
        fail("G014", "while_loop: there is no gradient of a loop of unknown length", frame=self.frame, hint=hint)


def traced_while(
    condition: Callable[[list[object]], object], function: Callable[[list[object]], list[object]], leaves: list[object]
) -> list[Any]:
    """Records both functions, and the call that runs them. Integers are carried as tensors, and sizes for functions."""
    outer: Tracer = STATE.tracer
    carries = [as_tensor(leaf) for leaf in leaves]
    types = [row_major(carry.form.type) for carry in carries]
    integers = [not isinstance(leaf, Handle) for leaf in leaves]

    def shown(arguments: list[Any]) -> list[Any]:
        tracer: Tracer = STATE.tracer
        pairs = zip(arguments, integers, strict=True)
        return [SymInt(tracer.size(value)) if integer else value for value, integer in pairs]

    def step(arguments: list[object]) -> list[Any]:
        stepped = function(shown(arguments))
        for type_, value in zip(types, stepped, strict=True):
            made = as_tensor(value) if is_tensor_like(value) else value
            require_carried("while_loop", type_, made.form.type if isinstance(made, Handle) else made)
        return stepped

    bodies = [Body(outer, "condition"), Body(outer, "body")]
    for body in bodies:
        body.tracer.detaches = False  # nothing in it has gradients
    with Scope(grad=False):
        bodies[0].trace(lambda arguments: condition(shown(arguments)), condition_tensor, types)
        bodies[1].trace(step, as_tensor, types, given=bodies[0].captured)
        given = bodies[1].captured
        inner = tuple([body.inner([*body.arguments, *given], body.results) for body in bodies])
    operands = [operand(outer, carry, row_major(carry.form.type)) for carry in carries]
    values = tuple([operand(outer, tensor) for tensor in given])
    attrs = {"bodies": inner, "types": tuple(types), "sizes": ()}
    results = outer.record(control.while_loop, (tuple(operands), values), attrs)
    if records():
        mark_endless(results, [*carries, *given])
    return [SymInt(outer.size(result)) if one else result for result, one in zip(results, integers, strict=True)]


def mark_endless(results: Sequence[Any], sources: Sequence[Any]) -> None:
    """Gives a loop's results a history that says why they have no gradients, if the sources require some."""
    edges = [edge_of(source) for source in sources if isinstance(source, Handle) and requires(source)]
    if edges:
        node = EndlessNode(edges)
        for position, result in enumerate(results):
            if differentiable(result):
                attach(result, node, position)
