"""Limits on gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.creation import tensor as make_tensor
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require, warn

Tensors = Tensor | Iterable[Tensor]


def _gradients(parameters: Tensors) -> list[Tensor]:
    params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for param in params:
        require(isinstance(param, Tensor), "A001", "parameters must be tensors", parameter=param)
    return [param.grad for param in params if param.grad is not None]


@checked
@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of all tensors' elements together, as a 0-d tensor.

    Of DTensors on one mesh it is one too, and partial; where tensors lie on several meshes, it is a plain tensor.
    """
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not listed:
        return make_tensor(0.0)
    norm = OPERATORS["linalg_vector_norm"]
    norms = _on_one_mesh([norm(one, float(norm_type)) for one in listed])
    total = norm(OPERATORS["stack"](norms), float(norm_type)) if len(norms) > 1 else norms[0]
    if error_if_nonfinite and not math.isfinite(float(total)):
        hint = "to scale by the non-finite norm anyway, pass error_if_nonfinite=False"
        fail("A004", f"The total norm of order {norm_type} for gradients is non-finite", norm=float(total), hint=hint)
    return total


def _on_one_mesh(norms: list[Tensor]) -> list[Tensor]:
    """Norms that one operator takes: each is made whole on all ranks where they are divided on several meshes."""
    if all(type(one) is Tensor for one in norms) or len({getattr(one, "device_mesh", None) for one in norms}) == 1:
        return norms
    return [one.full_tensor() if hasattr(one, "full_tensor") else one for one in norms]


@checked
@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients by `max_norm / total_norm` where that is below 1."""
    scale = OPERATORS["minimum"](max_norm / (total_norm + 1e-6), 1.0)
    for gradient in _gradients(parameters):
        gradient.mul_(scale)


@checked
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients together so that their norm is at most `max_norm`.

    Return the norm before, as a 0-d tensor.
    """
    params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(params), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(params, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients as `clip_grad_norm_`, which has taken its place, does."""
    hint = "use torch.nn.utils.clip_grad_norm_"
    warn("A009", "nn.utils.clip_grad_norm is deprecated", key="clip_grad_norm", hint=hint)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@checked
@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Hold every element of the gradients between `-clip_value` and `clip_value`."""
    limit = float(clip_value)
    for gradient in _gradients(parameters):
        gradient.copy_(OPERATORS["maximum"](OPERATORS["minimum"](gradient, limit), -limit))
