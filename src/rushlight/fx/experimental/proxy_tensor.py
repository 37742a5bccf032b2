"""Graphs of operators, traced by calling a function on tensors without data."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from rushlight.capture.symbolic import symbolic_type
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.modes import enable_grad
from rushlight.eager.dispatch import STATE, exclude_keys
from rushlight.eager.handle import AUTOGRAD, Handle, mark_required
from rushlight.eager.pytree import Structure, flatten_tree, unflatten_tree
from rushlight.eager.symbols import unwrap_size
from rushlight.eager.tracing import Tracer
from rushlight.fx import ops
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.lowered import Mirror
from rushlight.fx.node import Argument, Node
from rushlight.ir import graph as ir
from rushlight.ir.dtype import int64
from rushlight.ir.type import CPU, TensorType
from rushlight.nn import Module, Parameter
from rushlight.runtime.generator import Generator, default_generator
from rushlight.support.errors import fail, require
from rushlight.sym import Scope, SizeExpr, free_symbols

__all__ = ["get_proxy_mode", "make_fx"]

MODES = ("real", "fake", "symbolic")


def get_proxy_mode() -> object:
    """Return what traces this thread's calls; None if nothing does."""
    return STATE.tracer


def make_fx(
    f: Callable[..., Argument],
    decomposition_table: Mapping[Argument, Callable[..., Argument]] | None = None,
    tracing_mode: str = "real",
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
) -> Callable[..., GraphModule]:
    """Return a function that traces a call of `f` to a graph of operators, its gradients included.

    Sizes are those of the arguments, or symbols with `tracing_mode="symbolic"`. Numbers are constants, though they stay
    inputs. Writes to tensors within become values; those to arguments are copies at the end. `decomposition_table` has
    what takes the place of operators: functions by `rl.fx.ops` or by functions of `rl`. With `pre_dispatch` the graph
    has what is called before autograd: it is differentiated where it runs, and computes no gradients itself.

    module = make_fx(rl.func.grad(lambda x: x.sin().sum()))(rl.ones(3))
    """
    require(tracing_mode in MODES, "A002", f"make_fx: tracing_mode is one of {', '.join(MODES)}", mode=tracing_mode)

    def trace(*args: Argument, **kwargs: Argument) -> GraphModule:
        made = _Trace(f, tracing_mode == "symbolic", pre_dispatch).traced(args, kwargs)
        if not decomposition_table:
            return made
        decomposed = _Trace(_Decomposed(made, decomposition_table), tracing_mode == "symbolic", pre_dispatch)
        return decomposed.traced(tuple(flatten_tree((args, kwargs))[0]), {})

    return trace


class _Decomposed(Interpreter):
    """Runs a module with functions in the place of some operators; it is called as the module."""

    def __init__(self, module: GraphModule, table: Mapping[Argument, Callable[..., Argument]]) -> None:
        super().__init__(module)
        self.table = {getattr(one, "__name__", str(one)): function for one, function in table.items()}
        self.__signature__ = inspect.signature(module.forward)

    def __call__(self, *args: Argument) -> Argument:
        """Run the module."""
        return self.run(*args)

    def call_function(
        self, target: Callable[..., Argument], args: tuple[Argument, ...], kwargs: dict[str, Argument]
    ) -> Argument:
        """Call what is in the table for an operator, or the operator."""
        taken = self.table.get(getattr(target, "__name__", "")) if isinstance(target, ops.OperatorFunction) else None
        return (taken or target)(*args, **kwargs)


@dataclass
class _Inputs:
    """What the parameters of a trace are, by position: names of arguments, tensors, or random draws."""

    arguments: dict[int, str] = field(default_factory=dict)
    tensors: dict[int, Handle] = field(default_factory=dict)
    draws: dict[int, tuple[int, int]] = field(default_factory=dict)  # how many ordinals, and which of the two numbers


class _BeforeAutograd(Tracer):
    """Records calls before autograd sees them; what has no gradients on purpose is detached."""

    detaches = True


