"""Whether there is a rule for each operator of a model; asked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rushlight.onnx.model import Model, Node, OperatorName, subgraphs
from rushlight.onnx.registry import find
from rushlight.support.errors import fail, require

_OLDEST = 7


def require_operators(model: Model) -> None:
    """O001, with the names of all operators and nodes, where a rule is missing."""
    oldest = model.versions.get("", _OLDEST)
    require(
        oldest >= _OLDEST,
        "O002",
        f"onnx.load: the model is of opset {oldest}",
        hint=f"convert it to {_OLDEST} or later",
    )
    missing: dict[str, list[str]] = {}
    for node, versions in _nodes(model):
        if not _is_known(node, versions, model):
            missing.setdefault(f"{node.operator}", []).append(node.title())
    if missing:
        fail("O001", f"onnx.load: there is no {', '.join(sorted(missing))}", nodes=_places(missing))


def _places(missing: Mapping[str, list[str]]) -> list[str]:
    return [
        f"{name} in {', '.join(nodes[:5])}{' and others' if len(nodes) > 5 else ''}" for name, nodes in missing.items()
    ]


def _is_known(node: Node, versions: Mapping[str, int], model: Model) -> bool:
    if node.operator in model.functions or node.operator == OperatorName("", "Constant"):
        return True
    return find(node.operator, versions.get(node.operator.domain, 1)) is not None


def _nodes(model: Model) -> Iterator[tuple[Node, Mapping[str, int]]]:
    yield from ((node, model.versions) for node in _within(model.graph.nodes))
    for function in model.functions.values():
        yield from ((node, function.versions) for node in _within(function.nodes))


def _within(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _within(graph.nodes)
