"""Normalisation by statistics and by lengths."""

from __future__ import annotations

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require


@checked
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Any,
    weight: object = None,
    bias: object = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel by its running statistics, or by the batch's when training.

    Training also moves the running statistics, in place.
    """
    if training and input.ndim >= 2:
        message = "Expected more than 1 value per channel when training"
        require(holds(input.numel() != input.shape[1], message), "A002", message, input=input)
    output, mean, variance = OPERATORS["batch_norm"](
        input, running_mean, running_var, weight, bias, training=training, momentum=momentum, eps=eps
    )
    if training and running_mean is not None:
        running_mean.copy_(mean)
        running_var.copy_(variance)
    return output


@checked
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise over groups of channels and all dims after them."""
    message = "Expected more than 1 value per channel when training"
    require(holds(input.numel() != num_groups, message), "A002", message, input=input)
    return ops.group_norm(input, num_groups, weight, bias, eps)


@checked
def instance_norm(
    input: Tensor,
    running_mean: object = None,
    running_var: object = None,
    weight: object = None,
    bias: object = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample."""
    if running_mean is not None or not use_input_stats:
        fail("A006", "instance_norm: running statistics are not supported yet")
    if input.ndim >= 2:
        message = "Expected more than 1 spatial element when training"
        several = holds(input.numel() != input.shape[0] * input.shape[1], message)
        require(several, "A002", message, input=input)
    return ops.instance_norm(input, weight, bias, eps)


@checked
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Return the input over its norm along a dim."""
    length = ops.linalg_vector_norm(input, p, dim, True)
    result = input / ops.maximum(length, eps)
    return result if out is None else out.copy_(result)


@checked
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide each element by a power of the mean square over `size` neighbouring channels."""
    require(input.ndim >= 3, "S002", "local_response_norm: the input needs at least 3 dims", input=input)
    require(size > 0, "A002", "local_response_norm: size must be positive", size=size)
    return input / (_mean_squares(input, size // 2, (size - 1) // 2) * alpha + k) ** beta


def _mean_squares(input: Tensor, before: int, after: int) -> Tensor:
    """The mean square of channels from `before` an element to `after` it, 0 where there is none."""
    squares = (input * input).flatten(2).unsqueeze(1)
    padded = ops.pad(squares, (0, 0, before, after))
    return ops.avg_pool2d(padded, (before + 1 + after, 1), 1).reshape(input.shape)
