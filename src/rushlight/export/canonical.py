"""The form of a program's graph that depends on what it computes alone: its inputs, their order, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rushlight.export.inputs import Input, State
from rushlight.export.naming import identifier, unique
from rushlight.ir.graph import PARAMETER, Call, Graph, parameter
from rushlight.ir.value import map_operands
from rushlight.ops import OPERATORS

_ORDER = ("parameter", "buffer", "constant", "argument", "seed", "ordinal", "number")


def in_canonical_form(
    graph: Graph, inputs: Sequence[Input], state: State, titles: Sequence[str]
) -> tuple[Graph, list[Input], State]:
    """The graph with its inputs in canonical order and by name. `titles` has the names of the arguments' leaves.

    First come parameters and buffers, as the module has them, then constants in the order of their use, arguments,
    and numbers. What is written is not converted where that changes nothing, as copy_ does.
    """
    graph = replace(graph, mutations=tuple([(place, _unconverted(call)) for place, call in graph.mutations]))
    graph = _with_each_once(graph.without_dead_calls(), inputs)
    uses = _first_uses(graph)
    order = sorted(
        [place for place, call in enumerate(graph.parameters) if id(call) in uses],
        key=lambda place: _rank(inputs[place], uses[id(graph.parameters[place])], list(state.tensors)),
    )
    taken: set[str] = set()
    found: list[Input] = []
    constants: dict[str, object] = {}
    for place in order:
        item = inputs[place]
        name = unique(titles[int(item.target)] if item.kind == "argument" else _title(item), taken)
        if item.kind == "constant":
            constants[name] = state.constants[str(item.target)]
            item = replace(item, target=name)
        found.append(replace(item, name=name))
    return _with_inputs(graph, order, [item.name for item in found]), found, replace(state, constants=constants)


def _with_each_once(graph: Graph, inputs: Sequence[Input]) -> Graph:
    """The graph with one input for what feeds several."""
    first: dict[tuple[str, str | int], Call] = {}
    same = {
        id(call): first.setdefault((item.kind, item.target), call)
        for item, call in zip(inputs, graph.parameters, strict=True)
    }
    return _rebuilt(graph, same)


def _title(item: Input) -> str:
    return identifier(str(item.target)) if item.kind in ("parameter", "buffer") else item.kind


def _rank(source: Input, use: int, state: list[str]) -> tuple[int, int]:
    if source.kind in ("parameter", "buffer"):
        return _ORDER.index(source.kind), state.index(str(source.target))
    return _ORDER.index(source.kind), source.target if isinstance(source.target, int) else use


def _first_uses(graph: Graph) -> dict[int, int]:
    """Where each parameter is read first, or returned, or written to; those that are not are left out."""
    uses: dict[int, int] = {}
    for place, call in enumerate(graph.calls):
        for item in call.inputs():
            uses.setdefault(id(item), place)
    written = [graph.parameters[place] for place, _ in graph.mutations]
    for call in (*graph.results(), *written):
        uses.setdefault(id(call), len(graph.calls))
    return uses


def _with_inputs(graph: Graph, order: Sequence[int], names: Sequence[str]) -> Graph:
    """The graph with these of its parameters, by these names."""
    old = [graph.parameters[place] for place in order]
    new = tuple([parameter(name, call.type) for call, name in zip(old, names, strict=True)])
    places = {place: at for at, place in enumerate(order)}
    graph = _rebuilt(graph, {id(call): image for call, image in zip(old, new, strict=True)})
    mutations = sorted([(places[place], call) for place, call in graph.mutations], key=lambda item: item[0])
    return replace(graph, name="program", parameters=new, mutations=tuple(mutations))


def _rebuilt(graph: Graph, images: dict[int, Call]) -> Graph:
    """The graph on other values in place of its parameters, which stay."""
    images = dict(images)
    calls: list[Call] = []
    for call in graph.calls:
        operands = map_operands(call.operands, lambda item: images[id(item)])
        images[id(call)] = Call(call.op, operands, call.attrs, call.type, call.frames, call.region)
        calls.append(images[id(call)])
    outputs = tuple([images[id(call)] for call in graph.outputs])
    mutations = tuple([(place, images[id(call)]) for place, call in graph.mutations])
    return replace(graph, calls=tuple(calls), outputs=outputs, mutations=mutations)


def _unconverted(value: Call) -> Call:
    if value.op is not OPERATORS["to_dtype"] or value.operands[0].op is PARAMETER:
        return value
    return value.operands[0] if value.operands[0].type == value.type else value
