"""A model as records: graphs of nodes, constants as arrays, functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from rushlight.support.frozen import frozen

Array = NDArray[np.generic]


@frozen
class OperatorName:
    """A domain and an operator's name in it; the domain of ONNX itself is the empty text."""

    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.domain}.{self.name}" if self.domain else self.name


@frozen
class Reference:
    """An attribute of a function's node whose value is the attribute `name` of the function's call."""

    name: str


@frozen(eq=False)
class Node:
    """One call: the names of its operands, empty where one is left out, and of its results."""

    name: str
    operator: OperatorName
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]

    def title(self) -> str:
        """How errors name the node."""
        return f"'{self.name}'" if self.name else f"the node of '{next(iter(self.outputs), '')}'"


@frozen
class Declared:
    """What a model says of an input: its shape by numbers, names and None for what is open, and its element type."""

    name: str
    shape: tuple[int | str | None, ...] | None
    type: int | None


@frozen(eq=False)
class Graph:
    """Nodes in order, with the constants that they use by name."""

    name: str
    inputs: tuple[Declared, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]


@frozen(eq=False)
class Function:
    """A function of the model: nodes over its own names, under its own versions of operators."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    defaults: Mapping[str, object]
    nodes: tuple[Node, ...]
    versions: Mapping[str, int]


@frozen(eq=False)
class Model:
    """A graph, the versions of operators by domain, and functions."""

    graph: Graph
    versions: Mapping[str, int]
    functions: Mapping[OperatorName, Function]


def subgraphs(node: Node) -> Iterator[Graph]:
    """The graphs among a node's attributes."""
    for value in node.attributes.values():
        if isinstance(value, Graph):
            yield value


def free_names(graph: Graph) -> set[str]:
    """The names that a subgraph takes from the graphs around it."""
    known = {declared.name for declared in graph.inputs} | set(graph.constants) | {""}
    free: set[str] = set()
    for node in graph.nodes:
        used = set(node.inputs)
        for inner in subgraphs(node):
            used |= free_names(inner)
        free |= used - known
        known |= set(node.outputs)
    return free | (set(graph.outputs) - known)
