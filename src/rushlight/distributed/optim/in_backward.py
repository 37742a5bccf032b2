"""Optimizers that step where the gradient of a parameter is complete, during the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rushlight.eager.tensor import Tensor
from rushlight.nn import Module

APPLIED = "_in_backward_optimizers"
CLASSES, KEYWORDS = "_optimizer_classes", "_optimizer_kwargs"


def apply_optimizer_in_backward(
    optimizer_class: Any, params: Iterable[Tensor], optimizer_kwargs: Mapping[str, Any], register_hook: bool = True
) -> None:
    """Have each parameter step, and its gradient dropped, as soon as the gradient is complete.

    A second call adds an optimizer.

    apply_optimizer_in_backward(rl.optim.SGD, model.parameters(), {"lr": 0.1})
    """
    for param in params:
        first = not hasattr(param, APPLIED)
        if first:
            for name in (APPLIED, CLASSES, KEYWORDS):
                setattr(param, name, [])
        getattr(param, APPLIED).append(optimizer_class([param], **optimizer_kwargs))
        getattr(param, CLASSES).append(optimizer_class)
        getattr(param, KEYWORDS).append(dict(optimizer_kwargs))
        if first and register_hook and param.requires_grad:
            param.register_post_accumulate_grad_hook(_step)


def _step(param: Tensor) -> None:
    for optimizer in getattr(param, APPLIED):
        optimizer.step()
    param.grad = None


def in_backward_optimizers(module: Module) -> list[Any]:
    """Return the optimizers of a module's parameters that step in the backward pass."""
    return [one for param in module.parameters() for one in getattr(param, APPLIED, [])]
