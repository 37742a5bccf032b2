"""Graphs of nodes: made, walked and edited by hand, printed as Python code."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rushlight.fx.code import CodeGen, PythonCode
from rushlight.fx.node import Argument, Node, Target, map_arg, qualified_name
from rushlight.support.errors import fail, require

if TYPE_CHECKING:
    from rushlight.nn import Module

__all__ = ["CodeGen", "Graph", "NodeList", "PythonCode"]

_NUMBERED = re.compile(r"(.*)_(\d+)$")
_TAKEN = frozenset({*dir(builtins), *keyword.kwlist, "self", "torch", "rushlight", "device", "inf", "nan"})


class NodeList:
    """The nodes of a graph in order; `reversed` goes the other way. The graph may change while they are walked."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __iter__(self) -> Iterator[Node]:
        root = self._graph.root
        node = root.next
        while node is not root:
            if not node._erased:
                yield node
            node = node.next

    def __reversed__(self) -> Iterator[Node]:
        root = self._graph.root
        node = root.prev
        while node is not root:
            if not node._erased:
                yield node
            node = node.prev

    def __len__(self) -> int:
        return sum([1 for _ in self])


class Graph:
    """Nodes in the order in which they run: inputs, calls, one output.

    graph = rl.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(rl.relu, (x,)))
    module = rl.fx.GraphModule(rl.nn.Module(), graph)
    """

    def __init__(self, owning_module: Module | None = None, tracer_cls: type | None = None) -> None:
        self.owning_module = owning_module
        self.root = Node(self, "", "placeholder", "", (), {})
        self._insert = self.root.prepend
        self._names: dict[str, int] = {}
        self._codegen = CodeGen()
        self._tracer_cls = tracer_cls

    # ------------------------------------------------------------------ nodes

    @property
    def nodes(self) -> NodeList:
        """The nodes in order."""
        return NodeList(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes of an op, with this target if one is given, in order."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def fresh_name(self, candidate: str) -> str:
        """Return a name like the given one that no node has, and take it."""
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_"
        if name[0].isdigit():
            name = f"_{name}"
        match = _NUMBERED.match(name)
        base, number = (match[1], int(match[2])) if match else (name, 0)
        if match is None and name in _TAKEN:
            number = 1
        full = name if not number else f"{base}_{number}"
        while full in self._names or (not number and full in _TAKEN):
            number = max(self._names.get(base, 0), number) + 1
            full = f"{base}_{number}"
        self._names[full] = 0
        self._names[base] = max(number, self._names.get(base, 0))
        return full

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: object = None,
    ) -> Node:
        """Add a node where nodes are inserted: at the end, or as `inserting_before` and `inserting_after` say."""
        node = Node(
            self, self.fresh_name(name or _named_after(target)), op, target, args or (), kwargs or {}, type_expr
        )
        map_arg((node.args, node.kwargs), self._require_own)
        self._insert(node)
        return node

    def _require_own(self, node: Node) -> Node:
        require(node.graph is self, "C038", "fx: an argument is a node of another graph", node=node.name)
        return node

    def placeholder(self, name: str, type_expr: object = None, default_value: object = ...) -> Node:
        """Add an input."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, {}, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: object = None) -> Node:
        """Add what reads an attribute of the module, such as "layer.weight"."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
    ) -> Node:
        """Add a call of a module within the module."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
    ) -> Node:
        """Add a call of a method of its first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Argument],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: object = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: object = None) -> Node:
        """Add what the graph returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def output_node(self) -> Node:
        """Return the node that gives the results."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node) -> Node:
        """Add a copy of another graph's node, which reads what `arg_transform` gives."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copy = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copy.meta = dict(node.meta)
        return copy

    def graph_copy(self, g: Graph, val_map: dict[Node, Argument], return_output_node: bool = False) -> Argument:
        """Add copies of another graph's nodes; return what its output gives, of the copies.

        `val_map` has what is there already, and is filled.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    # ------------------------------------------------------------------ edits

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that no other one reads."""
        users = ", ".join(map(str, to_erase.users))
        require(not to_erase.users, "C038", "fx: a node that others read is erased", node=to_erase.name, users=users)
        require(to_erase.graph is self, "C038", "fx: a node of another graph is erased", node=to_erase.name)
        if not to_erase._erased:
            to_erase._unlink()
            to_erase._erased = True
            to_erase.args, to_erase.kwargs = (), {}

    @contextmanager
    def _inserting(self, insert: Callable[[Node], None]) -> Generator[None]:
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def inserting_before(self, n: Node | None = None) -> Argument:
        """Return a context in which new nodes are put before a node, or before all."""
        return self.inserting_after(self.root) if n is None else self._inserting(self._own(n).prepend)

    def inserting_after(self, n: Node | None = None) -> Argument:
        """Return a context in which new nodes are put behind a node, in order, or behind all."""
        following = self.root if n is None else self._own(n).next
        return self._inserting(following.prepend)

    def _own(self, node: Node) -> Node:
        require(node.graph is self, "C038", "fx: the node is one of another graph", node=node.name)
        return node

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove the nodes that nobody reads and that do nothing else; return whether there were any."""
        impure = is_impure_node or Node.is_impure
        count = len(self.nodes)
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return len(self.nodes) < count

    def lint(self) -> None:
        """Check that nodes run before they are read, and that what is read of the module is there."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for one in node.all_input_nodes:
                require(one.graph is self, "C038", "fx: a node reads one of another graph", node=node.name, reads=one)
                require(one in seen, "C038", "fx: a node is read before it runs", node=node.name, reads=one.name)
            require(node.name not in names, "C038", "fx: two nodes have one name", name=node.name)
            kind = callable(node.target) if node.op == "call_function" else isinstance(node.target, str)
            require(kind, "C038", f"fx: the target of a node of op {node.op} is of another kind", node=node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                _require_attribute(self.owning_module, node)
            seen.add(node)
            names.add(node.name)

    # ------------------------------------------------------------------- text

    def set_codegen(self, codegen: CodeGen) -> None:
        """Choose what writes the graph's code."""
        self._codegen = codegen

    def python_code(self, root_module: str = "self", *, verbose: bool = False) -> PythonCode:
        """Return the graph as the text of a function `forward`, with the globals that it names."""
        return self._codegen.write(self, root_module, verbose)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        head = ("opcode", "name", "target", "args", "kwargs")
        rows = [tuple(map(str, (node.op, node.name, node.target, node.args, node.kwargs))) for node in self.nodes]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for row in (head, tuple(["-" * width for width in widths]), *rows):
            line = "  ".join([text.ljust(width) for text, width in zip(row, widths, strict=True)]).rstrip()
            sys.stdout.write(f"{line}\n")

    def __str__(self) -> str:
        return "graph():" + "".join([f"\n    {node.format_node()}" for node in self.nodes])

    def __len__(self) -> int:
        return len(self.nodes)

    def __deepcopy__(self, memo: dict[int, Argument]) -> Graph:
        copy = Graph(tracer_cls=self._tracer_cls)
        images: dict[Node, Node] = {}
        result, output = copy.graph_copy(self, images, True) or (None, None)
        if output is not None:
            made = copy.output(result, output.type)
            made.meta = dict(output.meta)
        copy._codegen = self._codegen
        return copy


def _named_after(target: Target) -> str:
    """A name for a node with a target, as `conv1` or `relu`."""
    if isinstance(target, str):
        return target.replace(".", "_").lstrip("*")
    name = getattr(target, "__name__", None) or qualified_name(target).rpartition(".")[2]
    parts = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name.strip("_") or name)
    return parts.lower()


def _require_attribute(module: Module, node: Node) -> None:
    value: object = module
    for name in node.target.split("."):
        if not hasattr(value, name):
            fail("C038", f"fx: the module has no {node.target}", node=node.name)
        value = getattr(value, name)
