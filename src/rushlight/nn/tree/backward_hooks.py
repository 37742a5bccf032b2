"""BackwardHooks: hooks on the gradients that enter and leave a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from rushlight.eager.autograd.function import Function
from rushlight.eager.autograd.node import fitting
from rushlight.eager.dispatch import STATE, call_user, refuse_in_graphs
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS

Grads = tuple[Tensor | None, ...]


class _Boundary(Function):
    """The identity on some tensors.

    Backward calls `watch` with all their gradients; `watch` may return others.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: object) -> tuple[Tensor, ...]:
        ctx, hooks, watch, *tensors = args
        ctx.watch, ctx.called = watch, hooks
        ctx.set_materialize_grads(False)
        return tuple([OPERATORS["alias"](tensor) for tensor in tensors])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> Grads:
        return (None, None, *ctx.watch(grad_outputs))

    @staticmethod
    def _called(ctx: Any) -> Sequence[Callable[..., object]]:
        return ctx.called


class BackwardHooks:
    """Runs the backward hooks of one call of a module: first on its outputs' gradients, then on its inputs'."""

    def __init__(self, module: object, hooks: Mapping[int, Any], pre_hooks: Mapping[int, Any]) -> None:
        self._module = module
        self._hooks = [hook.function for hook in hooks.values()]
        self._pre_hooks = [hook.function for hook in pre_hooks.values()]
        self._grad_output: Grads | None = None  # of the pass that goes on
        self._is_traced = STATE.tracer is not None
        self._has_inputs = False
        self._inputs = 0

    @classmethod
    def around(cls, module: object, hooks: Mapping[int, Any], pre_hooks: Mapping[int, Any]) -> Self | None:
        """Return the hooks of a call, or None where there are none or nothing is recorded."""
        return cls(module, hooks, pre_hooks) if STATE.grad and (hooks or pre_hooks) else None

    def enter(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """Return the arguments, their gradients watched."""
        self._refuse_half()
        self._inputs = len(args)
        places = [at for at, arg in enumerate(args) if isinstance(arg, Tensor) and arg.requires_grad]
        self._has_inputs = bool(places)
        if not self._hooks or not places:
            return args
        watched = list(args)
        tensors = _Boundary.apply(
            self._hooks, lambda grads: self._inputs_known(places, grads), *[args[at] for at in places]
        )
        for at, tensor in zip(places, tensors, strict=True):
            watched[at] = tensor
        return tuple(watched)

    def leave(self, result: object) -> object:
        """Return the result, its gradients watched; results are a tensor, or a tuple or list with some."""
        self._refuse_half()
        if isinstance(result, Tensor):
            return self._watch_outputs([result])[0]
        if not isinstance(result, tuple | list):
            return result
        indices = [at for at, output in enumerate(result) if isinstance(output, Tensor)]
        watched = list(result)
        for at, tensor in zip(indices, self._watch_outputs([result[at] for at in indices]), strict=True):
            watched[at] = tensor
        if hasattr(result, "_fields"):
            return type(result)(*watched)
        return type(result)(watched)

    def _refuse_half(self) -> None:
        if not self._is_traced:
            refuse_in_graphs("a module's backward hooks", "one graph has to have all of the call")

    def _watch_outputs(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        return _Boundary.apply([*self._pre_hooks, *self._hooks], self._outputs_known, *tensors) if tensors else ()

    def _outputs_known(self, grads: Grads) -> Grads:
        for hook in self._pre_hooks:
            grads = _replaced(call_user(hook, self._module, grads), grads)
        self._grad_output = grads
        if not self._has_inputs:
            for hook in self._hooks:
                call_user(hook, self._module, (None,) * self._inputs, grads)
        return grads

    def _inputs_known(self, places: list[int], grads: Grads) -> Grads:
        if self._grad_output is None:  # a gradient of a gradient, which has not come through the outputs
            return grads
        grad_input: list[Tensor | None] = [None] * self._inputs
        for at, grad in zip(places, grads, strict=True):
            grad_input[at] = grad
        gradients = tuple(grad_input)
        for hook in self._hooks:
            gradients = _replaced(call_user(hook, self._module, gradients, self._grad_output), gradients)
        self._grad_output = None
        return tuple([gradients[at] for at in places])


def _replaced(changed: object, grads: Grads) -> Grads:
    return grads if changed is None else fitting(changed, grads, "a module's hook")
