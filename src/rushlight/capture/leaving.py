"""What tensors that leave a trace are besides their elements: views of each other, and places in autograd.

A graph gives elements and their gradients to inputs. Views of one result are made of it again after each call. What
else a program sets of a tensor that it made, no graph gives: the trace ends before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from rushlight.capture.code.effects import is_quiet
from rushlight.eager.autograd.accumulate import AccumulateGrad, edge_of
from rushlight.eager.autograd.function import FunctionNode, OnceDifferentiable
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.node import Node
from rushlight.eager.handle import Handle, adopted
from rushlight.eager.tracing import TracedNumber, Tracer
from rushlight.ir.type import dense_order

Ends = Callable[[int, str], NoReturn]
"""Ends a trace before what happened at a moment, for a reason."""


class SharedView(NamedTuple):
    """A view, by steps, of a tensor that leaves the trace too; `recorded`: autograd was on when it was made."""

    base: Handle
    steps: tuple[Any, ...]
    recorded: bool


def shared_views(tracer: Tracer, leaving: Iterable[Handle], ends: Ends) -> dict[int, SharedView]:
    """Those of the tensors that the trace made that are views of others of them, by identity.

    Where the trace ends within the function, so are views with gaps of what the function has left: it goes on with
    their strides. As a result of the function such a view is a dense copy, for which all else need not be computed.
    """
    by_cell: dict[int, list[Handle]] = {}
    for tensor in leaving:
        cell = tracer.binding(tensor).cell
        if cell.source is None:
            by_cell.setdefault(id(cell), []).append(tensor)
    views: dict[int, SharedView] = {}
    for tensors in by_cell.values():
        if len(tensors) == 1 and (not tracer.goes_on or _is_dense(tensors[0])):
            continue
        base = _base_of(tracer, tensors)
        if base is None and len(tensors) == 1:
            continue
        for tensor in tensors:
            binding, shown = tracer.binding(tensor), tensor.view_of
            if base is None or not (binding.steps or tensor is base):
                ends(binding.moment, "two tensors share their memory")
            if tensor is not base:
                views[id(tensor)] = SharedView(base, binding.steps, shown is None or shown.recorded)
    return views


def unlike_eager(tracer: Tracer, leaving: Iterable[object]) -> list[int]:
    """When tensors were made that leave as dense copies, and are views in eager code, or may be.

    An operator may take the copy that has refused the view, or read other elements of it by strides.
    """
    made = [tensor for tensor in leaving if isinstance(tensor, Handle) and not isinstance(tensor, TracedNumber)]
    results = [tensor for tensor in made if tracer.is_result(tensor)]
    bindings = [tracer.binding(tensor) for tensor in results]
    cells = Counter([id(binding.cell) for binding in bindings])
    found: list[int] = []
    for tensor, binding in zip(results, bindings, strict=True):
        if binding.cell.source is not None:
            continue
        kept = _is_dense(tensor) or cells[id(binding.cell)] > 1 or _base_of(tracer, [tensor]) is not None
        if tracer.in_doubt(tensor) or not kept:
            found.append(binding.moment)
    return found


def _is_dense(tensor: Handle) -> bool:
    return tensor.offset == 0 and dense_order(tuple(tensor.form.shape), tensor.form.strides) is not None


def _base_of(tracer: Tracer, tensors: Sequence[Handle]) -> Handle | None:
    """The tensor that others on its cell are views of."""
    cell = tracer.binding(tensors[0]).cell
    shown = [tensor.view_of.base for tensor in tensors if tensor.view_of is not None]
    for tensor in (*tensors, *shown, *tracer.seen()):
        binding = tensor.node
        if binding is None or binding.tracer is not tracer or binding.steps or tensor.view_of is not None:
            continue
        if binding.cell is cell:
            return tensor
    return None


def refuse_unkept(tracer: Tracer, leaving: Sequence[Handle], since: int, ends: Ends, takes_hooks: bool) -> None:
    """Ends a trace that began at `since` before the program sets of tensors what no graph gives.

    A trace that `takes_hooks` has the hooks on gradients in it.
    """
    found = [(_moment(tracer, tensor, tensor), text) for tensor in leaving for text in _own(tensor)]
    if tracer.changes:
        steps, leaves = _tape(leaving, since)
        made = [leaf for leaf in leaves if _is_made(tracer, leaf)]
        found += [(_moment(tracer, leaf, leaf), "a new tensor requires gradients") for leaf in made]
        found += [(_moment(tracer, key, None), text) for step in steps for key, text in _hooks(step, takes_hooks)]
        once = [step for step in steps if isinstance(step, OnceDifferentiable)]
        found += [(_moment(tracer, step, None), "a gradient that is no more differentiated") for step in once]
        loud = [step for step in steps if isinstance(step, FunctionNode) and not all(map(is_quiet, step.runs))]
        found += [(_moment(tracer, step, None), "a backward pass has effects") for step in loud if not takes_hooks]
    if found:
        ends(*min(found))


def refuse_class(view: Any, ends: Ends) -> None:
    """Ends a trace before a view of an input that is of a class of its own: calls make plain ones again."""
    for text in _of_class(view):
        ends(view.node.moment, text)


def writes_so_far(tracer: Tracer) -> dict[int, int]:
    """How often each tensor of a trace has been written to, by the identity of its cell."""
    return {id(cell): cell.writes for cell in _cells(tracer)}


def refuse_steps_that_write(
    tracer: Tracer, before: Mapping[int, int], leaving: Sequence[Handle], since: int, ends: Ends
) -> None:
    """Ends a trace before custom functions whose backward writes to what the trace, or the caller, has.

    Each pass does so, and the graph of the forward has to do nothing of it. `before` are the writes before the pass was
    traced.
    """
    if all(cell.writes == before.get(id(cell), cell.writes) for cell in _cells(tracer)):
        return
    steps, _ = _tape([*leaving, *tracer.lifted], since)
    moments = [_moment(tracer, step, None) for step in steps if isinstance(step, FunctionNode)]
    ends(min(moments, default=0), "a backward pass has effects")


def _cells(tracer: Tracer) -> list[Any]:
    bindings = [tensor.node for tensor in tracer.seen()]
    return [binding.cell for binding in bindings if binding is not None and binding.tracer is tracer]


def _own(tensor: Any) -> list[str]:
    """What a tensor is besides its elements and its history."""
    if isinstance(tensor, TracedNumber):
        return []
    record = tensor.gradient
    found = _of_class(tensor)
    if record is None:
        return found
    if record.required and record.node is None:
        found.append("a new tensor requires gradients")
    if record.grad is not None:
        found.append("a new tensor has a gradient")
    if record.retained:
        found.append("a new tensor keeps its gradient")
    return found


def _of_class(tensor: object) -> list[str]:
    """What a tensor is by its class, besides a tensor."""
    return [] if type(tensor) is adopted() else [f"a new {type(tensor).__name__}"]


def _moment(tracer: Tracer, changed: object, tensor: Any) -> int:
    """When something was changed; a tensor that has not been, when it was made."""
    known = tracer.changes.get(id(changed))
    return known[1] if known is not None else 0 if tensor is None else tracer.binding(tensor).moment


def _is_made(tracer: Tracer, leaf: Any) -> bool:
    binding = leaf.node
    return leaf.backing is None and binding is not None and binding.tracer is tracer and binding.cell.source is not leaf


def _tape(tensors: Sequence[Any], since: int) -> tuple[list[Node], list[Any]]:
    """The steps since some moment that lead to the tensors, and the leaves that they start from."""
    stack = [edge for tensor in tensors if requires(tensor) and (edge := edge_of(tensor)) is not None]
    seen: dict[int, Node] = {}
    leaves: list[Any] = []
    while stack:
        step = stack.pop()[0]
        if id(step) in seen:
            continue
        seen[id(step)] = step
        if isinstance(step, AccumulateGrad):
            leaves.append(step.variable)
        elif step.sequence >= since:
            stack.extend([edge for edge in step.edges if edge is not None])
    return [step for step in seen.values() if step.sequence >= since], leaves


def _hooks(step: Node, takes_hooks: bool) -> list[tuple[object, str]]:
    """The tables of hooks of a step, and the tensors that keep the gradients that arrive there."""
    tables, retaining = step.watched()
    tables = [] if takes_hooks else tables
    found: list[tuple[object, str]] = [(table, "a hook is on the gradient of a new tensor") for table in tables]
    return [*found, *[(tensor, "a new tensor keeps its gradient") for tensor in retaining]]
