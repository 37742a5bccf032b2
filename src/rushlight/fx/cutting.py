"""A graph cut into graphs that run one after another, each of which takes what the one before gives."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.eager.tensor import Tensor
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Argument, Node, map_aggregate
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

__all__ = ["Cut", "cut"]


@frozen(eq=False)
class Cut:
    """Graphs of parts, and examples of the tensors that go from each to the next one."""

    graphs: tuple[Graph, ...]
    examples: tuple[tuple[Tensor, ...], ...]


def cut(module: GraphModule, mark: Callable[[], None], values: Mapping[Node, Any]) -> Cut:
    """Cut the graph of a module at each call of `mark`. `values` are those of its nodes in an example.

    Tensors go from part to part. Attributes of the module, and numbers, are read and computed where they are needed.
    Errors: A002 for a part that calls nothing, A006 for values of other kinds that go on.
    """
    return _Cutter(module.graph, mark, values).cut()


class _Cutter:
    def __init__(self, graph: Graph, mark: Callable[[], None], values: Mapping[Node, Any]) -> None:
        self.values = values
        self.nodes = [node for node in graph.nodes if node.target is not mark]
        self.part: dict[Node, int] = {}
        at = 0
        for node in graph.nodes:
            at += node.target is mark
            source = node.args[0] if node.target is operator.getitem else None
            # A member of a tuple is taken where the tuple is.
            inside = isinstance(source, Node) and source.op != "get_attr" and not isinstance(values[source], Tensor)
            self.part[node] = self.part[source] if inside and isinstance(source, Node) else at
        self.count = at + 1
        self.needed: list[set[Node]] = [set() for _ in range(self.count)]
        self.crossing: list[set[Node]] = [set() for _ in range(self.count)]  # what each part gives the next one

    def cut(self) -> Cut:
        for node in self.nodes:
            if node.op not in ("placeholder", "get_attr"):
                self._need(node, self.part[node])
        idle = [at for at in range(self.count) if not any(node.op.startswith("call") for node in self.needed[at])]
        require(
            not idle, "A002", f"pipeline: stage {idle[:1]} of {self.count} calls nothing", hint="move a split point"
        )
        passed = [[node for node in self.nodes if node in one] for one in self.crossing]
        examples = tuple([tuple([self.values[node].to("meta") for node in one]) for one in passed[:-1]])
        return Cut(tuple([self._graph(at, passed) for at in range(self.count)]), examples)

    def _need(self, node: Node, at: int) -> None:
        """Let a part have a node of its own: what that reads is its own too, or comes from parts before it."""
        if node in self.needed[at]:
            return
        self.needed[at].add(node)
        for one in node.all_input_nodes:
            if one.op == "get_attr":
                self.needed[at].add(one)
            elif self.part[one] == at:
                self._need(one, at)
            elif isinstance(self.values[one], Tensor):
                self._need(one, self.part[one])
                for between in range(self.part[one], at):
                    self.crossing[between].add(one)
            else:
                self._check_number(one, node)
                self._need(one, at)

    def _check_number(self, node: Node, reader: Node) -> None:
        """Fail where a value is neither a tensor nor computed of them anew."""
        tensors: list[Tensor] = []
        map_aggregate(self.values[node], lambda leaf: tensors.append(leaf) if isinstance(leaf, Tensor) else None)
        if tensors or node.op in ("placeholder", "call_module"):
            kind = type(self.values[node]).__name__
            hint = "let tensors alone go from one stage to the next"
            fail("A006", f"pipeline: {reader.name} of a later stage reads {node.name}, a {kind}", hint=hint)

    def _graph(self, at: int, passed: list[list[Node]]) -> Graph:
        graph = Graph()
        made: dict[Node, Argument] = {}
        if at == 0:
            made.update({node: graph.node_copy(node) for node in self.nodes if node.op == "placeholder"})
        else:
            made.update({node: graph.placeholder(node.name) for node in passed[at - 1]})
        for node in self.nodes:
            if node in self.needed[at] and node not in made:
                made[node] = graph.node_copy(node, made.__getitem__)
        if at < self.count - 1:
            graph.output(tuple([made[node] for node in passed[at]]))
        return graph
