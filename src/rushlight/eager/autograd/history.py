"""A tensor's history: whether it requires gradients, and how views follow writes to their base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.autodiff.backward import SINK, reachable
from rushlight.eager.dispatch import STATE, Scope, dispatch
from rushlight.eager.handle import AUTOGRAD, Gradient, Handle, Step, View, gradient_of
from rushlight.ir.dtype import Kind
from rushlight.support.errors import fail


def differentiable(tensor: Handle) -> bool:
    """Whether tensors of this dtype have gradients."""
    return tensor.form.dtype.kind >= Kind.FLOAT


def attach(tensor: Any, node: object, output: int) -> None:
    """Makes the tensor the output of a node."""
    gradient = tensor.gradient
    if gradient is None:
        gradient = tensor.gradient = Gradient()
    gradient.node = node
    gradient.output = output
    tensor.keys |= AUTOGRAD


def rewrite(tensor: Handle, node: Any, output: int) -> None:
    """Makes the tensor the output of a node after a write to it: its views follow."""
    before_rewrite(tensor)
    move_retained(tensor, gradient_of(tensor), node, output)
    attach(tensor, node, output)
    gradient_of(tensor).rebases += 1


def move_retained(tensor: Handle, before: Gradient, node: Any, output: int) -> None:
    """Lets the new node of a tensor keep the gradient that the old one would have kept."""
    if before.retained and before.node is not None and node is not None:
        before.node.retain_no_more(before.output)
        node.retain(output, tensor)


def before_rewrite(tensor: Handle) -> None:
    """Called before the history of a tensor is replaced: what a trace replaces is restored when it ends."""
    if STATE.tracer is not None:
        STATE.tracer.histories.keep(tensor)


def records() -> bool:
    """Whether operators on tensors that require gradients are recorded now."""
    return STATE.grad and not STATE.excluded & AUTOGRAD


def requires(tensor: Handle) -> bool:
    """Whether gradients of the tensor are wanted; a view asks its base first."""
    if not tensor.keys & AUTOGRAD:
        return False
    if tensor.view_of is not None:
        follow(tensor)
    gradient = tensor.gradient
    return gradient is not None and (gradient.required or gradient.node is not None)


def rebases_of(base: Handle) -> int:
    """How often the base's history was rewritten."""
    return 0 if base.gradient is None else base.gradient.rebases


def follow(tensor: Any) -> None:
    """Brings a view's history up to date: after a write to its base it is the view of what the base is now."""
    view: View = tensor.view_of
    now = rebases_of(view.base)
    if now == view.rebases:
        return
    if not view.recorded:
        fail("G006", "a view made under no_grad shows a base that was written to with gradients", view=tensor)
    before_rewrite(tensor)
    view.rebases = now
    with Scope(grad=True, excluded=STATE.excluded & ~AUTOGRAD):
        fresh = replay(view.steps, view.base)
    gradient = gradient_of(tensor)
    node, output = (None, 0) if fresh.gradient is None else (fresh.gradient.node, fresh.gradient.output)
    move_retained(tensor, gradient, node, output)
    gradient.node, gradient.output = node, output


def replay(steps: Sequence[Step], base: object) -> Any:
    """The view that these steps make of a tensor."""
    for op, others, attrs in steps:
        base = dispatch(op, (base, *others), attrs)
    return base


def shown_by_base(target: Any) -> Any:
    """The target of a write as its base shows it, for what computes the new elements from the old ones.

    The gradient of a view by strides of a view leaves out what lies between the elements of the latter, while a write
    goes to the base.
    """
    view: View | None = target.view_of
    return target if view is None or not requires(target) else replay(view.steps, view.base)


def require_known(roots: Sequence[Any], targets: Sequence[Any]) -> None:
    """G017 where a pass meets an argument of a trace that may have been computed from a target."""
    earlier = {id(edge[0]) for edge in targets if edge[0].hidden or edge[0].sequence == SINK}
    steps: Sequence[Any] = list(reachable([edge[0] for edge, _ in roots]).values())
    for step in steps:
        if step.hidden and earlier - {id(step)}:
            step.run([], False, set())