class _Trace:
    """One trace of a function, as it runs below autograd or `before` it."""

    def __init__(self, function: Callable[..., Argument], symbolic: bool, before: bool) -> None:
        self.function = function
        self.symbolic = symbolic
        self.before = before
        self.inputs = _Inputs()
        self.scope = Scope()
        self.builder = ir.GraphBuilder("graph")
        kind = _BeforeAutograd if before else Tracer
        self.tracer = kind(self.builder, self.scope, self._lifted, self._random_state)

    def traced(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> GraphModule:
        """The module that a call of the function becomes."""
        leaves, structure = flatten_tree((args, kwargs))
        names = _names_of(self.function, args, len(leaves))
        try:
            with self.tracer.active():
                pairs = enumerate(zip(names, leaves, strict=True))
                stand_ins = [self._stand_in(position, name, leaf) for position, (name, leaf) in pairs]
                given, options = unflatten_tree(structure, stand_ins)
                with ExitStack() as scopes:
                    if self.before:
                        scopes.enter_context(exclude_keys(AUTOGRAD))
                        scopes.enter_context(enable_grad())
                    results, shape = flatten_tree(self.function(*given, **options))
                return self._module(leaves, names, results, shape)
        finally:
            self.tracer.close()

    def _stand_in(self, position: int, name: str, leaf: Argument) -> Argument:
        if not isinstance(leaf, Handle):
            return leaf
        type_ = symbolic_type(self.scope, leaf.form, f"a{position}", {}) if self.symbolic else leaf.form.type
        self.inputs.arguments[len(self.tracer.lifted)] = name
        fake = self.tracer.fake(type_, type(leaf))
        if requires(leaf):
            mark_required(fake)
        return fake

    def _lifted(self, tensor: Handle) -> TensorType:
        self.inputs.tensors[len(self.tracer.lifted)] = tensor
        return tensor.form.type

    def _random_state(self, generator: Generator, count: int) -> tuple[Argument, Argument]:
        if generator is not default_generator:
            fail(
                "A006",
                "make_fx: random numbers of a generator of one's own",
                hint="draw them outside, and pass them in",
            )
        numbers: list[Argument] = []
        for which in range(2):
            self.inputs.draws[len(self.tracer.lifted)] = count, which
            numbers.append(self.tracer.fake(TensorType((), int64, CPU, weak=True)))
        return numbers[0], numbers[1]

    def _module(
        self, leaves: list[Argument], names: Sequence[str], results: list[Argument], shape: Structure
    ) -> GraphModule:
        tensors = {position: leaf for position, leaf in enumerate(results) if isinstance(leaf, Handle)}
        nodes = {position: self.tracer.node(leaf) for position, leaf in tensors.items()}
        written = [
            (position, tensor.node.cell.node)
            for position, tensor in enumerate(self.tracer.lifted)
            if tensor.node.cell.writes and tensor.node.cell.source is tensor
        ]
        sizes = tuple([size for leaf in results if isinstance(size := unwrap_size(leaf), SizeExpr)])
        symbols = tuple(dict.fromkeys([symbol for size in sizes for symbol in free_symbols(size)]))
        graph = self.builder.graph([*nodes.values(), *[node for _, node in written]], sizes=symbols)
        mirror = _TracedMirror(graph, self.inputs, leaves, names)
        for position, leaf in enumerate(results):
            if position not in tensors:
                mirror.constants[position] = unwrap_size(leaf)
        mirror.places, mirror.structure, mirror.written = list(nodes), shape, [position for position, _ in written]
        return GraphModule(mirror.root, mirror.made(), _class_name(self.function))


class _TracedMirror(Mirror):
    """The nodes of a trace: its arguments as inputs, other tensors as attributes, results as the function gave them."""

    def __init__(self, graph: ir.Graph, inputs: _Inputs, leaves: Sequence[Argument], names: Sequence[str]) -> None:
        super().__init__(graph)
        self.inputs = inputs
        self.root = Module()
        self.constants: dict[int, Argument] = {}
        self.places: list[int] = []
        self.structure: Structure
        self.written: list[int] = []
        self._draws: dict[int, Node] = {}
        self._placeholders: dict[str, Node] = {}
        for name, leaf in zip(names, leaves, strict=True):
            node = self.graph.placeholder(name)
            node.meta["val"] = leaf
            self._placeholders[name] = node

    def input(self, position: int, call: ir.Call) -> Node:
        """An argument, an attribute of the module, or a number for random draws."""
        if position in self.inputs.arguments:
            return self._placeholders[self.inputs.arguments[position]]
        if position in self.inputs.draws:
            count, which = self.inputs.draws[position]
            first = position - which
            if first not in self._draws:
                self._draws[first] = self.graph.call_function(ops.draw, (count,))
            return self.graph.call_function(operator.getitem, (self._draws[first], which))
        tensor: Argument = self.inputs.tensors[position]
        is_parameter = isinstance(tensor, Parameter)
        count = len([*self.root.parameters(), *self.root.buffers()])
        name = f"_{'param' if is_parameter else 'tensor'}_constant{count}"
        if is_parameter:
            self.root.register_parameter(name, tensor)
        else:
            self.root.register_buffer(name, tensor)
        return self.graph.get_attr(name)

    def end(self, results: list[Argument]) -> None:
        """Copies to what was overwritten, then the output."""
        values = dict(zip(self.places, results, strict=False))
        for position, value in zip(self.written, results[len(self.places) :], strict=True):
            target = self.images[id(self.source.parameters[position])]
            self.graph.call_function(ops.copy_, (target, value))
        count = len(values) + len(self.constants)
        leaves = [values[at] if at in values else self.size(self.constants[at]) for at in range(count)]
        self.graph.output(unflatten_tree(self.structure, leaves))


def _names_of(function: Callable[..., Argument], args: tuple[Argument, ...], count: int) -> list[str]:
    """Names for the leaves of a call's arguments."""
    try:
        known = [name for name in inspect.signature(function).parameters if name.isidentifier()]
    except (TypeError, ValueError):
        known = []
    plain = count == len(args) <= len(known)
    return (
        [name if name.endswith("_1") else f"{name}_1" for name in known[:count]]
        if plain
        else [f"arg{position}_1" for position in range(count)]
    )


def _class_name(function: Callable[..., Argument]) -> str:
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else "GraphModule"
