"""Leaves: where gradients end up, and whether a leaf takes a gradient as it is or a copy of it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from rushlight.autodiff.backward import SINK
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.node import Node, NodeHooks, run_tensor_hooks
from rushlight.eager.dispatch import STATE, Scope, call_user, dispatch
from rushlight.eager.handle import SPARSE, Gradient, Handle, allocate, gradient_of, is_wrapper
from rushlight.eager.mutation import COPY, in_place
from rushlight.eager.tensor_meta import TensorMeta, form_of
from rushlight.ir.type import dense_order
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require


class AccumulateGrad(Node):
    """Adds what arrives to a leaf's `grad`."""

    __slots__ = ("variable",)

    variable: Any

    def __init__(self, variable: Handle) -> None:
        super().__init__((), located=False)
        self.sequence = SINK
        self.variable = variable

    def hooks(self) -> NodeHooks:
        """The leaf's hooks on its gradient come before the node's own."""
        record, own = gradient_of(self.variable), super().hooks()
        of_leaf = [(0, hook) for hook in (record.hooks or {}).values()]
        accumulated = list((record.accumulated or {}).values())
        return own._replace(of_outputs=[*of_leaf, *own.of_outputs], accumulated=accumulated)

    def prepare(self, gradients: list[object], owned: set[int], runs: bool = True) -> None:
        """Runs the leaf's hooks on what arrived."""
        record = gradient_of(self.variable)
        if STATE.tracer is not None:
            STATE.tracer.hooked[id(self.variable)] = self.variable
        if record.hooks and gradients and gradients[0] is not None:
            gradients[0] = run_tensor_hooks(record.hooks, gradients[0], owned)
        super().prepare(gradients, owned, runs)

    def run(self, gradients: list[Handle | None], create_graph: bool, owned: set[int]) -> Sequence[object]:
        """Accumulates, then runs the hooks that come after accumulation."""
        if gradients[0] is not None:
            accumulate(self.variable, gradients[0], create_graph, id(gradients[0]) in owned)
            for hook in tuple((gradient_of(self.variable).accumulated or {}).values()):
                refuse_replacement(call_user(hook, self.variable))
        return ()


def accumulate(variable: Handle, gradient: Handle, create_graph: bool, owned: bool) -> None:
    """Adds a gradient to a tensor's `grad`; `owned`: nobody else refers to it."""
    record = gradient_of(variable)
    record.grad = accumulated(variable, record.grad, gradient, create_graph, owned)


def refuse_replacement(returned: object) -> None:
    """A001 for what a hook returns that runs after accumulation."""
    require(returned is None, "A001", "a hook after accumulation must return None", returned=returned)


def refuse_untraced(gradient: Any) -> None:
    """C036 for a gradient that was there before the trace and is sparse, or has a history.

    How many places the one has differs from call to call; what the other was computed from is not among the inputs.
    """
    if gradient is None:
        return
    if gradient.keys & SPARSE and gradient.kept.node is None:
        hint = "drop it first, by optimizer.zero_grad() inside of the compiled function, or let the layer be dense"
        fail("C036", "a compiled function reads a sparse gradient that is there before the call", hint=hint)
    if is_recorded(gradient):
        hint = "give it to the compiled function as an argument, or detach it"
        fail("C036", "a compiled function reads a gradient with a history that is there before the call", hint=hint)


def kept_gradient(tensor: Any) -> Handle | None:
    """What backward passes have left in a tensor's `grad`, or None."""
    return None if tensor.gradient is None else tensor.gradient.grad


def is_recorded(gradient: Handle | None) -> bool:
    """Whether a gradient is a real tensor with a history, as after `backward(create_graph=True)`."""
    return gradient is not None and gradient.backing is not None and requires(gradient)


def accumulated(variable: Handle, before: Handle | None, new: Handle, create_graph: bool, owned: bool) -> Any:
    """A leaf's gradient with a new one added.

    The first one is taken as it is if nobody else has it and its layout is the leaf's; else it is copied into the
    leaf's layout. Later ones are added in place, or out of place where the sum is part of a graph, or a dense gradient
    is added to a sparse one.
    """
    if before is not None:
        if STATE.tracer is not None:
            refuse_untraced(before)
        if (create_graph and STATE.grad) or (before.keys & SPARSE and not new.keys & SPARSE):
            return OPERATORS["add"](before, new)
        return in_place(OPERATORS["add"])(before, new)
    if new.keys & SPARSE:
        return new if create_graph and STATE.grad else OPERATORS["clone"](new)
    wanted = gradient_form(variable.form, new.form)
    if owned and not create_graph and new.form is wanted and new.backing is not None:
        return new
    with Scope(grad=False):  # what is copied to has no history
        target = _allocated(wanted, variable, new)
    return dispatch(COPY, (target, new), {})


def gradient_form(variable: TensorMeta, new: TensorMeta) -> TensorMeta:
    """The form in which a leaf keeps its gradient: the leaf's strides if it is dense, else row-major."""
    dense = (
        variable.is_dense if not variable.symbolic else dense_order(variable.type.shape, variable.strides) is not None
    )
    strides = variable.strides if dense else None
    return form_of(tuple(variable.shape), new.dtype, new.device, strides)


def _allocated(form: TensorMeta, variable: Handle, new: Handle) -> Any:
    """A tensor of undefined contents, without data where the gradient has none. A wrapper's is like the wrapper."""
    if new.backing is not None:
        return allocate(form)
    if is_wrapper(variable) and form.strides == variable.form.strides:
        return OPERATORS["full_like"](variable, 0, dtype=form.dtype)
    if form.strides == new.form.strides:
        return OPERATORS["full_like"](new, 0)
    if form.strides == variable.form.strides:
        return OPERATORS["full_like"](variable, 0, dtype=form.dtype)
    return OPERATORS["full"](form.shape, 0, dtype=form.dtype)


def sink_of(leaf: Handle) -> Any:
    """The node that accumulates into a leaf's `grad`; one per leaf while anything refers to it."""
    gradient = gradient_of(leaf)
    sink = gradient.sink() if gradient.sink is not None else None
    if sink is None:
        sink = AccumulateGrad(leaf)
        gradient.sink = weakref.ref(sink)
    return sink


def edge_of(tensor: Any) -> tuple[Any, int] | None:
    """Where a tensor's gradient goes: the node that made it, its accumulation if it is a leaf, or None."""
    gradient: Gradient | None = tensor.gradient
    if gradient is None:
        return None
    if gradient.node is not None:
        return gradient.node, gradient.output
    return (sink_of(tensor), 0) if gradient.required else None
