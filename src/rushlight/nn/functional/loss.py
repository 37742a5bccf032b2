"""Losses of predictions against targets of the same shape, or against classes."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that PyTorch's older arguments ask for, `reduction` where they are not given."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    return reduction


def _weighted(losses: Tensor, weight: object, reduction: str) -> Tensor:
    """Elementwise losses times their weights, then reduced; the mean is over the sum of weights."""
    scaled = losses * weight
    if reduction == "none":
        return scaled
    return scaled.sum() if reduction == "sum" else scaled.sum() / ops.broadcast_to(weight, losses.shape).sum()


@checked
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: object = None,
) -> Tensor:
    """Return squared differences, reduced."""
    reduction = reduction_of(size_average, reduce, reduction)
    if weight is not None:
        return _weighted(ops.mse_loss(input, target, "none"), weight, reduction)
    return ops.mse_loss(input, target, reduction)


@checked
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: object = None,
) -> Tensor:
    """Return absolute differences, reduced."""
    reduction = reduction_of(size_average, reduce, reduction)
    if weight is not None:
        return _weighted(ops.l1_loss(input, target, "none"), weight, reduction)
    return ops.l1_loss(input, target, reduction)


@checked
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return differences, squared below `beta` and absolute above, reduced."""
    return ops.smooth_l1_loss(input, target, reduction_of(size_average, reduce, reduction), beta)


@checked
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: object = None
) -> Tensor:
    """Return smooth_l1_loss times `delta`, reduced."""
    if weight is not None:
        return _weighted(ops.huber_loss(input, target, "none", delta), weight, reduction)
    return ops.huber_loss(input, target, reduction, delta)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: object = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the negative log probability of the targets under softmax, reduced.

    Targets are classes, or probabilities of all classes.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: object = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative of the targets' log probabilities, reduced."""
    return ops.nll_loss(input, target, weight, ignore_index, reduction_of(size_average, reduce, reduction))


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: object = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross-entropy of probabilities, reduced."""
    return ops.binary_cross_entropy(input, target, weight, reduction_of(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: object = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: object = None,
) -> Tensor:
    """Return the cross-entropy of the sigmoid of the input, reduced."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the divergence of log probabilities from the target's probabilities, reduced."""
    return ops.kl_div(input, target, reduction_of(size_average, reduce, reduction), log_target)


def reduced(losses: Tensor, reduction: str, op: str) -> Tensor:
    """Return losses, or their mean or sum."""
    valid = reduction in ("none", "mean", "sum")
    require(valid, "A002", f"{op}: reduction is none, mean or sum", reduction=reduction)
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()
