"""A function of parts of divided tensors in a traced program: one call of `ops.control.local_map`.

Its gradient is another one. The function is traced with its gradient, and the two are cut apart: the first call gives
what the second one needs besides, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autodiff.partition import Split, split_joint
from rushlight.eager.dispatch import STATE, call_apart
from rushlight.eager.handle import Handle
from rushlight.eager.pytree import unflatten_tree
from rushlight.eager.tracing.body import Body
from rushlight.eager.tracing.control import attach_backward, operand
from rushlight.eager.tracing.tracer import Tracer
from rushlight.ir.dtype import int64
from rushlight.ir.graph import Inner
from rushlight.ir.graph import Node as Value
from rushlight.ir.type import row_major
from rushlight.ops import OPERATORS, control


def traced_map(function: Callable[[], object], parts: Sequence[Handle], placements: tuple[str, ...]) -> Any:
    """Records the call of a function of these parts, and returns what the function returns.

    `placements` are the name of the function, and how parts and results lie. Errors: C031, C032.
    """
    outer: Tracer = STATE.tracer
    body = Body(outer, placements[0])
    body.trace(lambda _: call_apart(function), lambda leaf: leaf if isinstance(leaf, Handle) else None, given=parts)
    given = body.captured
    values = tuple([operand(outer, tensor) for tensor in given])
    if body.edges:
        made = _with_gradients(outer, body, given, values, placements)
    else:
        inner = body.inner(given, body.results)
        made = outer.record(control.local_map, (values,), _attributes(inner, placements))
    results = iter(made)
    leaves = [next(results) if isinstance(leaf, Handle) else leaf for leaf in body.leaves]
    return unflatten_tree(body.structure, leaves)


def _attributes(inner: Inner, placements: tuple[str, ...]) -> dict[str, object]:
    types = tuple([row_major(call.type) for call in inner.graph.outputs])
    return {"body": inner, "types": types, "placements": placements}


def _with_gradients(
    outer: Tracer, body: Body, given: list[Handle], values: tuple[Any, ...], placements: tuple[str, ...]
) -> Sequence[Handle]:
    """The call, whose results have a history: the call of the gradients."""
    count, places = len(body.results), sorted(body.tangents)
    keys = [key for key in body.edges if key in body.gradients]
    tangents = [body.tangents[position] for position in places]
    joint = body.inner([*given, *tangents], [*body.results, *[body.gradients[key] for key in keys]])
    with body.branch.scope.within(body.branch):
        split = split_joint(joint.graph, count, len(tangents), recompute=False)
    forward, backward = Inner(split.forward, body.branch), Inner(split.backward, body.branch)
    results = outer.record(control.local_map, (values,), _attributes(forward, placements))
    saved = [outer.node(results[position]) for position in split.saved]
    made = results[:count]

    def differentiate(arrived: list[Value]) -> Sequence[object]:
        kept = [values[position] for position in split.inputs]
        operands = (*kept, *saved, *arrived, *_sizes(outer, split))
        return outer.record(control.local_map, (operands,), _attributes(backward, ("backward of", *placements)))

    attach_backward(outer, "LocalMapBackward", [body.edges[key] for key in keys], made, places, differentiate)
    return made


def _sizes(outer: Tracer, split: Split) -> list[Any]:
    """What tells the backward pass the sizes that no part shows."""
    if not split.sizes:
        return []
    zero = outer.builder.apply(OPERATORS["full"], (0,), {"size": (), "dtype": int64, "device": None})
    return [outer.builder.apply(OPERATORS["expand"], (zero,), {"size": split.sizes})]
