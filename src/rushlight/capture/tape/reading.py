"""The tape of one backward pass, read: a key of what is fixed of it, and the sizes that may differ."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from rushlight.autodiff.backward import Edge, executed
from rushlight.capture.code.effects import is_interchangeable
from rushlight.capture.tape.steps import Step, step_of
from rushlight.eager.autograd.accumulate import AccumulateGrad
from rushlight.eager.autograd.node import Node

Hook = Callable[..., object]


@dataclass(slots=True)
class Reading:
    """A backward pass: roots with gradients to start from, targets, and the nodes between, the last recorded first.

    Of nodes that do not `run` only the places are known. Each node has its step's class; None for one that Python
    runs, and its sizes from its entry of `starts` on. `inputs` are the tensors at the targets, if gradients are
    accumulated in these alone.
    """

    roots: Sequence[tuple[Edge, object]]
    targets: Sequence[Edge]
    inputs: Sequence[object] | None
    partial: bool
    create_graph: bool
    nodes: list[Node]
    numbers: dict[int, int]
    running: set[int]
    kinds: list[type[Step] | None]
    sizes: list[int]
    starts: list[int]
    key: Hashable

    def wanted(self) -> set[int]:
        """The nodes at which gradients are wanted, by identity."""
        return {id(edge[0]) for edge in self.targets}

    def sizes_of(self, number: int) -> range:
        """The positions of a node's sizes."""
        return range(self.starts[number], self.starts[number + 1])


def read(
    roots: Sequence[tuple[Edge, object]],
    targets: Sequence[Edge],
    inputs: Sequence[object] | None,
    partial: bool,
    create_graph: bool,
) -> Reading:
    """Reads the tape. Errors: G001 where an earlier pass has freed what a node saved."""
    nodes = _ordered([edge[0] for edge, _ in roots])
    numbers = {id(node): number for number, node in enumerate(nodes)}
    running = executed([edge[0] for edge, _ in roots], targets if partial else None)
    sizes: list[int] = []
    starts = [0]
    kinds: list[type[Step] | None] = []
    parts: list[Hashable] = []
    for node in nodes:
        kind = step_of(node, create_graph) if id(node) in running else None
        kinds.append(kind)
        fixed = kind.key_of(node, sizes) if kind is not None else (type(node), id(node) in running)
        edges = tuple([None if edge is None else (numbers[id(edge[0])], edge[1]) for edge in node.edges])
        parts.append((fixed, edges, _hooks_key(node)))
        starts.append(len(sizes))
    places = [tuple([(numbers.get(id(edge[0]), -1), edge[1]) for edge in some]) for some in _edges(roots, targets)]
    kept = None if inputs is None else tuple([isinstance(edge[0], AccumulateGrad) for edge in targets])
    key = tuple(parts), tuple(places), kept, partial, create_graph
    return Reading(roots, targets, inputs, partial, create_graph, nodes, numbers, running, kinds, sizes, starts, key)


def _edges(roots: Sequence[tuple[Edge, object]], targets: Sequence[Edge]) -> tuple[list[Edge], Sequence[Edge]]:
    return [edge for edge, _ in roots], targets


def _ordered(roots: Sequence[Any]) -> list[Node]:
    """The nodes below the roots: sinks, then the last recorded first."""
    found: dict[int, Node] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack.extend([edge[0] for edge in reversed(node.edges) if edge is not None and id(edge[0]) not in found])
    return sorted(found.values(), key=lambda node: -node.sequence)


def _hooks_key(node: Node) -> Hashable:
    """Which hooks a node has, and where."""
    hooks = node.hooks()
    return (
        tuple([(output, _kind_of(hook)) for output, hook in hooks.of_outputs]),
        tuple(map(_kind_of, hooks.before)),
        tuple([output for output, _ in hooks.retained]),
        tuple(map(_kind_of, hooks.after)),
        tuple(map(_kind_of, hooks.accumulated)),
    )


def _kind_of(hook: Hook) -> object:
    """What tells hooks apart for which other programs are written: code and globals, or the class."""
    plain = hook.__func__ if isinstance(hook, MethodType) else hook
    if not isinstance(plain, FunctionType):
        return type(hook)
    return type(hook), plain.__code__, id(plain.__globals__), is_interchangeable(plain)
