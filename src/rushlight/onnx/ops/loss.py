"""Losses."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import functional
from rushlight.onnx.registry import operator

_NEVER = rl.iinfo(rl.int64).min  # what is ignored where nothing is: no class that a target names


def _likelihood(scores: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignored: int | None) -> Tensor:
    """Minus the score of each target, times the weight of its class."""
    index = _NEVER if ignored is None else ignored
    return functional.nll_loss(scores, target.to(rl.int64), weight, ignore_index=index, reduction=reduction)


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the score of each target."""
    return _likelihood(scores, target, weight, reduction, ignore_index)


@operator("SoftmaxCrossEntropyLoss", counted=True)
def softmax_cross_entropy(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int = 1,
) -> object:
    """Minus the logarithm of softmax at each target; and this logarithm."""
    logarithms = rl.log_softmax(scores, 1)
    return (_likelihood(logarithms, target, weight, reduction, ignore_index), logarithms)[:outputs]
