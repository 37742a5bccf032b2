"""Normalisation by statistics and by lengths."""

from __future__ import annotations

import math
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import written
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


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
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample, by running statistics unless `use_input_stats`.

    With both, the running statistics move, in place, towards the means of the samples' statistics.
    """
    both = (running_mean is None) == (running_var is None)
    require(both, "A004", "instance_norm: running_mean and running_var go together")
    if not use_input_stats:
        has_statistics = running_mean is not None
        require(
            has_statistics, "A004", "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if input.ndim >= 2:
        message = "Expected more than 1 spatial element when training"
        several = holds(math.prod(input.shape[2:]) != 1, message)
        require(several, "A002", message, input=input)
    if running_mean is not None and running_var is not None:
        with no_grad():
            dims = tuple(range(2, input.ndim))
            for running, batch_statistic in ((running_mean, input.mean(dims)), (running_var, input.var(dims))):
                running.lerp_(batch_statistic.mean(0).to(dtype=running.dtype), momentum)
    return ops.instance_norm(input, weight, bias, eps)


@checked
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Return the input over its norm along a dim."""
    length = ops.linalg_vector_norm(input, p, dim, True)
    result = input / ops.maximum(length, eps)
    return written(result, out)


@checked
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide each element by a power of the mean square over `size` neighbouring channels."""
    require(input.ndim >= 3, "S002", "local_response_norm: the input needs at least 3 dims", input=input)
    require(size > 0, "A002", "local_response_norm: size must be positive", size=size)
    return input / (mean_squares(input, size // 2, (size - 1) // 2) * alpha + k) ** beta


def mean_squares(input: Tensor, before: int, after: int) -> Tensor:
    """Return the mean square of channels from `before` an element to `after` it, 0 where there is none."""
    squares = (input * input).flatten(2).unsqueeze(1)
    padded = ops.pad(squares, (0, 0, before, after))
    return ops.avg_pool2d(padded, (before + 1 + after, 1), 1).reshape(input.shape)
