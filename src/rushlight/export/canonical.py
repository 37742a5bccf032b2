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
    graph = replace(graph, mutations=tuple([(position, _unconverted(call)) for position, call in graph.mutations]))
    graph = _with_each_once(graph.without_dead_calls(), inputs)
    uses = _first_uses(graph)
    order = sorted(
        [position for position, call in enumerate(graph.parameters) if id(call) in uses],
        key=lambda position: _rank(inputs[position], uses[id(graph.parameters[position])], list(state.tensors)),
    )
    taken: set[str] = set()
    kept: list[Input] = []
    constants: dict[str, object] = {}
    for index in order:
        input_ = inputs[index]
        name = unique(titles[int(input_.target)] if input_.kind == "argument" else _title(input_), taken)
        if input_.kind == "constant":
            constants[name] = state.constants[str(input_.target)]
            input_ = replace(input_, target=name)
        kept.append(replace(input_, name=name))
    return _with_inputs(graph, order, [element.name for element in kept]), kept, replace(state, constants=constants)


def _with_each_once(graph: Graph, inputs: Sequence[Input]) -> Graph:
    """The graph with one input for what feeds several."""
    first: dict[tuple[str, str | int], Call] = {}
    same = {
        id(call): first.setdefault((input_.kind, input_.target), call)
        for input_, call in zip(inputs, graph.parameters, strict=True)
    }
    return _rebuilt(graph, same)


def _title(input_: Input) -> str:
    return identifier(str(input_.target)) if input_.kind in ("parameter", "buffer") else input_.kind


def _rank(source: Input, use: int, state: list[str]) -> tuple[int, int]:
    if source.kind in ("parameter", "buffer"):
        return _ORDER.index(source.kind), state.index(str(source.target))
    return _ORDER.index(source.kind), source.target if isinstance(source.target, int) else use


def _first_uses(graph: Graph) -> dict[int, int]:
    """Where each parameter is read first, or returned, or written to; those that are not are left out."""
    uses: dict[int, int] = {}
    for position, call in enumerate(graph.calls):
        for input_ in call.inputs():
            uses.setdefault(id(input_), position)
    written = [graph.parameters[index] for index, _ in graph.mutations]
    for call in (*graph.results(), *written):
        uses.setdefault(id(call), len(graph.calls))
    return uses


def _with_inputs(graph: Graph, order: Sequence[int], names: Sequence[str]) -> Graph:
    """The graph with these of its parameters, by these names."""
    old = [graph.parameters[position] for position in order]
    new = tuple([parameter(name, call.type) for call, name in zip(old, names, strict=True)])
    places = {position: at for at, position in enumerate(order)}
    graph = _rebuilt(graph, {id(call): image for call, image in zip(old, new, strict=True)})
    mutations = sorted([(places[position], call) for position, call in graph.mutations], key=lambda pair: pair[0])
    return replace(graph, name="program", parameters=new, mutations=tuple(mutations))


def _rebuilt(graph: Graph, images: dict[int, Call]) -> Graph:
    """The graph on other values in place of its parameters, which stay."""
    images = dict(images)
    calls: list[Call] = []
    for call in graph.calls:
        operands = map_operands(call.operands, lambda operand: images[id(operand)])
        images[id(call)] = Call(call.op, operands, call.attrs, call.type, call.frames, call.region)
        calls.append(images[id(call)])
    outputs = tuple([images[id(call)] for call in graph.outputs])
    mutations = tuple([(position, images[id(call)]) for position, call in graph.mutations])
    return replace(graph, calls=tuple(calls), outputs=outputs, mutations=mutations)


def _unconverted(value: Call) -> Call:
    if value.op is not OPERATORS["to_dtype"] or value.operands[0].op is PARAMETER:
        return value
    return value.operands[0] if value.operands[0].type == value.type else value
