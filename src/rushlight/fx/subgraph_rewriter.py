"""Replacing parts of a graph that match a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Argument, Node

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """A part of a graph that was replaced: its last node, and the graph's nodes by those of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Argument]


class _Matching:
    """One attempt to match a pattern; `images` has what each of its nodes matched."""

    def __init__(self) -> None:
        self.images: dict[Node, Argument] = {}

    def matches(self, pattern: Argument, value: Argument) -> bool:
        """Whether an argument of the graph fits one of the pattern."""
        if isinstance(pattern, Node):
            if pattern in self.images:
                return self.images[pattern] is value
            if pattern.op == "placeholder":
                self.images[pattern] = value
                return True
            return isinstance(value, Node) and self._node_matches(pattern, value)
        if isinstance(pattern, (tuple, list)):
            same = isinstance(value, (tuple, list)) and len(value) == len(pattern)
            return same and all(map(self.matches, pattern, value))
        if isinstance(pattern, dict):
            same = isinstance(value, dict) and pattern.keys() == value.keys()
            return same and all(self.matches(entry, value[key]) for key, entry in pattern.items())
        return type(pattern) is type(value) and pattern == value

    def _node_matches(self, pattern: Node, node: Node) -> bool:
        if (pattern.op, pattern.target) != (node.op, node.target):
            return False
        self.images[pattern] = node
        return self.matches(pattern.args, node.args) and self.matches(pattern.kwargs, node.kwargs)

    def is_closed(self, results: set[Node]) -> bool:
        """Whether nobody outside reads what the replacement does not give."""
        inside = {image for one, image in self.images.items() if one.op != "placeholder"}
        return all(
            user in inside
            for one, image in self.images.items()
            if one.op != "placeholder" and one not in results
            for user in image.users
        )


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Argument] | GraphModule,
    replacement: Callable[..., Argument] | GraphModule,
) -> list[Match]:
    """Replace all parts of a module's graph that do what `pattern` does; return them, in order.

    Both are functions of the same number of arguments, which stand for any values. What is within a match is read by
    nobody else, and matches do not overlap.

    rl.fx.replace_pattern(module, lambda x, y: rl.relu(x + y), lambda x, y: rl.clamp(x + y, min=0))
    """
    shape, new = _graph_of(pattern), _graph_of(replacement)
    output = shape.output_node().args[0]
    ends = list(output) if isinstance(output, (tuple, list)) else [output]
    matches: list[Match] = []
    replaced: set[Node] = set()
    for node in list(gm.graph.nodes):
        if node._erased or node in replaced:
            continue
        found = _match_at(gm.graph, ends, node, replaced)
        if found is not None:
            matches.append(Match(node, dict(found.images)))
            replaced.update([image for one, image in found.images.items() if one.op != "placeholder"])
            _replace(gm.graph, shape, new, ends, found, matches)
    gm.recompile()
    return matches


def _graph_of(function: Callable[..., Argument] | GraphModule) -> Graph:
    return function.graph if isinstance(function, GraphModule) else symbolic_trace(function).graph


def _match_at(graph: Graph, ends: list[Node], node: Node, replaced: set[Node]) -> _Matching | None:
    """A match whose last result is a node."""
    matching = _Matching()
    if not matching.matches(ends[-1], node):
        return None
    for end in ends[:-1]:
        if end not in matching.images and not any(_fits(matching, end, other) for other in graph.nodes):
            return None
    inside = [image for one, image in matching.images.items() if one.op != "placeholder"]
    if replaced.intersection(inside) or not matching.is_closed(set(ends)):
        return None
    return matching


def _fits(matching: _Matching, end: Node, node: Node) -> bool:
    before = dict(matching.images)
    if matching.matches(end, node):
        return True
    matching.images = before
    return False


def _replace(graph: Graph, shape: Graph, new: Graph, ends: list[Node], found: _Matching, matches: list[Match]) -> None:
    images = found.images
    inputs = [one for one in shape.nodes if one.op == "placeholder"]
    given = {
        one: images.get(other)
        for one, other in zip([one for one in new.nodes if one.op == "placeholder"], inputs, strict=True)
    }
    inside = {image for one, image in images.items() if one.op != "placeholder"}
    last = [node for node in graph.nodes if node in inside][-1]
    with graph.inserting_before(last):
        result = graph.graph_copy(new, given)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    for end, made in zip(ends, results, strict=True):
        images[end].replace_all_uses_with(made, lambda user: user not in inside)
        for number, match in enumerate(matches):  # later matches read what took its place
            changed = {one: made if image is images[end] else image for one, image in match.nodes_map.items()}
            matches[number] = match._replace(nodes_map=changed) if number < len(matches) - 1 else match
    for node in reversed(graph.nodes):
        if node in inside and not node.users:
            graph.erase_node(node)
