"""Cutting a joint graph into a forward and a backward graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.ir.graph import NUMBER, Call, Graph, parameter
from rushlight.ops.record import Fact


@dataclass(frozen=True, slots=True)
class Split:
    """`forward` gives the function's outputs, then what is saved. `backward` takes `inputs` of the joint graph's parameters (by
    position), the saved values, and the tangents; it gives the gradients.
    """

    forward: Graph
    backward: Graph
    inputs: tuple[int, ...]
    saved: int


def split_joint(joint: Graph, outputs: int, tangents: int) -> Split:
    """Everything that does not depend on a tangent is forward. Views and numbers are made again rather than saved.

    joint's outputs are the function's, then the gradients; its last `tangents` parameters are the outputs' gradients.
    """
    count = len(joint.parameters) - tangents
    late = {id(call) for call in joint.parameters[count:]}
    for call in joint.calls:
        if any(id(item) in late for item in call.inputs()):
            late.add(id(call))
    cut = _Cut(joint, late, count)
    gradients = tuple([cut.image(call) for call in joint.outputs[outputs:]])
    forward = Graph(
        joint.parameters[:count],
        tuple([call for call in joint.calls if id(call) not in late]),
        (*joint.outputs[:outputs], *cut.saved),
        joint.mutations,
        joint.views,
        f"{joint.name}_forward",
    ).without_dead_calls()
    parameters = (*cut.inputs.values(), *cut.parameters, *cut.tangents)
    backward = Graph(parameters, tuple(cut.calls), gradients, name=f"{joint.name}_backward")
    return Split(forward, backward.without_dead_calls(), tuple(cut.inputs), len(cut.saved))


class _Cut:
    """Rebuilds the late calls on parameters for what they need of the forward part."""

    def __init__(self, joint: Graph, late: set[int], count: int) -> None:
        self.late = late
        self.positions = {id(call): place for place, call in enumerate(joint.parameters[:count])}
        self.mutated = {position for position, _ in joint.mutations}
        self.inputs: dict[int, Call] = {}
        self.saved: list[Call] = []
        self.parameters: list[Call] = []
        self.tangents = [parameter(f"tangent{place}", call.type) for place, call in enumerate(joint.parameters[count:])]
        self.calls: list[Call] = []
        self._images: dict[int, Call] = {
            id(call): new for call, new in zip(joint.parameters[count:], self.tangents, strict=True)
        }
        for call in joint.calls:
            if id(call) in late:
                self._images[id(call)] = self._rebuilt(call)

    def image(self, call: Call) -> Call:
        """The call's counterpart in the backward graph."""
        chain: list[Call] = []
        while id(call) not in self._images and _is_cheap(call):
            chain.append(call)
            if not call.operands:
                break
            call = call.operands[0]
        if id(call) not in self._images and not (chain and chain[-1] is call):
            self._images[id(call)] = self._given(call)
        for item in reversed(chain):
            self._images[id(item)] = self._rebuilt(item)
        return self._images[id(chain[0] if chain else call)]

    def _given(self, call: Call) -> Call:
        position = self.positions.get(id(call))
        if position is not None and position not in self.mutated:
            self.inputs[position] = parameter(f"in{position}", call.type)
            return self.inputs[position]
        self.saved.append(call)
        self.parameters.append(parameter(f"saved{len(self.parameters)}", call.type))
        return self.parameters[-1]

    def _rebuilt(self, call: Call) -> Call:
        operands = tuple([self._operand(item) for item in call.operands])
        new = Call(call.op, operands, call.attrs, call.type, call.frames, call.region)
        self.calls.append(new)
        return new

    def _operand(self, item: Any) -> Any:
        if item is None:
            return None
        return tuple([self.image(part) for part in item]) if isinstance(item, tuple) else self.image(item)


def _is_cheap(call: Call) -> bool:
    if call.op is NUMBER:
        return True
    facts: Fact = getattr(call.op, "facts", Fact.NONE)
    return Fact.VIEW in facts and len(call.operands) == 1
