"""What a forward pass keeps for its backward pass: a minimum cut of the values between them.

The rule of min-cut rematerialisation (Chen et al. 2016 as an exact cut, as PyTorch's partitioner has it): each value is
kept, at the price of its bytes, or made again from values that are kept. Values that are dear to make may only be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
from math import lcm
from typing import Any

from rushlight.ir.graph import NUMBER, PARAMETER, RELAYOUT, RESULT, Call
from rushlight.ops.record import Fact
from rushlight.sym import optimization_hint, product

# Up to so many elements a reduction costs less to run again than to keep, as a launch of its own would.
SMALL_REDUCTION = 1024


def is_view(call: Call) -> bool:
    """Whether a value lies in its operand's memory, or may do so: making it again costs nothing."""
    if call.op is NUMBER:
        return True
    facts: Fact = getattr(call.op, "facts", Fact.NONE)
    return Fact.VIEW in facts and len(call.operands) == 1


def is_cheap(call: Call) -> bool:
    """Whether a value may be made again.

    Pointwise operators, views, casts, constants, random numbers of a known seed, and small reductions may; contractions
    and large reductions may not.
    """
    if call.op in (NUMBER, RELAYOUT):
        return True
    if call.op in (PARAMETER, RESULT) or isinstance(call.type, tuple):
        return False
    op: Any = call.op
    facts: Fact = op.facts
    if facts & (Fact.POINTWISE | Fact.VIEW):
        return True
    if facts & (Fact.HOST | Fact.DATA_DEPENDENT):
        return False
    tensors = [operand for operand in call.inputs() if operand.op is not NUMBER]
    if all(operand.type.shape == () for operand in tensors):
        return True  # full, arange, rand: they read no memory to speak of
    if op.schema.results[0].alias is not None:
        return True  # a reshape: a view, or a copy that its users read through
    if Fact.REDUCTION in facts and len(tensors) == 1:
        return optimization_hint(product(tensors[0].type.shape)) <= SMALL_REDUCTION
    return False


def can_wait(call: Call) -> bool:
    """Whether a value that nothing but the backward pass needs may be made there."""
    if call.op in (PARAMETER, RESULT) or isinstance(call.type, tuple):
        return False
    return call.op in (NUMBER, RELAYOUT) or not getattr(call.op, "facts", Fact.NONE) & (Fact.HOST | Fact.DATA_DEPENDENT)


def kept_bytes(call: Call, derived: bool = False) -> int:
    """What keeping a value costs, by hints.

    A view costs a little more than its base, if that is no larger, and so does a value that is `derived` for the
    backward pass, as the factor of a gradient: of the values that it was made of the derivatives of any order are.
    """
    size = optimization_hint(product(call.type.shape)) * call.type.dtype.itemsize
    return max(1, size) + (call.op is not PARAMETER and (derived or is_view(call)))


def minimum_cut(
    values: Iterable[Call],
    required: Collection[Call],
    free: Collection[Call],
    cost: Callable[[Call], Fraction | None] = lambda call: Fraction(0) if is_cheap(call) else None,
    derived: Collection[int] = (),
) -> list[Call]:
    """The values to keep so that all `required` ones can be had again, with the fewest bytes kept.

    `values` are inputs and calls in order. Those in `free` cost nothing to keep: they live on anyway. Among cuts of
    equal bytes the one that repeats least is taken, but for what is `derived` (`kept_bytes`), by identity. What `cost`
    gives is that of making a value again, in bytes; None of what may only be kept.
    """
    values = list(values)
    needed = {id(call) for call in required if call.op is not NUMBER}
    if not needed:
        return []
    unpriced = {id(call) for call in free}
    costs = {id(call): cost(call) for call in values}
    unit = lcm(*[one.denominator for one in costs.values() if one is not None])  # capacities are integers
    network = _networkx().DiGraph()
    network.add_nodes_from((_SOURCE, _SINK))
    for call in values:
        key = id(call)
        if not isinstance(call.type, tuple):
            nbytes = 0 if key in unpriced else kept_bytes(call, key in derived)
            network.add_edge((key, 0), (key, 1), capacity=nbytes * unit)
        again = costs[key]
        if again is None:
            network.add_edge(_SOURCE, (key, 0))  # no capacity: an edge that is never cut
        elif again:
            network.add_edge(_SOURCE, (key, 0), capacity=int(again * unit))
        for operand in call.inputs():
            network.add_edge((id(operand), 1), (key, 0))
        if key in needed:
            network.add_edge((key, 1), _SINK)
    flow = _networkx().algorithms.flow
    residual = flow.build_residual_network(network, "capacity")
    _, (_, late) = flow.minimum_cut(network, _SOURCE, _SINK, flow_func=flow.preflow_push, residual=residual)
    for graph in (network, residual):  # its views refer to it: only the garbage collector would free it
        vars(graph).clear()
    return [call for call in values if (id(call), 1) in late and (id(call), 0) not in late]


_SOURCE, _SINK = "source", "sink"


def _networkx() -> Any:
    import networkx

    return networkx
