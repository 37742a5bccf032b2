"""Tracing a function that a call of the traced program runs: a branch, or the body of a loop.

It is traced into a graph of its own. What it reads from outside becomes parameters of that graph, and operands of the
call. Where gradients are wanted they are traced right after it, so that the backward pass runs what Python did when
the forward pass was traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.driver import Tape
from rushlight.eager.autograd.history import records, requires
from rushlight.eager.autograd.node import mark
from rushlight.eager.dispatch import call_user
from rushlight.eager.handle import Handle, mark_required
from rushlight.eager.mutation import Mutation
from rushlight.eager.pytree import Structure, flatten_tree
from rushlight.eager.tracing.tensor_values import Binding
from rushlight.eager.tracing.tracer import Tracer
from rushlight.ir.graph import Call, Graph, GraphBuilder, Inner, Node, parameter
from rushlight.ir.type import TensorType, dense_order, row_major
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail
from rushlight.support.provenance import Frame
from rushlight.sym import Branch, SizeExpr

Edge = tuple[int, int]
NOTHING = -0.0  # what stands for a gradient that is not there: added to another one, it changes no bit


def filled(builder: GraphBuilder, type_: TensorType) -> Node:
    """What stands for a gradient that is not there."""
    attrs = {"size": type_.shape, "dtype": type_.dtype, "device": type_.device}
    return builder.apply(OPERATORS["full"], (NOTHING,), attrs)


class BodyTracer(Tracer):
    """Traces a body: tensors that it finds outside are noted in `touched`, and it may not write to them."""

    def __init__(self, outer: Tracer, name: str) -> None:
        super().__init__(GraphBuilder(name), outer.scope, lambda tensor: tensor.form.type, refuse_random)
        self.outer = outer
        self.detaches = outer.detaches
        self.refuses_python = outer.refuses_python
        self.names = outer.names
        self.revised = outer.revised
        self.gradients_read = outer.gradients_read
        self.touched: list[Handle] = []

    def frames(self, ours: int = 1) -> tuple[Frame, ...]:
        """The user's lines of a call."""
        return self.outer.frames(ours + 1)

    def parameter(self, tensor: Handle, type_: TensorType) -> Node:
        """Makes a tensor an input of the graph, which lies row by row if it has gaps."""
        if dense_order(type_.shape, type_.strides) is not None:
            return super().parameter(tensor, type_)
        super().parameter(tensor, row_major(type_))
        binding: Binding = tensor.node
        binding.node = binding.cell.node = self.builder.laid_out(binding.node, type_)
        binding.cell.type = type_
        return binding.node

    def _lifted(self, tensor: Handle) -> Binding:
        self.touched.append(tensor)
        return super()._lifted(tensor)

    def _write(self, op: Mutation, operands: tuple[Any, ...], attrs: Any) -> Any:
        target = op.target_of(operands)
        if self.binding(target).cell.source is not None:
            hint = "compute a new tensor, and return it"
            fail("C031", "a branch or the body of a loop writes to a tensor from outside", tensor=target, hint=hint)
        return super()._write(op, operands, attrs)


def refuse_random(generator: object, count: int) -> NoReturn:
    """Raises C032."""
    hint = "draw the numbers before, for all steps at once, and pass them in"
    fail("C032", "random numbers are drawn in a branch or the body of a loop", hint=hint)


