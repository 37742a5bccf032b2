"""Graphs of tensor calls: an ordered history over immutable terms, with an alias table beside it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rushlight.ir.dtype import DType, bool_, complex128, float64, int64
from rushlight.ir.type import CPU, Device, Mentions, TensorType, dense_order, row_major, symbols_in
from rushlight.ir.value import Value
from rushlight.support.frozen import frozen
from rushlight.support.provenance import Frame
from rushlight.sym import Branch, Scope, Size, SizeExpr, free_symbols, scopes_of
from rushlight.term import Attrs, Op, Term, attr_key, slot_setter


class Call(Term):
    """One event: an operator called on earlier values. Never interned; two equal calls are two events.

    operands are Calls, None for an absent optional tensor, or tuples of Calls for a tensor list. `type` is a
    TensorType, or a tuple of them when there are several results (each taken by a `result` call). `region` ties calls
    that belong together (checkpointing, regional compilation); `frames` are the user's, innermost first.
    """

    __slots__ = ("frames", "region")

    frames: tuple[Frame, ...]
    region: int | None

    def __init__(
        self,
        op: Op,
        operands: tuple[object, ...],
        attrs: Attrs,
        type: object,
        frames: tuple[Frame, ...] = (),
        region: int | None = None,
    ) -> None:
        super().__init__(op, operands, attrs, type)
        _set_frames(self, frames)
        _set_region(self, region)

    def inputs(self) -> Iterator[Call]:
        """The operands that are calls, lists flattened."""
        for operand in self.operands:
            if isinstance(operand, Call):
                yield operand
            elif isinstance(operand, tuple):
                yield from operand

    def symbols(self) -> list[SizeExpr]:
        """The symbols in its type and its attributes, those born of it included."""
        return symbols_in([self.type, *[value for _, value in self.attrs]])

    def unbacked_symbols(self) -> list[SizeExpr]:
        """The symbols whose values it makes known."""
        symbols: list[SizeExpr] = []
        for value in [self.attr(name) for name in self.op.unbacked_outputs]:
            symbols += [
                element
                for element in (value if isinstance(value, tuple) else (value,))
                if isinstance(element, SizeExpr)
            ]
        return symbols


_set_frames, _set_region = slot_setter(Call, "frames"), slot_setter(Call, "region")

PARAMETER = Op("parameter")
NUMBER = Op("number")
RESULT = Op("result")
RELAYOUT = Op("relayout")  # the same elements in other strides, where a result must have those eager gives


def parameter(name: str, type: TensorType) -> Call:
    """An input of a graph."""
    return Call(PARAMETER, (), (("name", name),), type)


def number(value: complex) -> Call:
    """A Python number as a weakly typed 0-d value."""
    return Call(NUMBER, (), (("value", value),), TensorType((), number_dtype(value), CPU, weak=True))


def number_dtype(value: complex) -> DType:
    """The dtype in which a Python number travels."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    return float64 if isinstance(value, float) else complex128


@frozen
class OutputView:
    """An output that shares storage with a parameter or another output: how to rebuild it as a view."""

    output: int
    base: tuple[str, int]
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size


@frozen
class ValueAssert:
    """What a call of a graph asserts of a value: the bool `fails`, of no dims, is False; else the call is error `code`.

    `message` tells what is wrong then; `{size}` in it stands for `size`, which is known when it fails.
    """

    fails: Call
    code: str
    message: str
    size: Size = 0
    frame: Frame | None = None


