"""Compiled graphs as modules, and back.

A graph of the compiler never changes. A module that shows one is a mirror that may be edited. Each call is a node,
whose target is the operator as a function; sizes that are not numbers are nodes that read them. `graph_of` makes the
compiler's graph again, call by call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce

from rushlight.eager.handle import make
from rushlight.eager.symbols import sym_max, sym_min
from rushlight.eager.tensor_meta import form_of_type
from rushlight.fx import ops
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Argument, Node, map_arg
from rushlight.ir import graph as ir
from rushlight.ir.type import TensorType
from rushlight.ir.value import map_operands, map_sizes
from rushlight.nn import Module
from rushlight.support.errors import RushlightError, error, fail
from rushlight.support.provenance import Frame
from rushlight.sym import SizeExpr, is_symbol, maximum, minimum, parts, simplify
from rushlight.sym.expr import FLOORDIV, MAXIMUM, MINIMUM


def graph_module(graph: ir.Graph, name: str = "GraphModule") -> GraphModule:
    """Return a module that does what a graph without effects does, operator by operator."""
    return GraphModule(Module(), Mirror(graph).made(), name)


def value_of_type(type_: TensorType) -> Argument:
    """Return a tensor without data."""
    return make(None, form_of_type(type_))


class Mirror:
    """The nodes of one graph in the making; `images` are they, or numbers, by the identity of the call."""

    def __init__(self, graph: ir.Graph) -> None:
        self.source = graph
        self.graph = Graph()
        self.images: dict[int, Argument] = {}
        self.sizes: dict[SizeExpr, Argument] = {}
        self.shown: dict[SizeExpr, tuple[Node, Argument, int]] = {}

    def made(self) -> Graph:
        """The nodes."""
        for position, call in enumerate(self.source.parameters):
            node = self.input(position, call)
            self.note(call, node)
            self._show(call.type, node)
        for call in self.source.calls:
            self.images[id(call)] = self._image(call)
        self.end([self.images[id(call)] for call in self.source.outputs])
        return self.graph

    def input(self, position: int, call: ir.Call) -> Node:
        """Adds the node of an input."""
        return self.graph.placeholder(call.attr("name"))

    def end(self, results: list[Argument]) -> None:
        """Adds what comes after all calls: the output."""
        self.graph.output(tuple(results))

    def note(self, call: ir.Call, node: Node) -> None:
        """Notes what a call gives, and that a node stands for it."""
        several = isinstance(call.type, tuple)
        node.meta["val"] = tuple(map(value_of_type, call.type)) if several else value_of_type(call.type)
        node.meta["type"] = call.type
        node.meta["frames"] = call.frames
        node.meta["region"] = call.region
        if call.frames:
            node.meta["stack_trace"] = _stack_trace(call.frames)
        self.images[id(call)] = node

    def _show(self, type_: Argument, node: Node) -> None:
        """Notes which symbols the sizes and strides of a value tell."""
        for read, sizes in ((ops.sym_size, type_.shape), (ops.sym_stride, type_.strides)):
            for dim, size in enumerate(sizes):
                for equal in (size, simplify(size)):
                    if isinstance(equal, SizeExpr) and is_symbol(equal):
                        self.shown.setdefault(equal, (node, read, dim))

    def _image(self, call: ir.Call) -> Argument:
        if call.op is ir.NUMBER:
            return call.attr("value")
        operands = map_operands(call.operands, lambda operand: self.images[id(operand)])
        if call.op is ir.RESULT:
            node = self.graph.call_function(operator.getitem, (operands[0], call.attr("index")))
        elif call.op is ir.RELAYOUT:
            layout = [tuple(map(self.size, sizes)) for sizes in (call.type.shape, call.type.strides)]
            node = self.graph.call_function(ops.relayout, (operands[0], *layout))
        else:
            node = self._operator_call(call, operands)
        self.note(call, node)
        if call.op.unbacked_outputs:
            self._learn(call, node)
        return node

    def _operator_call(self, call: ir.Call, operands: tuple[Argument, ...]) -> Node:
        op: Argument = call.op
        if ir.inner_of(call):
            fail("A006", f"fx: {op.name} holds graphs of its own, which no node can", frame=_first(call.frames))
        operand_names = [one.name for one in op.schema.operands]
        unbacked = {name: value for name, value in call.attrs if name in op.unbacked_outputs}
        attrs = {name: map_sizes(value, self.size) for name, value in call.attrs if name not in unbacked}
        given = {**dict(zip(operand_names, operands, strict=True)), **attrs}
        args: list[Argument] = []
        kwargs: dict[str, Argument] = {}
        for position, parameter in enumerate(op.schema.parameters):
            if parameter.name in unbacked or _is_default(given[parameter.name], parameter.default):
                continue
            value = given[parameter.name]
            shown = list(value) if isinstance(value, tuple) else value
            if position == len(args) and not parameter.keyword_only:
                args.append(shown)
            else:
                kwargs[parameter.name] = shown
        node = self.graph.call_function(ops.function_of(op.name), tuple(args), kwargs)
        if unbacked:
            node.meta["unbacked"] = unbacked
        return node

    def _learn(self, call: ir.Call, node: Node) -> None:
        for type_ in call.type if isinstance(call.type, tuple) else (call.type,):
            self._show(type_, node)
        for symbol in call.unbacked_symbols():
            self.shown.setdefault(symbol, (node, ops.sym_item, 0))

    def size(self, size: Argument) -> Argument:
        """A size as a number or node; other values as they are."""
        if not isinstance(size, SizeExpr):
            return size
        if size not in self.sizes:
            self.sizes[size] = self._symbol(size) if is_symbol(size) else self._computed(size)
        return self.sizes[size]

    def _symbol(self, symbol: SizeExpr) -> Argument:
        place = self.shown.get(symbol)
        equal = simplify(symbol)
        if place is None and equal is not symbol:  # a promise tells it by others
            return self.size(equal)
        if place is None:
            fail("A006", "fx: a size that no input shows is no value of a graph", size=str(symbol))
        owner, read, dim = place
        return self.graph.call_function(read, (owner, dim))

    def _computed(self, size: SizeExpr) -> Argument:
        summands = parts(size)
        if len(summands) == 1 and summands[0][0] == 1 and len(summands[0][1]) == 1:
            atom = summands[0][1][0]
            return self._folded(_SIZE_FUNCTIONS[atom.op], list(map(self.size, atom.operands)))
        terms = [self._term(scale, list(map(self.size, atoms))) for scale, atoms in summands]
        return self._folded(operator.add, terms)

    def _term(self, scale: int, atoms: list[Argument]) -> Argument:
        return self._folded(operator.mul, [*atoms, scale] if scale != 1 or not atoms else atoms)

    def _folded(self, function: Callable[..., Argument], values: list[Argument]) -> Argument:
        return reduce(lambda left, right: self.graph.call_function(function, (left, right)), values)


_SIZE_FUNCTIONS = {FLOORDIV: ops.sym_floordiv, MINIMUM: sym_min, MAXIMUM: sym_max}


def _is_default(value: object, default: object) -> bool:
    if value is None or isinstance(value, (bool, int, float, str)):
        return type(value) is type(default) and repr(value) == repr(default)
    return isinstance(value, tuple) and isinstance(default, (tuple, list)) and repr(value) == repr(tuple(default))


def _first(frames: tuple[Frame, ...]) -> Frame | None:
    return frames[0] if frames else None


def _stack_trace(frames: tuple[Frame, ...]) -> str:
    return "\n".join([str(frame) for frame in reversed(frames)])


def graph_of(module: GraphModule) -> ir.Graph:
    """Return the compiler's graph that a module shows.

    Errors: A006 for nodes that are no operators. `make_fx` of such a module makes one of operators alone.
    """
    return _Reverse(module).made()


class _Reverse:
    """A graph of the compiler in the making, of a module's nodes."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.builder = ir.GraphBuilder(type(module).__name__)
        self.values: dict[Node, Argument] = {}

    def made(self) -> ir.Graph:
        outputs: tuple[Argument, ...] = ()
        for node in self.module.graph.nodes:
            self.builder.frames = node.meta.get("frames", ())
            self.builder.region = node.meta.get("region")
            if node.op == "output":
                result = node.args[0]
                outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
            else:
                self.values[node] = self._value(node)
        given = [self.values[one] if isinstance(one, Node) else one for one in outputs]
        nodes = [ir.Node(self.builder, self.builder.operand(one)) for one in given]
        return self.builder.graph(nodes)

    def _value(self, node: Node) -> Argument:
        args, kwargs = map_arg(node.args, self.values.__getitem__), map_arg(node.kwargs, self.values.__getitem__)
        if node.op == "placeholder":
            type_ = node.meta.get("type")
            if not isinstance(type_, TensorType):
                fail("A006", "fx: an input of a graph has no type", node=node.name)
            return self.builder.parameter(node.name, type_)
        if node.op != "call_function":
            raise _refusal(node)
        if isinstance(node.target, ops.OperatorFunction):
            return self._operator_call(node, args, kwargs)
        if node.target is ops.relayout:
            x, size, stride = args
            return self.builder.laid_out(x, TensorType(tuple(size), x.dtype, x.device, tuple(stride)))
        return self._size_of(node, args)

    def _operator_call(self, node: Node, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        op = node.target.operator
        operands, attrs = op.bind(args, {**node.meta.get("unbacked", {}), **kwargs})
        return self.builder.apply(op, operands, attrs)

    def _size_of(self, node: Node, args: tuple[Argument, ...]) -> Argument:
        """What a function of sizes gives, or a result of several."""
        if node.target is ops.sym_size:
            return args[0].shape[args[1]]
        if node.target is ops.sym_stride:
            return args[0].type.strides[args[1]]
        if node.target is ops.sym_item:
            return args[0].call.unbacked_symbols()[0]
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        known = {sym_min: minimum, sym_max: maximum, ops.sym_floordiv: operator.floordiv}
        if all(isinstance(arg, int | SizeExpr) for arg in args):
            return known[node.target](*args) if node.target in known else node.target(*args)
        raise _refusal(node)


def _refusal(node: Node) -> RushlightError:
    hint = "trace the module first: rl.fx.experimental.proxy_tensor.make_fx(module)(*inputs)"
    return error("A006", "fx: a node is no call of an operator", node=node.format_node(), hint=hint)