class Body:
    """A traced body: `results` with their `structure`, and gradients at `edges`, as values of one builder's graph."""

    def __init__(self, outer: Tracer, name: str) -> None:
        self.tracer = BodyTracer(outer, name)
        self.branch = Branch(outer.scope)
        self.arguments: list[Any] = []
        self.leaves: list[Any] = []
        self.structure: Structure
        self.results: list[Node] = []
        self.tangents: dict[int, Any] = {}  # by the number of the result
        self.starts: dict[Edge, Any] = {}  # gradients that those at edges to the outside are added to
        self.edges: dict[Edge, Any] = {}
        self.gradients: dict[Edge, Node] = {}
        self.types: dict[Edge, TensorType] = {}

    def trace(
        self,
        function: Callable[[list[Any]], Any],
        as_tensor: Callable[[Any], Any],
        types: Sequence[TensorType] = (),
        wanted: Sequence[bool] = (),
        given: Sequence[Handle] = (),
        *,
        starts: bool = False,
        asked: bool = True,
    ) -> None:
        """Runs a function on arguments of these types, of which some are `wanted` to have gradients.

        `given` become the first parameters after the arguments. `as_tensor(leaf)` makes a leaf of what the
        function returns a tensor, or None of a constant. Gradients are traced where a tensor from outside wants them,
        or they are `asked` for; with `starts` those of tensors from outside are added to some that are given.
        """
        tracer = self.tracer
        try:
            with tracer.scope.within(self.branch), tracer.active():
                self.arguments = [tracer.fake(type_) for type_ in types]
                for argument, one in zip(self.arguments, wanted, strict=False):
                    if one:
                        mark_required(argument)
                for tensor in given:
                    tracer.binding(tensor)
                since = mark()
                self.leaves, self.structure = flatten_tree(call_user(function, self.arguments))
                results = [as_tensor(leaf) for leaf in self.leaves]
                tensors = [tensor for tensor in results if tensor is not None]
                self.results = [tracer.node(tensor) for tensor in tensors]
                if records():
                    self._differentiate(Tape(tensors, since), tensors, starts, asked)
        finally:
            tracer.close()

    def _differentiate(self, tape: Tape, tensors: list[Any], starts: bool, asked: bool) -> None:
        own = {_key(edge_of(argument)) for argument in self.arguments if requires(argument)}
        for tensor in (*self.arguments, *self.tracer.touched):
            if requires(tensor):
                self.types[_key(edge_of(tensor))] = row_major(tensor.form.type)
        outside = [edge for edge in tape.edges if _key(edge) not in own]
        if not outside and not (asked and own):
            return
        tracer = self.tracer
        for position, (edge, tensor) in enumerate(zip(tape.roots, tensors, strict=True)):
            if edge is not None:
                self.tangents[position] = tracer.fake(row_major(tensor.form.type))
        for edge in outside if starts else ():
            self.starts[_key(edge)] = tracer.fake(self.types[_key(edge)])
        gradients, _ = tape.gradients(
            [self.tangents.get(index) for index in range(len(tensors))],
            [self.starts.get(_key(edge)) for edge in tape.edges],
        )
        self.edges = {_key(edge): edge for edge in tape.edges}
        for edge, gradient in zip(tape.edges, gradients, strict=True):
            if gradient is not None:
                self.gradients[_key(edge)] = tracer.node(gradient)

    @property
    def captured(self) -> list[Handle]:
        """What it reads from outside."""
        own = {id(argument) for argument in (*self.arguments, *self.tangents.values(), *self.starts.values())}
        return [tensor for tensor in self.tracer.lifted if id(tensor) not in own]

    def edge_of(self, argument: Handle) -> Edge:
        """Where the gradient of an argument goes."""
        return _key(edge_of(argument))

    def inner(
        self, parameters: Sequence[Any], results: Sequence[Node | None], types: Sequence[TensorType] = ()
    ) -> Inner:
        """A graph of the body: parameters are tensors that it read, or types of what it did not; results are laid out.

        Where there is no result, one of the type takes its place that stands for a gradient that is not there.
        """
        builder = self.tracer.builder
        calls = {id(handle): call for handle, call in zip(self.tracer.lifted, builder.parameters, strict=True)}
        known_types = [
            calls[id(tensor)] if id(tensor) in calls else parameter(f"unread{position}", dense_type(tensor))
            for position, tensor in enumerate(parameters)
        ]
        with self.branch.scope.within(self.branch):
            made: list[Call] = []
            for index, node in enumerate(results):
                if node is None:
                    node = filled(builder, types[index])
                made.append(builder.laid_out(node, row_major(node.type)).call)
            graph = Graph(tuple(known_types), tuple(builder.calls), tuple(made), name=builder.name).without_dead_calls()
            return Inner(graph, self.branch)

    def unbacked_symbols(self) -> set[SizeExpr]:
        """The sizes that became known in it."""
        return {symbol for call in self.tracer.builder.calls for symbol in call.unbacked_symbols()}


def dense_type(handle: Handle) -> TensorType:
    """The type of a tensor as a parameter of a body; types pass."""
    type_: TensorType = handle if isinstance(handle, TensorType) else handle.form.type
    return type_ if dense_order(type_.shape, type_.strides) is not None else row_major(type_)


def _key(edge: Any) -> Edge:
    return id(edge[0]), edge[1]