@frozen
class Graph:
    """Parameters, calls in order, outputs.

    The alias table says which parameters are overwritten and which outputs are views.

    `mutations` maps a parameter's position to the value its storage holds at the end; `views` are outputs rebuilt as
    views; `frozen` are positions of parameters that have the same elements at each call, or the caller says so. `sizes`
    are symbols born in the graph that the caller asks for too. Where one of `asserts` does not hold, a call writes to
    no parameter. A graph keeps the scopes of its symbols.
    """

    parameters: tuple[Call, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Call, ...]
    mutations: tuple[tuple[int, Call], ...]
    views: tuple[OutputView, ...]
    name: str
    frozen: tuple[int, ...]
    sizes: tuple[SizeExpr, ...]
    asserts: tuple[ValueAssert, ...]
    scopes: tuple[Scope, ...]

    def __init__(
        self,
        parameters: tuple[Call, ...],
        calls: tuple[Call, ...],
        outputs: tuple[Call, ...],
        mutations: tuple[tuple[int, Call], ...] = (),
        views: tuple[OutputView, ...] = (),
        name: str = "graph",
        frozen: tuple[int, ...] = (),
        sizes: tuple[SizeExpr, ...] = (),
        asserts: tuple[ValueAssert, ...] = (),
        scopes: tuple[Scope, ...] | None = None,
    ) -> None:
        if scopes is None:
            parts = [part for call in (*parameters, *calls) for part in (call.type, *_values(call))]
            scopes = tuple(scopes_of(symbols_in(parts)))
        given = (parameters, calls, outputs, mutations, views, name, frozen, sizes, asserts, scopes)
        for set_field, value in zip(_GRAPH_SETTERS, given, strict=True):
            set_field(self, value)

    @property
    def inner(self) -> tuple[Graph, ...]:
        """The graphs that its calls run, in order."""
        return tuple([nested.graph for call in self.calls for nested in inner_of(call)])

    def results(self) -> tuple[Call, ...]:
        """What calls of the graph leave: outputs, then mutated parameters' values."""
        return self.outputs + tuple([value for _, value in self.mutations])

    def used(self) -> set[int]:
        """The identities of parameters and calls that calls read, or that are left."""
        return {id(operand) for call in self.calls for operand in call.inputs()} | {id(call) for call in self.results()}

    def needed(self) -> tuple[Call, ...]:
        """Everything the graph must compute: results, then what is asserted."""
        return self.results() + tuple([check.fails for check in self.asserts])

    def without_dead_calls(self) -> Graph:
        """The graph with only the calls that results, and run-time asserts of sizes born here, depend on."""
        needed: set[int] = set()
        unbacked_outputs = unbacked_outputs_of(self.calls)
        stack = [*self.needed(), *[unbacked_outputs[symbol] for symbol in _asked(self, unbacked_outputs)]]
        stack += [call for call in self.calls if has_effect(call)]
        while stack:
            call = stack.pop()
            if id(call) not in needed:
                needed.add(id(call))
                stack.extend(call.inputs())
                if unbacked_outputs:
                    stack.extend([unbacked_outputs[symbol] for symbol in call.symbols() if symbol in unbacked_outputs])
        calls = tuple([call for call in self.calls if id(call) in needed])
        return self if len(calls) == len(self.calls) else replace(self, calls=calls)


_GRAPH_SETTERS = [slot_setter(Graph, one.name) for one in fields(Graph)]


class Inner(Mentions):
    """A graph that a call runs; it is an attribute of the call.

    `branch` holds the facts about sizes inside the graph. Its parameters are what the call's operator says; sizes that
    none of them shows are those of the graph around it.
    """

    __slots__ = ("branch", "graph", "mentioned")

    def __init__(self, graph: Graph, branch: Branch) -> None:
        self.graph = graph
        self.branch = branch
        shown = {size for call in graph.parameters for size in (*call.type.shape, *call.type.strides)}
        unbacked_symbols = unbacked_outputs_of(graph.calls)
        parts = [part for call in (*graph.parameters, *graph.calls) for part in (call.type, *_values(call))]
        parts += [check.condition.expr for check in branch.asserts]
        self.mentioned = tuple(
            [symbol for symbol in symbols_in(parts) if symbol not in shown and symbol not in unbacked_symbols]
        )


def inner_of(call: Call) -> list[Inner]:
    """The graphs among a call's attributes."""
    graphs: list[Inner] = []
    for _, value in call.attrs:
        if isinstance(value, Inner):
            graphs.append(value)
        elif isinstance(value, tuple):
            graphs += [element for element in value if isinstance(element, Inner)]
    return graphs


def has_effect(call: Call) -> bool:
    """Whether a call, or one in a graph that it runs, is an event beyond its value: kept, once, and in order."""
    return call.op.effect or any(has_effect(nested) for inner in inner_of(call) for nested in inner.graph.calls)


def _values(call: Call) -> list[object]:
    return [value for _, value in call.attrs]


def unbacked_outputs_of(calls: Iterable[Call]) -> dict[SizeExpr, Call]:
    """The symbols that calls make known, and by which."""
    return {symbol: call for call in calls if call.op.unbacked_outputs for symbol in call.unbacked_symbols()}


def _asked(graph: Graph, unbacked_outputs: Mapping[SizeExpr, Call]) -> set[SizeExpr]:
    """The born symbols that somebody but calls asks for: the caller, and the asserts of their scopes."""
    symbols = {symbol for symbol in graph.sizes if symbol in unbacked_outputs}
    for scope in scopes_of(unbacked_outputs):
        for check in scope.asserts:
            symbols.update([symbol for symbol in free_symbols(check.condition.expr) if symbol in unbacked_outputs])
    return symbols


def with_dense_outputs(graph: Graph) -> Graph:
    """The graph with outputs of other layouts (expanded, sliced) made row-major: an output owns all of its memory."""
    calls = list(graph.calls)
    outputs: list[Call] = []
    for call in graph.outputs:
        if dense_order(call.type.shape, call.type.strides) is None:
            call = Call(RELAYOUT, (call,), (), row_major(call.type), call.frames, call.region)
            calls.append(call)
        outputs.append(call)
    return replace(graph, calls=tuple(calls), outputs=tuple(outputs))


