"""Running a graph node by node, and making another graph so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rushlight.fx.code import BINARY
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Argument, Node, map_aggregate, map_arg
from rushlight.fx.proxy import Proxy, TracerBase
from rushlight.nn import Module
from rushlight.support.errors import fail

__all__ = ["BINARY", "Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node; subclasses override what is done for each op.

    class Shapes(rl.fx.Interpreter):
        def run_node(self, n):
            result = super().run_node(n)
            print(n.name, getattr(result, "shape", None))
            return result
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module: Argument = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = self.module.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Argument] = {}
        self.args_iter: Iterator[Argument] = iter(())

    def run(
        self, *args: Argument, initial_env: dict[Node, Argument] | None = None, enable_io_processing: bool = True
    ) -> Argument:
        """Return what the graph gives for arguments; values in `initial_env` are taken as they are."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        last = _last_reads(self.graph) if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node not in self.env:
                try:
                    self.env[node] = self.run_node(node)
                except Exception as error:
                    error.add_note(f"while executing {node.format_node()}")
                    raise
            if node.op == "output":
                return self.env[node]
            for one in last.get(node, ()):
                self.env.pop(one, None)
        return None

    def boxed_run(self, args_list: list[Argument]) -> Argument:
        """As `run`, of a list of arguments, which is emptied."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Argument:
        """Return the value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return the next argument, all that are left for `*args`, or a default."""
        if target.startswith("*"):
            return list(self.args_iter)
        rest = list(args)
        value = next(self.args_iter, *rest[:1]) if rest else next(self.args_iter, _MISSING)
        if value is _MISSING:
            fail("A001", f"fx: the argument {target} is missing")
        return value

    def get_attr(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(
        self, target: Callable[..., Argument], args: tuple[Argument, ...], kwargs: dict[str, Argument]
    ) -> Argument:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Call a method of the first argument."""
        receiver, *rest = args
        return getattr(receiver, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Call a module within the module."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return what the graph gives."""
        return args[0]

    def fetch_attr(self, target: str) -> Argument:
        """Return the module's attribute at a dotted name."""
        value = self.module
        for name in target.split("."):
            if not hasattr(value, name):
                fail("A001", f"fx: the module has no {target}")
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
        """Return a node's arguments, with values in place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return arguments with values in place of nodes."""

        def value(node: Node) -> Argument:
            if node not in self.env:
                fail("A001", f"fx: {n.name} reads {node.name}, which has no value")
            return self.env[node]

        return map_arg(args, value)


_MISSING = object()


def _last_reads(graph: Graph) -> dict[Node, list[Node]]:
    seen: set[Node] = set()
    last: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        for one in node.all_input_nodes:
            if one not in seen:
                seen.add(one)
                last.setdefault(node, []).append(one)
    return last


class _TransformerTracer(TracerBase):
    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Transformer(Interpreter):
    """Makes another module of a module: what the methods return for proxies becomes its graph.

    class Swap(rl.fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(rl.tanh if target is rl.sigmoid else target, args, kwargs)
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = _TransformerTracer(self.new_graph)

    def placeholder(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Add an input."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Add what reads an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Add a call of a module."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(
        self, target: Callable[..., Argument], args: tuple[Argument, ...], kwargs: dict[str, Argument]
    ) -> Argument:
        """Add a call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Add a call of a method."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the other module."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda leaf: leaf.node if isinstance(leaf, Proxy) else leaf))
        return GraphModule(self.module, self.new_graph)