class Node(Value):
    """A Value that records: applying an operator to it appends a call to its builder's graph."""

    __slots__ = ("builder", "call")

    def __init__(self, builder: GraphBuilder, call: Call) -> None:
        self.builder = builder
        self.call = call

    def apply(self, op: Any, args: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
        """Records a call."""
        return self.builder.apply(op, args, attrs)

    @property
    def type(self) -> TensorType:
        """The call's type."""
        return self.call.type

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of its dims."""
        return self.call.type.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.call.type.dtype

    @property
    def device(self) -> Device:
        """Where it lives."""
        return self.call.type.device

    def __repr__(self) -> str:
        return f"Node({self.call.op.name}: {self.call.type})"


@dataclass(slots=True)
class GraphBuilder:
    """Collects calls. Rules run on its Nodes."""

    name: str = "graph"
    parameters: list[Call] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    frames: tuple[Frame, ...] = ()
    region: int | None = None
    _numbers: dict[tuple[type, str], Call] = field(default_factory=dict)
    _types: dict[tuple[object, ...], object] = field(default_factory=dict)
    _equal_types: dict[object, object] = field(default_factory=dict)

    def parameter(self, name: str, type: TensorType) -> Node:
        """Adds an input."""
        call = parameter(name, type)
        self.parameters.append(call)
        return Node(self, call)

    def apply(self, op: Any, args: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        """Records a call on Nodes, numbers, None and sequences of Nodes; returns its Node or Nodes."""
        if op.inlined:
            return op.decompose_rule(**op.named(args, attrs))
        operands = tuple([arg.call if arg.__class__ is Node else self.operand(arg) for arg in args])
        types = tuple([operand.type if operand.__class__ is Call else type_of(operand) for operand in operands])
        call = Call(op, operands, tuple(attrs.items()), self._infer(op, types, attrs), self.frames, self.region)
        self.calls.append(call)
        if not isinstance(call.type, tuple):
            return Node(self, call)
        nodes: list[Node] = []
        for position, type_ in enumerate(call.type):
            result = Call(RESULT, (call,), (("index", position),), type_, self.frames, self.region)
            self.calls.append(result)
            nodes.append(Node(self, result))
        return tuple(nodes)

    def laid_out(self, node: Node, type_: TensorType) -> Node:
        """A value in the layout of a type, and where that is."""
        if (node.type.strides, node.type.device) == (type_.strides, type_.device):
            return node
        call = Call(RELAYOUT, (node.call,), (), type_, self.frames, self.region)
        self.calls.append(call)
        return Node(self, call)

    def _infer(self, op: Any, types: tuple[object, ...], attrs: Mapping[str, object]) -> object:
        """The type of a call; calls that are alike, as those of a model's layers, are asked about once."""
        key = (op, types, *[(name, attr_key(value)) for name, value in attrs.items()])
        try:
            inferred = self._types.get(key)
        except TypeError:  # an attribute that cannot be hashed
            return op.infer(types, attrs)
        if inferred is None:
            result = op.infer(types, attrs)
            inferred = self._types[key] = self._equal_types.setdefault(result, result)  # equal types are one object
        return inferred

    @contextmanager
    def types_apart(self) -> Generator[None]:
        """While inside, no type is kept for later: rules may ask of sizes what holds for these calls alone."""
        before = self._types
        self._types = dict(before)
        try:
            yield
        finally:
            self._types = before

    def operand(self, arg: object) -> Any:
        """The call behind an argument."""
        if isinstance(arg, Node):
            return arg.call
        if arg is None:
            return None
        if isinstance(arg, Call):
            return arg
        if isinstance(arg, (bool, int, float, complex)):
            key = (type(arg), repr(arg))
            if key not in self._numbers:
                call = self._numbers[key] = number(arg)
                self.calls.append(call)
            return self._numbers[key]
        if isinstance(arg, (tuple, list)):
            return tuple([self.operand(element) for element in arg])
        raise TypeError(f"{type(arg).__name__} cannot be an operand of a graph call")

    def graph(
        self,
        outputs: Iterable[Node],
        mutations: Sequence[tuple[int, Node]] = (),
        views: tuple[OutputView, ...] = (),
        sizes: tuple[SizeExpr, ...] = (),
    ) -> Graph:
        """The finished graph; calls that no result needs are left out."""
        return self.whole(outputs, mutations, views, sizes).without_dead_calls()

    def whole(
        self,
        outputs: Iterable[Node],
        mutations: Sequence[tuple[int, Node]] = (),
        views: tuple[OutputView, ...] = (),
        sizes: tuple[SizeExpr, ...] = (),
    ) -> Graph:
        """The graph with all calls that were recorded."""
        return Graph(
            tuple(self.parameters),
            tuple(self.calls),
            tuple([node.call for node in outputs]),
            tuple([(position, node.call) for position, node in mutations]),
            views,
            self.name,
            sizes=sizes,
        )


def type_of(operand: Any) -> Any:
    """The type of an operand, the types of a list of them, None for an absent one."""
    if operand is None:
        return None
    return tuple([element.type for element in operand]) if isinstance(operand, tuple) else operand.type
